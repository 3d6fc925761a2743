"""Putting together what clients trained: a mean, or what lying clients can't move as they like.

``mean`` is weighted by samples. ``clipped`` is the same mean, after updates have been cut to a multiple of the median
length of their group's. ``median``, ``trimmed`` and ``krum`` count each client once. An update is what was trained less
the model that the client started from. What BatchNorm counts (running means and variances) has lengths of its own.
"""

import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from coterie.messages import Array, ClientId, Params, TrainReply, frozen, weighted_mean
from coterie.messages.params import STATISTICS

AggregationRule = Literal["mean", "clipped", "median", "trimmed", "krum"]
Mixing = Literal["neighbours", "none"]
K = TypeVar("K", bound=Hashable)
CLIPPED, WEIGHT_CUT = "clipped", "weight cut"
"""Kinds of events."""
ROUNDING = 1 + 1e-5
"""What was cut before is a little longer than its limit."""
FEW = 3
"""With fewer replies a group has no median of its own: then that of all clients of the round counts."""


@dataclass(frozen=True)
class AggregationOptions:
    """What the user asked for."""

    rule: AggregationRule = "mean"
    clip: float = 3.0
    """Of ``clipped``: the longest update, as a multiple of the median."""
    trim: float = 0.25
    """Of ``trimmed``: the share left out at either end, rounded up."""
    mixing: Mixing = "neighbours"
    """Of ``median`` and ``trimmed``: whether each model is first replaced by the mean of those nearest to it."""
    assumed_liars: int | None = None
    """Of ``krum``: how many of a group lie; None: as many as the rule bears."""
    max_samples: int | None = None
    """A client that declares more is left out."""
    max_weight: float | None = None
    """No client counts for more than this multiple of the median number of samples."""


class Contribution(NamedTuple):
    """What a client brings to a mean."""

    client: ClientId
    params: Params
    start: Params
    """What it started from; it may have more tensors."""
    weight: float


@dataclass(frozen=True)
class Aggregator:
    """The one way in which methods put together what clients trained."""

    options: AggregationOptions
    declared: Callable[[], Mapping[ClientId, int]]
    """Says how many samples clients declared."""
    note: Callable[[ClientId, str, str], None]
    """Notes an event: whose, its kind, its description."""

    def average(self, trained: Mapping[ClientId, TrainReply], start: Params, equal: bool = False) -> dict[str, Array]:
        """Put together what clients trained from one model: by their samples, or all count alike."""
        return self.averages({0: self.contributions(trained, start, equal)})[0]

    def contributions(
        self, trained: Mapping[ClientId, TrainReply], start: Params | Callable[[ClientId], Params], equal: bool = False
    ) -> list[Contribution]:
        """Return what clients bring to a mean, given what all or each started from; no weight is beyond the limit."""
        samples = {client: 1 if equal else answer.samples for client, answer in trained.items()}
        weights = samples if equal else self.weights(samples)
        return [
            Contribution(c, answer.params, start(c) if callable(start) else start, weights[c])
            for c, answer in trained.items()
        ]

    def weights(self, samples: Mapping[ClientId, int]) -> Mapping[ClientId, float]:
        """Return how much clients with so many samples count; by rules that count each once, at most as the median."""
        most = 1.0 if self.options.rule in ("median", "trimmed", "krum") else self.options.max_weight
        if most is None:
            return samples
        declared = [count for count in self.declared().values() if count > 0]
        limit = most * float(np.median(declared)) if declared else math.inf
        for client, count in samples.items():
            if count > limit and most == self.options.max_weight:
                self.note(client, WEIGHT_CUT, f"it counts for {limit:g} samples, not for {count}")
        return {client: min(count, limit) for client, count in samples.items()}

    def averages(self, groups: Mapping[K, Sequence[Contribution]]) -> dict[K, dict[str, Array]]:
        """Put together the models of each group; groups may share clients."""
        return {key: self._average(members) for key, members in self.screened(groups).items() if members}

    def tamed(
        self, trained: Mapping[ClientId, TrainReply], start: Params | Callable[[ClientId], Params]
    ) -> Mapping[ClientId, TrainReply]:
        """Cut what is too long before groups are formed by it; by any rule but the mean."""
        if self.options.rule == "mean":
            return trained
        members = self.contributions(trained, start, equal=True)
        cut = self.screened({0: members}, always=True)[0]
        return {m.client: replace(trained[m.client], params=m.params) for m in cut}

    def screened(
        self, groups: Mapping[K, Sequence[Contribution]], always: bool = False
    ) -> dict[K, Sequence[Contribution]]:
        """Cut the updates that are too long, where the rule does so; small groups are cut by any rule but the mean."""
        rule = self.options.rule
        always = always or rule == "clipped"
        if rule == "mean" or not (always or any(len(members) < FEW for members in groups.values())):
            return dict(groups)
        lengths: dict[tuple[ClientId, int], tuple[float, float]] = {}
        for members in groups.values():
            for member in members:
                key = member.client, id(member.start)
                if key not in lengths:
                    lengths[key] = update_lengths(member.params, member.start)
        everyone = [*{client: length for (client, _), length in lengths.items()}.values()]
        result: dict[K, Sequence[Contribution]] = {}
        for group, members in groups.items():
            own = [lengths[member.client, id(member.start)] for member in members]
            few = len(own) < FEW
            limits = clip_limits(everyone if few else own, self.options.clip) if always or few else (math.inf, math.inf)
            result[group] = [self._cut(m, length, limits) for m, length in zip(members, own, strict=True)]
        return result

    def _cut(self, member: Contribution, lengths: tuple[float, float], limits: tuple[float, float]) -> Contribution:
        if lengths[0] <= limits[0] * ROUNDING and lengths[1] <= limits[1] * ROUNDING:
            return member
        what, which = ("update", 0) if lengths[0] > limits[0] else ("change of BatchNorm's statistics", 1)
        detail = f"its {what} of length {lengths[which]:.3g} was cut to {limits[which]:.3g}"
        self.note(member.client, CLIPPED, f"{detail}, {self.options.clip:g} times the median")
        shares = [limit / length if length > limit else 1.0 for length, limit in zip(lengths, limits, strict=True)]
        return member._replace(params=shortened(member.params, member.start, *shares))

    def _average(self, members: Sequence[Contribution]) -> dict[str, Array]:
        models, n = [member.params for member in members], len(members)
        match self.options.rule:
            case "mean" | "clipped":
                return weighted_mean(models, [member.weight for member in members])
            case "krum" if n >= FEW:
                return frozen({name: value.copy() for name, value in models[self.nearest(models)].items()})
        stacks = {name: np.stack([model[name] for model in models]) for name in models[0]}
        if self.options.mixing == "neighbours":
            stacks = among_neighbours(stacks)
        return frozen({name: middle(stack, self.left_out(n)) for name, stack in stacks.items()})

    def nearest(self, models: Sequence[Params]) -> int:
        """Return which of some models the rule ``krum`` takes."""
        most = max(len(models) - 3, 0) // 2
        assumed = self.options.assumed_liars
        return krum(models, most if assumed is None else min(assumed, most))

    def left_out(self, n: int) -> int:
        """Return how many of n numbers are left out at either end: all but the middle, or the share of ``trimmed``."""
        most = (n - 1) // 2
        return min(most, math.ceil(self.options.trim * n - 1e-9)) if self.options.rule == "trimmed" else most


def update_lengths(params: Params, start: Params) -> tuple[float, float]:
    """Return the Euclidean lengths of an update: of what is learnt, and of what BatchNorm counts.

    >>> zero = {"w": np.zeros(2, np.float32), "bn.running_mean": np.zeros(1, np.float32)}
    >>> update_lengths({"w": np.float32([3, 4]), "bn.running_mean": np.float32([2])}, zero)
    (5.0, 2.0)
    """
    squares = [0.0, 0.0]
    for name, value in params.items():
        if value.dtype.kind == "f":
            change = np.subtract(value, start[name]).ravel()
            squares[name.endswith(STATISTICS)] += float(np.dot(change, change))
    return math.sqrt(squares[0]), math.sqrt(squares[1])


def clip_limits(lengths: Sequence[tuple[float, float]], clip: float) -> tuple[float, float]:
    """Return the longest updates that are left as they are, of what is learnt and of what is counted.

    Who did not move has no say.

    >>> clip_limits([(1.0, 0.0), (2.0, 0.0), (0.0, 0.0), (50.0, 0.0)], 3.0)
    (6.0, inf)
    """
    learnt, counted = (sorted(length[part] for length in lengths if length[part] > 0) for part in (0, 1))
    return clip * _median(learnt), clip * _median(counted)


def _median(ordered: Sequence[float]) -> float:
    """Return the median of numbers in order; of none, infinity."""
    n = len(ordered)
    return (ordered[(n - 1) // 2] + ordered[n // 2]) / 2 if n else math.inf


def shortened(params: Params, start: Params, learnt: float, counted: float) -> dict[str, Array]:
    """Return what a share of an update leads to; integers stay.

    >>> shortened({"w": np.float32([5.0])}, {"w": np.float32([1.0])}, 0.5, 1.0)
    {'w': array([3.], dtype=float32)}
    """
    result: dict[str, Array] = {}
    for name, value in params.items():
        share = counted if name.endswith(STATISTICS) else learnt
        if value.dtype.kind != "f" or share == 1.0:
            result[name] = value.copy()
        else:
            began = start[name].astype(np.float64)
            result[name] = np.asarray(began + share * (value - began), value.dtype)
    return frozen(result)


def middle(stack: Array, left_out: int, owners: npt.NDArray[np.bool_] | None = None) -> Array:
    """Return, number by number, the mean of what is left without the smallest and largest, (clients, …) → (…).

    Of integers the (lower) median. With `owners` only numbers of those count, and as large a share of them is left out.

    >>> middle(np.float32([[1, 7], [2, 8], [300, -900]]), 1)
    array([2., 7.], dtype=float32)
    """
    n = len(stack)
    if stack.dtype.kind != "f":
        return np.asarray(np.sort(stack, axis=0)[(n - 1) // 2])
    if owners is None:
        kth = sorted({left_out, n - 1 - left_out})
        kept = np.partition(stack, kth, axis=0)[left_out : n - left_out]
        return np.asarray(kept.mean(axis=0, dtype=np.float64), stack.dtype)
    ordered = np.sort(np.where(owners, stack, np.nan), axis=0)  # NaN last
    count = owners.sum(axis=0)
    out = np.minimum(np.maximum(count - 1, 0) // 2, -(-left_out * count // n))
    rank = np.arange(n).reshape(-1, *[1] * (stack.ndim - 1))
    inside = (rank >= out) & (rank < count - out)
    total = np.where(inside, ordered, 0).sum(axis=0, dtype=np.float64)
    return np.asarray(total / np.maximum(inside.sum(axis=0), 1), stack.dtype)


def among_neighbours(stacks: Mapping[str, Array]) -> dict[str, Array]:
    """Replace each model by the mean of the smallest majority that is nearest to it (Allouah et al., AISTATS 2023).

    Alone, a median of few models that differ much is drawn to those that lie. Integers stay.

    >>> among_neighbours({"w": np.float32([[1], [2], [3], [-90], [-80]])})["w"].ravel().round().tolist()
    [2.0, 2.0, 2.0, -56.0, -56.0]
    """
    floating = {name: stack for name, stack in stacks.items() if stack.dtype.kind == "f"}
    n = len(next(iter(stacks.values())))
    rows = np.hstack([np.reshape(stack, (n, -1)) for stack in floating.values()]) if floating else np.zeros((n, 0))
    near = np.argsort(squared_distances(rows), axis=1, kind="stable")[:, : n // 2 + 1]
    shares = np.zeros((n, n))
    np.put_along_axis(shares, near, 1 / near.shape[1], axis=1)
    return {
        name: np.asarray(np.tensordot(shares, stack, 1), stack.dtype) if name in floating else stack
        for name, stack in stacks.items()
    }


def squared_distances(rows: Array) -> npt.NDArray[np.float64]:
    """Return the squared distances of rows from each other, (n, n)."""
    return np.array([np.square(np.subtract(rows, row, dtype=np.float64)).sum(axis=1) for row in rows])


def krum(models: Sequence[Params], liars: int) -> int:
    """Return which model is nearest to its n − f − 2 nearest others, f of them liars (Blanchard et al., 2017).

    >>> krum([{"w": np.float32([x])} for x in (1.0, 1.1, 1.2, 90.0)], 0)
    1
    """
    floating = [name for name, value in models[0].items() if value.dtype.kind == "f"]
    rows = np.stack([np.concatenate([model[name].ravel() for name in floating]) for model in models])
    near = max(len(models) - liars - 2, 1)
    return int(np.sort(squared_distances(rows), axis=1)[:, 1 : 1 + near].sum(axis=1).argmin())
