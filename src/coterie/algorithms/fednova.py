"""FedNova (Wang et al., NeurIPS 2020)."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from coterie.algorithms import algorithm
from coterie.algorithms.fedavg import FedAvg
from coterie.federation import Contribution, Federation
from coterie.messages import Array, ClientId, Params, Plan, TrainReply, frozen, weighted_mean
from coterie.messages.params import STATISTICS


def normaliser(steps: int, plan: Plan) -> float:
    """Return a_i = ‖a‖₁, a_k = Σ_{s ≥ k} ρ^(s−k) η_s/η_0: the weights that local SGD with momentum gives its gradients.

    >>> from coterie.messages import Schedule
    >>> normaliser(3, Plan(Schedule(0.1))), normaliser(2, Plan(Schedule(0.1), momentum=0.5))
    (3.0, 2.5)
    """
    rho, few = plan.momentum, min(steps, 10**6)
    if not plan.lr.decay:
        return (steps - rho * (1 - rho**steps) / (1 - rho)) / (1 - rho)
    first = sum(plan.lr.at(s) / plan.lr.at(0) * (1 - rho ** (s + 1)) / (1 - rho) for s in range(few))
    rest = plan.lr.path(steps) - plan.lr.path(few) if steps > few else 0.0  # where ρ^s is 0
    return first + rest / plan.lr.at(0) / (1 - rho)


@algorithm("fednova")
@dataclass(kw_only=True)
class FedNova(FedAvg):
    """FedAvg of normalised updates, so that clients who take more steps do not pull harder."""

    def error_in_optimiser(self, name: str) -> str | None:
        """a_i is known of SGD only."""
        return None if name == "sgd" else f"the weights that {name} gives to gradients in an update have no formula"

    def aggregate(self, fed: Federation, trained: Mapping[ClientId, TrainReply]) -> dict[str, Array]:
        """θ ← θ − (Σ p_i a_i) Σ p_i (θ − θ_i)/a_i, with p_i = n_i/Σn; statistics of BatchNorm are averaged by p.

        Long updates are cut before that. A rule that counts each client once is applied to θ − a (θ − θ_i)/a_i instead,
        with a the median of the a_i.
        """
        a = np.array([normaliser(t.steps, fed.plan) for t in trained.values()])
        members = fed.aggregator.contributions(trained, self.model)
        if fed.settings.aggregation.rule not in ("mean", "clipped"):
            scales = float(np.median(a)) / a
            return fed.aggregator.averages({0: [_scaled(m, s) for m, s in zip(members, scales, strict=True)]})[0]
        members = [*fed.aggregator.screened({0: members})[0]]
        p = np.array([member.weight for member in members], np.float64)
        mean = weighted_mean([member.params for member in members], p.tolist())
        p /= p.sum()
        weights = (p @ a) * p / a
        for name, received in self.model.items():
            if not name.endswith(STATISTICS):
                step = np.zeros(received.shape)
                for weight, member in zip(weights, members, strict=True):
                    step += weight * (received.astype(np.float64) - member.params[name])
                mean[name] = (received - step).astype(received.dtype)
        return fed.aggregator.optimiser.step(self.model, frozen(mean))


def _scaled(member: Contribution, scale: float) -> Contribution:
    """Return what a client brings with its update that many times as long; what BatchNorm counts stays."""

    def moved(name: str, value: Array) -> Array:
        if value.dtype.kind != "f" or name.endswith(STATISTICS):
            return value
        start = member.start[name].astype(np.float64)
        return np.asarray(start + scale * (value - start), value.dtype)

    params: Params = {name: moved(name, value) for name, value in member.params.items()}
    return member._replace(params=params)
