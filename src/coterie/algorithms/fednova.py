"""FedNova (Wang et al., NeurIPS 2020)."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from coterie.algorithms import algorithm
from coterie.algorithms.fedavg import FedAvg
from coterie.federation import Federation
from coterie.messages import Array, TrainReply, frozen


def normaliser(steps: int, momentum: float) -> float:
    """Return a_i, the ℓ1 norm of the weights that local SGD with momentum gives to its gradients.

    >>> normaliser(3, 0.0), normaliser(2, 0.5)
    (3.0, 2.5)
    """
    return (steps - momentum * (1 - momentum**steps) / (1 - momentum)) / (1 - momentum)


@algorithm("fednova")
@dataclass(kw_only=True)
class FedNova(FedAvg):
    """FedAvg of normalised updates, so that clients who take more steps do not pull harder."""

    def aggregate(self, fed: Federation, trained: Sequence[TrainReply]) -> dict[str, Array]:
        """θ ← θ − (Σ p_i a_i) Σ p_i (θ − θ_i)/a_i, with p_i = n_i/Σn."""
        p = np.array([t.samples for t in trained], np.float64)
        p /= p.sum()
        a = np.array([normaliser(t.steps, fed.plan.momentum) for t in trained])
        weights = (p @ a) * p / a
        mean: dict[str, Array] = {}
        for name, received in self.model.items():
            if not np.issubdtype(received.dtype, np.floating):
                mean[name] = np.asarray(np.maximum.reduce([t.params[name] for t in trained]))
                continue
            step = np.zeros(received.shape)
            for weight, t in zip(weights, trained, strict=True):
                step += weight * (received.astype(np.float64) - t.params[name])
            mean[name] = (received - step).astype(received.dtype)
        return frozen(mean)
