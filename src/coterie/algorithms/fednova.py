"""FedNova (Wang et al., NeurIPS 2020)."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from coterie.algorithms import algorithm
from coterie.algorithms.fedavg import FedAvg
from coterie.federation import Federation
from coterie.messages import Array, Plan, TrainReply, average_models, frozen
from coterie.messages.params import STATISTICS


def normaliser(steps: int, plan: Plan) -> float:
    """Return a_i = ‖a‖₁, a_k = Σ_{s ≥ k} ρ^(s−k) η_s/η_0: the weights that local SGD with momentum gives its gradients.

    >>> from coterie.messages import Schedule
    >>> normaliser(3, Plan(Schedule(0.1))), normaliser(2, Plan(Schedule(0.1), momentum=0.5))
    (3.0, 2.5)
    """
    rho = plan.momentum
    if not plan.lr.decay:
        return (steps - rho * (1 - rho**steps) / (1 - rho)) / (1 - rho)
    return sum(plan.lr.at(s) / plan.lr.at(0) * (1 - rho ** (s + 1)) / (1 - rho) for s in range(steps))


@algorithm("fednova")
@dataclass(kw_only=True)
class FedNova(FedAvg):
    """FedAvg of normalised updates, so that clients who take more steps do not pull harder."""

    def aggregate(self, fed: Federation, trained: Sequence[TrainReply]) -> dict[str, Array]:
        """θ ← θ − (Σ p_i a_i) Σ p_i (θ − θ_i)/a_i, with p_i = n_i/Σn; statistics of BatchNorm are averaged by p."""
        p = np.array([t.samples for t in trained], np.float64)
        p /= p.sum()
        a = np.array([normaliser(t.steps, fed.plan) for t in trained])
        weights = (p @ a) * p / a
        mean = average_models(trained)
        for name, received in self.model.items():
            if not name.endswith(STATISTICS):
                step = np.zeros(received.shape)
                for weight, t in zip(weights, trained, strict=True):
                    step += weight * (received.astype(np.float64) - t.params[name])
                mean[name] = (received - step).astype(received.dtype)
        return frozen(mean)
