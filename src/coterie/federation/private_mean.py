"""Private training: models that tell nothing of any one client. The unit is one client, and the server is trusted.

In every round a client takes part by a coin of its own, of probability q. Its update is cut to the length S and counts
once, whatever its samples; the sum of a group's updates has noise, also where nobody came; and it is divided by how
many clients were to be expected, which is no secret, not by how many came:

    θ_g ← θ_g + (Σ_i Δ_i min(1, S/‖Δ_i‖) + N(0, z²S²)) / (q n_g)

Adding or removing a client changes one of these sums, by at most S, in the rounds in which its coin says so: all groups
together cost what one does (McMahan et al., 2018).

Where sums are secure, clients cut their updates themselves, and the server adds the noise to the sum that it unmasks. A
sum of fewer than some clients stays masked, and nothing is added: one client more or less could then change a model by
the whole sum. So groups must be so large that this hardly ever happens; δ has a share for it.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Generic

import numpy as np
import numpy.typing as npt

from coterie.errors import CoterieError
from coterie.federation.aggregation import Contribution, K
from coterie.messages import Array, ModelSpec, Params, frozen
from coterie.messages.params import STATISTICS
from coterie.models import initial
from coterie.models.learning import frozen_part
from coterie.streams import stream

MISSED = 0.01
"""The share of δ for sums that are not there, as too few clients were in them."""


@dataclass(frozen=True)
class PrivateTraining:
    """How the models of a run are made private."""

    epsilon: float
    delta: float
    clip: float
    """S: the longest update, by its Euclidean norm."""
    noise: float
    """z: the noise's standard deviation over S."""
    rate: float
    """q: the probability by which a client takes part in a round."""
    min_group: int
    """Groups of fewer clients are refused: what is left of their updates is noise."""
    least: int = 0
    """Sums of fewer clients are not there, as they stay masked; 0: all are."""
    rounds: int = 0

    @property
    def noise_delta(self) -> float:
        """The part of δ that the noise may spend; the rest is for sums that are not there."""
        return self.delta * (1 - MISSED) if self.least else self.delta

    def error_in_sizes(self, sizes: Iterable[float]) -> str | None:
        """Say which group is too small, of groups of these numbers of clients.

        With probability p some sum of some round is not there, for these clients or for one less: what is published is
        (ε, δ + (1 + e^ε) p)-private then, if it is (ε, δ)-private where all are.
        """
        sizes = [*sizes]
        if (smallest := min(sizes, default=self.min_group)) < self.min_group:
            return (
                f"a group has {smallest:g} clients, fewer than min_group = {self.min_group} of dp_training: ask for "
                "fewer groups, or lower min_group"
            )
        p = self.rounds * sum(chance_of_fewer(math.floor(size) - 1, self.rate, self.least) for size in sizes)
        allowed = MISSED * self.delta / (1 + math.exp(self.epsilon))
        if p <= allowed:
            return None
        return (
            f"of a group of {smallest:g} clients, each by a coin of {self.rate:g}, fewer than secure_min = {self.least}"
            f" take part too often (with probability {p:.1g} in a run, {allowed:.1g} at most): raise fraction, ask "
            "for fewer groups, or lower secure_min"
        )


class PrivateSums(Generic[K]):
    """Sums of clipped updates by group, which end in noised models."""

    def __init__(self, private: PrivateTraining) -> None:
        self._private = private
        self._sums: dict[K, dict[str, npt.NDArray[np.float64]]] = {}

    def add(self, group: K, member: Contribution) -> None:
        """Add a client's update; it counts once."""
        total = self._sums.setdefault(group, {})
        for name, change in clipped(member.params, member.start, self._private.clip).items():
            total[name] = total[name] + change if name in total else change

    def means(
        self, models: Mapping[K, Params], sizes: Mapping[K, float], seed: int, round: int
    ) -> dict[K, dict[str, Array]]:
        """Return a noised model for every group, given the models that its clients started from and their number."""
        if error := self._private.error_in_sizes(sizes.get(group, 0) for group in models):
            raise CoterieError(error)
        return {
            group: self._noised(model, self._sums.get(group, {}), sizes.get(group, 0), (seed, round, place))
            for place, (group, model) in enumerate(models.items())
        }

    def _noised(
        self, model: Params, total: Mapping[str, npt.NDArray[np.float64]], size: float, address: tuple[int, int, int]
    ) -> dict[str, Array]:
        private, (seed, *place) = self._private, address
        rng, sigma, expected = stream(seed, "training noise", *place), private.noise * private.clip, private.rate * size
        result: dict[str, Array] = {}
        for name in sorted(model):
            noise = sigma * rng.standard_normal(model[name].shape)
            result[name] = np.asarray(model[name] + (total.get(name, 0.0) + noise) / expected, model[name].dtype)
        return frozen({name: result[name] for name in model})


def clipped(params: Params, start: Params, clip: float) -> dict[str, npt.NDArray[np.float64]]:
    """Return an update, cut to a length.

    >>> clipped({"w": np.float32([3, 4])}, {"w": np.zeros(2, np.float32)}, 1.0)
    {'w': array([0.6, 0.8])}
    """
    change = {name: np.subtract(value, start[name], dtype=np.float64) for name, value in params.items()}
    length = math.sqrt(sum(float(np.square(part).sum()) for part in change.values()))
    share = min(1.0, clip / length) if length else 1.0
    return {name: share * part for name, part in change.items()}


def chance_of_fewer(clients: int, rate: float, least: int) -> float:
    """Return the probability that fewer than `least` of so many clients take part, each by a coin of its own.

    >>> chance_of_fewer(4, 0.5, 2), chance_of_fewer(9, 1.0, 9), chance_of_fewer(8, 1.0, 9)
    (0.3125, 0.0, 1.0)
    """
    from scipy.stats import binom

    return float(binom.cdf(least - 1, max(clients, 0), rate))


def error_in_network(spec: ModelSpec, seed: int) -> str | None:
    """Say why a network can't be trained privately, or None."""
    if frozen_part(spec, seed):
        return f"network '{spec.name}' freezes parts, which would get noise: take another"
    return error_in_counted(spec, seed)


def error_in_counted(spec: ModelSpec, seed: int) -> str | None:
    """Say what of a network is counted over samples in place of being learnt, and not frozen; or None."""
    kept = frozen_part(spec, seed)
    for name, value in initial(spec, seed).items():
        if name not in kept and (name.endswith(STATISTICS) or value.dtype.kind != "f"):
            return f"'{name}' of network '{spec.name}' is counted, not learnt: take one without BatchNorm"
    return None
