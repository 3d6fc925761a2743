"""Putting together what clients trained: a mean, or what lying clients can't move as they like.

``mean`` is weighted by samples. ``clipped`` is the same mean, after updates have been cut to a multiple of the median
length of their group's. ``median``, ``trimmed`` and ``krum`` count each client once. An update is what was trained less
the model that the client started from. What BatchNorm counts (running means and variances) has lengths of its own.

Of fewer than three updates no median says which is too long. Then that of all clients of the round counts, or else how
long updates were in earlier rounds, which is remembered, or else how long the model itself is.
"""

import math
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from coterie.federation.noise_source import NoiseSource, SeededNoise
from coterie.federation.server_optimiser import ServerOptimiser, ServerStep
from coterie.federation.state import Resumable, saved
from coterie.federation.trained import Answers
from coterie.messages import Array, ClientId, Params, RunningMean, TrainReply, frozen
from coterie.messages.params import STATISTICS

if TYPE_CHECKING:
    from coterie.federation.private_mean import PrivateTraining

AggregationRule = Literal["mean", "clipped", "median", "trimmed", "krum"]
Mixing = Literal["neighbours", "none"]
K = TypeVar("K", bound=Hashable)
Lengths: TypeAlias = tuple[float, float]
"""Of what is learnt, and of what BatchNorm counts."""
PARTS = "update", "change of BatchNorm's statistics"
CLIPPED, OUTLIER, WEIGHT_CUT = "clipped", "outlier", "weight cut"
"""Kinds of events."""
TRAINED = "trained"
"""The usual kind of updates; others have lengths of their own to be compared with."""
ROUNDING = 1 + 1e-5
"""What was cut before is a little longer than its limit."""
FEW = 3
"""Fewer updates have no median that a liar could not move."""
REMEMBERED = 20
"""Rounds of which it is known how long updates were."""


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
    scale: float | None = None
    """A length to compare it with if nothing else is known; by default that of what it started from."""
    tensor_weights: Mapping[str, Array] = {}
    """Of tensors that count otherwise: a weight, (), or one for each row, (rows,); only for rules that weigh."""
    lengths: Lengths | None = None
    """Those of its update, where they are known already."""


@dataclass
class Aggregator(Resumable):
    """The one way in which methods put together what clients trained."""

    options: AggregationOptions
    declared: Callable[[], Mapping[ClientId, int]]
    """Says how many samples clients declared."""
    note: Callable[[ClientId, str, str], None]
    """Notes an event: whose, its kind, its description."""
    now: Callable[[], int]
    """Says which round it is."""
    step: ServerStep = field(default_factory=ServerStep)
    """How the server goes from its models towards means."""
    scratch: Path | None = None
    """Where models wait that memory should not hold; None: where the system keeps temporary files."""
    private: "PrivateTraining | None" = None
    """What takes the place of the rule, where models are to be private; `Fold` does it."""
    source: NoiseSource = field(default_factory=lambda: SeededNoise(0))
    """What noise is drawn from."""
    optimiser: ServerOptimiser = field(init=False)
    usual: dict[str, dict[int, Lengths]] = saved(default_factory=dict)
    """How long updates of each kind were in the last rounds, at the (lower) median; 0 where nothing moved."""

    clip: float | None = saved(default=None)
    """The longest update of the next round, in private training; None: the first clip."""

    def __post_init__(self) -> None:
        self.optimiser = ServerOptimiser(self.step, self.now)
        self._median: tuple[Mapping[ClientId, int], float] | None = None

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
        limit = self.heaviest()
        for client, count in samples.items():
            if count > limit:
                self.note_weight(client, count, limit)
        return {client: min(count, limit) for client, count in samples.items()}

    def heaviest(self) -> float:
        """Return how much a client counts at most."""
        if self._most is None:
            return math.inf
        declared = self.declared()
        if self._median is None or self._median[0] is not declared:  # they are the same as long as nobody comes or goes
            counts = [count for count in declared.values() if count > 0]
            self._median = declared, float(np.median(counts)) if counts else math.inf
        return self._most * self._median[1]

    def note_weight(self, client: ClientId, samples: int, limit: float) -> None:
        """Note that a client counts for less than its samples, where it was the user who limited that."""
        if self._most == self.options.max_weight:
            self.note(client, WEIGHT_CUT, f"it counts for {limit:g} samples, not for {samples}")

    @property
    def _most(self) -> float | None:
        """The multiple of the median number of samples that a client counts for at most."""
        return 1.0 if self.options.rule in ("median", "trimmed", "krum") else self.options.max_weight

    def averages(
        self,
        groups: Mapping[K, Sequence[Contribution]],
        kind: str = TRAINED,
        models: Mapping[K, Params] | None = None,
    ) -> dict[K, dict[str, Array]]:
        """Put together the models of each group; groups may share clients. `kind` is that of the updates.

        Of those trained, the server's step is taken: from the `models` of the groups, or else from what the first of a
        group's clients started from.
        """
        means = self.means(groups, kind)
        return self.steps(means, models or {key: groups[key][0].start for key in means}) if kind == TRAINED else means

    def means(self, groups: Mapping[K, Sequence[Contribution]], kind: str = TRAINED) -> dict[K, dict[str, Array]]:
        """Put together the models of each group, without the server's step."""
        members = self._screened(groups, False, kind)
        return {key: self._average(members[key]) for key in groups if groups[key]}

    def steps(self, means: Mapping[K, dict[str, Array]], models: Mapping[K, Params]) -> dict[K, dict[str, Array]]:
        """Take the server's step from each model towards its mean."""
        return {key: self.optimiser.step(models[key], mean) for key, mean in means.items()}

    def tamed(
        self,
        trained: Answers,
        start: Params | Callable[[ClientId], Params],
        kind: str = TRAINED,
    ) -> Mapping[ClientId, TrainReply]:
        """Hold what clients trained, to form groups by it; by any rule but the mean, cut what is too long before."""
        answers = dict(trained.items())
        if self.options.rule == "mean":
            return answers
        members = self.contributions(answers, start, equal=True)
        cut = self.screened({0: members}, always=True, kind=kind)[0]
        return {m.client: replace(answers[m.client], params=m.params) for m in cut}

    def screened(
        self, groups: Mapping[K, Sequence[Contribution]], always: bool = False, kind: str = TRAINED
    ) -> dict[K, Sequence[Contribution]]:
        """Cut the updates that are too long, where the rule does so; small groups are cut by any rule but the mean.

        Where they are not cut, they are marked.
        """
        return {group: [*members] for group, members in self._screened(groups, always, kind).items()}

    def _screened(
        self, groups: Mapping[K, Sequence[Contribution]], always: bool, kind: str
    ) -> dict[K, Iterable[Contribution]]:
        """Do that one update after the other, each when it is its turn: those that wait on disk are not all read."""
        if self.options.rule == "mean":
            return dict(groups)
        lengths: dict[tuple[ClientId, int], Lengths] = {}
        for members in groups.values():
            for member in members:
                key = member.client, id(member.start)
                if key not in lengths:
                    lengths[key] = member.lengths or update_lengths(member.params, member.start)
        everyone = [*{client: length for (client, _), length in lengths.items()}.values()]
        earlier = self._remember(kind, everyone)
        always = always or self.options.rule == "clipped"

        def checked(members: Sequence[Contribution]) -> Iterator[Contribution]:
            own = [lengths[member.client, id(member.start)] for member in members]
            usual = [_usual(own, everyone, earlier, part) for part in (0, 1)]
            for member, each in zip(members, own, strict=True):
                yield self._checked(member, each, usual, always or len(own) < FEW)

        return {group: checked(members) for group, members in groups.items()}

    def _remember(self, kind: str, lengths: Sequence[Lengths]) -> Sequence[Lengths]:
        """Return how long updates of a kind were in earlier rounds, and note how long they are now.

        Lies are noted as they are: they move no median unless they are half of it.
        """
        known, now = self.usual.get(kind, {}), self.now()
        if lengths and now not in known:
            latest = {**known, now: (_lower_median(lengths, 0), _lower_median(lengths, 1))}
            self.usual[kind] = dict([*latest.items()][-REMEMBERED:])
        return [length for round, length in known.items() if round != now]

    def _checked(
        self, member: Contribution, lengths: Lengths, usual: Sequence[tuple[float, str]], cut: bool
    ) -> Contribution:
        """Cut an update to a multiple of what is usual, or mark it; where that is not known, of the model's length."""
        limits, of = [math.inf, math.inf], ["", ""]
        for part, (length, median) in enumerate(usual):
            if lengths[part] > 0:
                length = length or member.scale or update_lengths({n: member.start[n] for n in member.params})[part]
                limits[part], of[part] = self.options.clip * length or math.inf, median
        part = next((part for part in (0, 1) if lengths[part] > limits[part] * ROUNDING), -1)
        if part < 0:
            return member
        what = f"its {PARTS[part]} of length {lengths[part]:.3g}"
        limit = f"{limits[part]:.3g}, {self.options.clip:g} times {of[part]}"
        if not cut:
            self.note(member.client, OUTLIER, f"{what} is beyond {limit}")
            return member
        self.note(member.client, CLIPPED, f"{what} was cut to {limit}")
        shares = [limit / length if length > limit else 1.0 for length, limit in zip(lengths, limits, strict=True)]
        return member._replace(params=shortened(member.params, member.start, *shares))

    def _average(self, members: Iterable[Contribution]) -> dict[str, Array]:
        if self.options.rule in ("mean", "clipped"):
            mean, start = RunningMean(), dict[str, Array]()
            for member in members:
                mean.add(member.params, member.weight, member.tensor_weights)
                start = start or {**member.start}
            return mean.mean(otherwise=start)
        models = [member.params for member in members]
        n = len(models)
        if self.options.rule == "krum" and n >= FEW:
            return frozen({name: value.copy() for name, value in models[self.nearest(models)].items()})
        stacks = {name: np.stack([model[name] for model in models]) for name in models[0]}
        if stacks and self.options.mixing == "neighbours":
            stacks = among_neighbours(stacks)
        return frozen({name: middle(stack, self.left_out(n)) for name, stack in stacks.items()})

    def nearest(self, models: Sequence[Params]) -> int:
        """Return which of some models the rule ``krum`` takes."""
        most, assumed = max(len(models) - 3, 0) // 2, self.options.assumed_liars
        return krum(models, most if assumed is None else min(assumed, most))

    def left_out(self, n: int) -> int:
        """Return how many of n numbers are left out at either end: all but the middle, or the share of ``trimmed``."""
        most = (n - 1) // 2
        return min(most, math.ceil(self.options.trim * n - 1e-9)) if self.options.rule == "trimmed" else most


def update_lengths(params: Params, start: Params | None = None) -> Lengths:
    """Return the Euclidean lengths of an update, or of a model: of what is learnt, and of what BatchNorm counts.

    >>> zero = {"w": np.zeros(2, np.float32), "bn.running_mean": np.zeros(1, np.float32)}
    >>> update_lengths({"w": np.float32([3, 4]), "bn.running_mean": np.float32([2])}, zero)
    (5.0, 2.0)
    """
    squares = [0.0, 0.0]
    for name, value in params.items():
        if value.dtype.kind == "f":
            change = (value if start is None else np.subtract(value, start[name])).ravel()
            with np.errstate(over="ignore"):
                square = float(np.dot(change, change))
            if not math.isfinite(square):  # in float32
                square = float(np.square(change, dtype=np.float64).sum())
            squares[name.endswith(STATISTICS)] += square
    return math.sqrt(squares[0]), math.sqrt(squares[1])


def _usual(
    own: Sequence[Lengths], everyone: Sequence[Lengths], earlier: Sequence[Lengths], part: int
) -> tuple[float, str]:
    """Return how long updates are: at the median of a group, of the round, or of earlier rounds; 0 if it is unknown.

    Who did not move has no say.
    """
    for lengths in (own, everyone):
        moved = [length[part] for length in lengths if length[part] > 0]
        if len(moved) >= FEW:
            return float(np.median(moved)), "the median"
    if before := _lower_median(earlier, part):
        return before, "the median of earlier rounds"
    return 0.0, "the length of the model itself"


def _lower_median(lengths: Sequence[Lengths], part: int) -> float:
    """Return the lower median of those that are not 0; of none, 0."""
    moved = sorted(length[part] for length in lengths if length[part] > 0)
    return moved[(len(moved) - 1) // 2] if moved else 0.0


def shortened(params: Params, start: Params, learnt: float, counted: float) -> dict[str, Array]:
    """Return what a share of an update leads to; integers stay.

    >>> shortened({"w": np.float32([5.0])}, {"w": np.float32([1.0])}, 0.5, 1.0)
    {'w': array([3.], dtype=float32)}
    """
    result: dict[str, Array] = {}
    for name, value in params.items():
        share = counted if name.endswith(STATISTICS) else learnt
        result[name] = value.copy()
        if value.dtype.kind == "f" and share != 1.0:
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
    apart = squared_distances(stacks)
    n = len(apart)
    near = np.argsort(apart, axis=1, kind="stable")[:, : n // 2 + 1]
    shares = np.zeros((n, n))
    np.put_along_axis(shares, near, 1 / near.shape[1], axis=1)
    return {
        name: np.asarray(np.tensordot(shares, stack, 1), stack.dtype) if stack.dtype.kind == "f" else stack
        for name, stack in stacks.items()
    }


def krum(models: Sequence[Params], liars: int) -> int:
    """Return which model is nearest to its n − f − 2 nearest others, f of them liars (Blanchard et al., 2017).

    >>> krum([{"w": np.float32([x])} for x in (1.0, 1.1, 1.2, 90.0)], 0)
    1
    """
    apart = squared_distances({name: np.stack([model[name] for model in models]) for name in models[0]})
    near = max(len(models) - liars - 2, 1)
    return int(np.sort(apart, axis=1)[:, 1 : 1 + near].sum(axis=1).argmin())


def squared_distances(stacks: Mapping[str, Array]) -> npt.NDArray[np.float64]:
    """Return the squared distances of models, whose tensors are (n, …), from each other, (n, n); without integers.

    Where there are statistics of BatchNorm, in which weights would drown, both count in units of how far a majority
    reaches around the median model.
    """
    n = len(next(iter(stacks.values())))
    parts = []
    for statistics in (False, True):
        own = [s.reshape(n, -1) for name, s in stacks.items() if name.endswith(STATISTICS) == statistics]
        rows = np.hstack([stack for stack in own if stack.dtype.kind == "f"] or [np.zeros((n, 0))])
        parts.append(np.array([np.square(np.subtract(rows, row, dtype=np.float64)).sum(axis=1) for row in rows]))
    if not parts[1].any():
        return parts[0]
    reach = [np.sort(np.sort(part, axis=1)[:, n // 2])[(n - 1) // 2] for part in parts]
    return np.asarray(parts[0] / (reach[0] or 1.0) + parts[1] / (reach[1] or 1.0))
