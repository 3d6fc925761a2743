"""FedNova (Wang et al., NeurIPS 2020)."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from coterie.algorithms import algorithm
from coterie.algorithms.fedavg import FedAvg
from coterie.federation import Answers, Contribution, Federation, Fold
from coterie.messages import Array, ClientId, Params, TrainReply, Weighing, frozen, normaliser
from coterie.messages.params import STATISTICS


@algorithm("fednova")
@dataclass(kw_only=True)
class FedNova(FedAvg):
    """FedAvg of normalised updates, so that clients who take more steps do not pull harder."""

    def error_in_optimiser(self, name: str) -> str | None:
        """a_i is known of SGD only."""
        return None if name == "sgd" else f"the weights that {name} gives to gradients in an update have no formula"

    @property
    def weighing(self) -> Weighing:
        """Updates count over their normalisers; clients divide by them where only sums are seen."""
        return "normalised"

    def aggregate(self, fed: Federation, trained: Answers) -> dict[str, Array]:
        """θ ← θ − (Σ p_i a_i) Σ p_i (θ − θ_i)/a_i, with p_i = n_i/Σn; statistics of BatchNorm are averaged by p.

        With M, the mean of the θ_i weighted by n_i/a_i, that is θ + s (M − θ), where s = Σ p_i a_i · Σ p_i/a_i.
        Long updates are cut before that. A rule that counts each client once is applied to θ − a (θ − θ_i)/a_i instead,
        with a the median of the a_i.
        """
        if fed.settings.aggregation.rule not in ("mean", "clipped"):
            return self.middle(fed, dict(trained.items()))
        learnt = [name for name in self.model if not name.endswith(STATISTICS)]
        fold, sums = Fold[int](fed.aggregator), np.zeros(3)
        for client, answer in trained.items():
            member, a = fold.contribution(client, answer, self.model), normaliser(answer.steps, fed.plan)
            n = float(member.weight)
            fold.add(0, member._replace(tensor_weights=dict.fromkeys(learnt, np.array(n / a))))
            sums += n, n * a, n / a
        mean, s = fold.means(step=False)[0], sums[1] * sums[2] / sums[0] ** 2
        for name in learnt:
            received = self.model[name].astype(np.float64)
            mean[name] = (received + s * (mean[name] - received)).astype(self.model[name].dtype)
        return fed.aggregator.optimiser.step(self.model, frozen(mean))

    def middle(self, fed: Federation, trained: Mapping[ClientId, TrainReply]) -> dict[str, Array]:
        """Apply a rule that counts each client once to θ − a (θ − θ_i)/a_i."""
        a = np.array([normaliser(answer.steps, fed.plan) for answer in trained.values()])
        scales = float(np.median(a)) / a
        members = fed.aggregator.contributions(trained, self.model)
        return fed.aggregator.averages({0: [_scaled(m, s) for m, s in zip(members, scales, strict=True)]})[0]


def _scaled(member: Contribution, scale: float) -> Contribution:
    """Return what a client brings with its update that many times as long; what BatchNorm counts stays."""

    def moved(name: str, value: Array) -> Array:
        if value.dtype.kind != "f" or name.endswith(STATISTICS):
            return value
        start = member.start[name].astype(np.float64)
        return np.asarray(start + scale * (value - start), value.dtype)

    params: Params = {name: moved(name, value) for name, value in member.params.items()}
    return member._replace(params=params)
