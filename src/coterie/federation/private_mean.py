"""Private training: models that tell nothing of any one client. The unit is one client; the server is trusted.

In every round a client takes part by a coin of its own, of probability q. Its update is cut to the length S and counts
once, whatever its samples; the sum of a group's updates has noise, also where nobody came; and it is divided by how
many clients were to be expected, which is no secret, not by how many came:

    θ_g ← θ_g + (Σ_i Δ_i min(1, S/‖Δ_i‖) + N(0, z²S²)) / (q n_g)

Adding or removing a client changes one of these sums, by at most S, in the rounds in which its coin says so: all groups
together cost what one does (McMahan et al., 2018).

The clip may follow a quantile γ of the updates' lengths (Andrew et al., 2021). Each client adds a bit to one more sum,
½ if its update is within S, else −½, which has noise of its own; S goes where the share of those within leads:

    s = ½ + (Σ_i (1[‖Δ_i‖ ≤ S] − ½) + N(0, σ_b²)) / (q N),    S ← S exp(−η (s − γ))

A client changes this sum by ½, so that with z_Δ = (z⁻² − (2σ_b)⁻²)^(−½) for updates both sums cost what z does. There
is one S for all groups: the bits of all make a better share than those of one, at the same cost.

Noise may also be *local*: each client cuts its update and adds N(0, (2zS)²) before it sends it, so that the server need
not be trusted. Any two updates are at most 2S apart, and who takes part is seen, so that no sampling helps: T rounds
cost T releases. The sum of m clients then has noise of 2zS√m in place of zS.

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
from coterie.federation.noise_source import NoiseSource
from coterie.messages import Array, ModelSpec, Params, frozen
from coterie.messages.params import STATISTICS
from coterie.models import initial
from coterie.models.learning import frozen_part
from coterie.privacy import Randomness, cut, update_noise
from coterie.privacy.updates import change, length

MISSED = 0.01
"""The share of δ for sums that are not there, as too few clients were in them."""
CLIP_RATE = 0.2
"""η: how fast a clip goes to its quantile, as Andrew et al. have it."""
BITS_NOISE = 1 / 20
"""σ_b as a share of the clients that are expected, as Andrew et al. have it."""

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class PrivateTraining:
    """How the models of a run are made private."""

    epsilon: float
    delta: float
    clip: float
    """S: the longest update, by its Euclidean norm; at first, where it follows a quantile."""
    noise: float
    """z: the noise's standard deviation over S; where updates' lengths are counted too, that of both together."""
    rate: float
    """q: the probability by which a client takes part in a round."""
    min_group: int
    """Groups of fewer clients are refused: what is left of their updates is noise."""
    least: int = 0
    """Sums of fewer clients are not there, as they stay masked; 0: all are."""
    rounds: int = 0
    quantile: float | None = None
    """γ: which quantile of the updates' lengths the clip follows; None: it stays."""
    local: bool = False
    """Whether clients have cut their updates, and added the noise: of z times 2S each, by which two may differ."""

    @property
    def counts_on_secrecy(self) -> bool:
        """Whether ε is that of clients of whom nobody knows whether they took part."""
        return self.rate < 1 and not self.local

    def bits_noise(self, clients: float) -> float:
        """Return σ_b where so many clients are in all groups: few bits have at least z, or nothing is left of it."""
        return max(BITS_NOISE * self.rate * clients, self.noise)

    def noise_of_updates(self, clients: float) -> float:
        """Return z_Δ where so many clients are in all groups."""
        return self.noise if self.quantile is None else update_noise(self.noise, self.bits_noise(clients))

    def next_clip(self, clip: float, within: float, clients: float, rng: Randomness) -> float:
        """Return the clip of the next round, given the sum of this round's bits; no group has a say but by them."""
        assert self.quantile is not None  # where a clip follows it
        told = within + self.bits_noise(clients) * float(rng.standard_normal(1)[0])
        share = min(max(0.5 + told / (self.rate * clients), 0.0), 1.0)
        return clip * math.exp(-CLIP_RATE * (share - self.quantile))

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

    def __init__(self, private: PrivateTraining, clip: float | None = None) -> None:
        """`clip` is that of this round, where it follows a quantile; None: the first."""
        self._private = private
        self.clip = private.clip if clip is None else clip
        self._sums: dict[K, dict[str, Floats]] = {}
        self._within = 0.0
        """Σ (1[‖Δ_i‖ ≤ S] − ½)."""

    def add(self, group: K, member: Contribution) -> None:
        """Add a client's update; it counts once."""
        total, update = self._sums.setdefault(group, {}), change(member.params, member.start)
        self._within += 0.5 if length(update) <= self.clip else -0.5
        for name, part in (update if self._private.local else cut(update, self.clip)).items():
            total[name] = total[name] + part if name in total else part

    def means(
        self, models: Mapping[K, Params], sizes: Mapping[K, float], source: NoiseSource, round: int
    ) -> dict[K, dict[str, Array]]:
        """Publish a noised model for every group, given the models that its clients started from and their number.

        Where the clip follows a quantile, it then is that of the next round. Groups that are too small are refused at
        the start; one that becomes so later, or comes with newcomers, keeps its model: sizes are no secret.
        """
        small = {group for group in models if sizes.get(group, 0) < self._private.min_group} if round > 1 else set()
        if error := self._private.error_in_sizes(sizes.get(group, 0) for group in models if group not in small):
            raise CoterieError(error)
        clients = float(sum(sizes.get(group, 0) for group in models if group not in small))
        sigma = 0.0 if self._private.local else self._private.noise_of_updates(clients) * self.clip
        means, clip = {}, self.clip
        for place, (group, model) in enumerate(models.items()):
            if group in small:
                means[group] = dict(model)
                continue
            rng = source.noise("training noise", round, place)
            means[group] = self._noised(model, group, sigma, sizes.get(group, 0), rng)
        if self._private.quantile is not None and clients:
            clip = self._private.next_clip(clip, self._within, clients, source.noise("clip noise", round))
        means, self.clip = source.publish(round, means, clip)
        return means

    def _noised(self, model: Params, group: K, sigma: float, size: float, rng: Randomness) -> dict[str, Array]:
        total, expected = self._sums.get(group, {}), self._private.rate * size
        result: dict[str, Array] = {}
        for name in sorted(model):
            noise = sigma * rng.standard_normal(model[name].size).reshape(model[name].shape)
            result[name] = np.asarray(model[name] + (total.get(name, 0.0) + noise) / expected, model[name].dtype)
        return frozen({name: result[name] for name in model})


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
