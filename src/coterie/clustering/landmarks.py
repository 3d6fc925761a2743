"""Groups of many clients by way of some: landmarks are grouped, and all others join them as newcomers do (ours).

Every two of n clients are n² / 2 distances; with m landmarks it is some m² / 2, and for each other client its distances
to a few members of each group. Who is beyond the cut waits; of those who wait, landmarks are chosen again, until nobody
is left.
"""

import math
from dataclasses import dataclass, field, replace
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from coterie.clustering.grouping import Grouping, distance_to_groups, founding_weights
from coterie.clustering.hierarchical import Floats, Ints, canonical, cut, tree
from coterie.clustering.rules import MOST_KEPT, Rule

Points = npt.NDArray[np.float32]

MANY = MOST_KEPT
"""Above so many clients groups are formed by landmarks."""
MOST_EXACT = 20_000
"""Above so many, all pairs are not compared: their tree would take over 10 GB."""
LANDMARKS = 2_000
"""Of up to 100,000 clients; of more, one in 50, and at most twice as many."""
DRAWN = 0.9
"""Share of the landmarks that are drawn at random; the others are the farthest from those that there are."""
MEASURED = 128
"""Members of a group to which others are compared, where a mean over all is wanted."""
FEWEST = 10
"""Where groups are told from chance, fewer landmarks found none: of many clients, some are beyond any cut."""
CLEAR = 2.0
"""Times the cut: fewer found one if they are so far from all others, which chance alone does not do."""
BLOCK = 4096
"""Clients that join at a time."""
BATCH = 64
"""Landmarks chosen at a time."""
MOST_LANDMARKS = 10_000
"""Of all passes, where groups are told from chance: all of them are compared in the end, which takes 2 GB."""
PAIRS = 2**25
"""Of clients and founders that are compared at a time, at most: what that takes does not grow with the founders."""


class Crowd(Protocol):
    """Many clients, numbered 0, 1, …, who are compared when it is asked for."""

    @property
    def points(self) -> Points:
        """A point for each, by which landmarks are chosen, (n, dimensions)."""

    def apart(self, a: Ints, b: Ints | None = None) -> Floats:
        """Return how far some are from others, or from each other, (len a, len b)."""

    def noise(self, a: Ints, b: Ints, proximity: Floats) -> Floats | None:
        """Return how far chance moves some of them, (len a,), whose distances to others are given; None: not known."""


class LandmarkGroups(NamedTuple):
    """The groups of all clients, by way of some."""

    labels: Ints
    """The group of each client, (n,)."""
    landmarks: Ints
    """Who they are, in the order of the grouping, (m,)."""
    grouping: Grouping
    """Of the landmarks; its tree is of those of the first pass."""
    noise: Floats | None
    """How far chance moves each landmark, (m,)."""


def by_landmarks(rule: Rule, crowd: Crowd, rng: np.random.Generator, most: int | None = None) -> LandmarkGroups:
    """Group clients by way of at most so many landmarks in each pass, by default 2,000 to 4,000."""
    n = len(crowd.points)
    most = min(2 * LANDMARKS, max(LANDMARKS, n // 50)) if most is None else most
    passes = _Passes(replace(rule, clients=n), crowd, np.full(n, -1), np.zeros(n))
    while len(left := np.flatnonzero(passes.labels < 0)):
        points = crowd.points if len(left) == n else crowd.points[left]
        if (
            passes.room(min(most, len(left)))
            and passes.add(left[chosen(points, most, rng)])
            and passes.first is not None
        ):
            passes.join(rule.reach(passes.first))
        else:
            passes.strays = len(left)
            passes.join(math.inf)
    passes.merge(math.floor(DRAWN * most))
    passes.settle()
    return passes.result()


def chosen(points: Points, many: int, rng: np.random.Generator) -> Ints:
    """Choose landmarks, most at random, then always one of those farthest from all chosen before, (many,).

    All, if there are no more. The farthest are found in batches of 64, in each of which they are far from each other.

    >>> crowd = np.array([[0.0], [0.1], [0.2], [0.3], [9.0]], np.float32)
    >>> sorted(chosen(crowd, 3, np.random.default_rng(0)).tolist())[-1]
    4
    """
    n = len(points)
    if n <= many:
        return np.arange(n)
    picked = rng.permutation(n)[: max(1, math.floor(DRAWN * many))].tolist()  # a fair sample of all, and the first ones
    squares = np.einsum("ij,ij->i", points, points)
    nearest = np.full(n, np.inf, np.float32)
    new = picked
    while True:
        towards = -2 * points[new].T
        for i in range(0, n, BLOCK):
            rows = slice(i, i + BLOCK)
            far = points[rows] @ towards
            far += squares[new]
            nearest[rows] = np.minimum(nearest[rows], squares[rows] + far.min(axis=1))
        nearest[new] = -1.0
        if len(picked) == many:
            return np.array(picked, np.int64)
        new = _farthest(points, nearest, min(BATCH, many - len(picked)))
        picked = picked + new


def _farthest(points: Points, nearest: Points, many: int) -> list[int]:
    """Choose some of the farthest, each far from those chosen before it."""
    candidates = np.argsort(-nearest, kind="stable")[: 8 * many]
    candidates = candidates[nearest[candidates] >= 0]
    far, among = nearest[candidates].copy(), points[candidates]
    picked: list[int] = []
    for _ in range(many):
        k = int(far.argmax())
        picked.append(int(candidates[k]))
        far = np.minimum(far, ((among - among[k]) ** 2).sum(axis=1))
        far[k] = -1.0
    return picked


@dataclass
class _Passes:
    """Groups that grow pass by pass. Arrays are of all clients."""

    rule: Rule
    crowd: Crowd
    labels: Ints
    """The group of each client; −1 for those who wait."""
    weights: Floats
    """How much each counts in distances to its group: 0 but for founders."""
    noise: Floats | None = None
    """Of landmarks."""
    first: Grouping | None = None
    """Of the landmarks of the first pass."""
    landmarks: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    """Those of the first pass, then others who founded groups."""
    count: int = 0
    early: int = 0
    """How many of these groups are of the first pass."""
    passes: int = 0
    strays: int = 0
    edges: int = 0
    """Groups of later passes that were edges of others."""
    full: bool = False
    """Whether there are too many landmarks for a further pass."""

    @property
    def fewest(self) -> int:
        """How many landmarks found a group at least: some where groups are told from chance, of many clients."""
        return min(FEWEST, len(self.labels) // 500) if "noise" in self.rule.needs else 1

    def room(self, more: int) -> bool:
        """Say whether there may be so many landmarks more: in the first pass, and for a cut that the user has given."""
        self.full = self.fewest > 1 and self.passes > 0 and len(self.landmarks) + more > MOST_LANDMARKS
        return not self.full

    def add(self, clients: Ints) -> bool:
        """Let landmarks form groups, the first by the rule, later ones by the same cut; say whether there are more."""
        apart = self.crowd.apart(clients)
        noise = self.crowd.noise(clients, clients, apart)
        if self.first is None:
            self.first = replace(self.rule.group(apart, noise), proximity=None)
            founded, weights = self.first.labels, self.first.weights
            apart = self.rule.scaled(apart, noise, None)
        else:
            apart = self.rule.scaled(apart, noise, None)
            merges = tree(apart, self.first.linkage)
            founded = cut(merges, threshold=self.rule.reach(self.first))
            weights = founding_weights(merges, founded, self.first.linkage)
        self.passes += 1
        kept = self._kept(clients, founded, apart)
        if not kept.any():
            return False
        stay = kept[founded]
        founded, founders = (np.cumsum(kept) - 1)[founded[stay]], clients[stay]
        weights = weights[stay]
        if self.first.linkage not in ("single", "complete"):
            if self.fewest > 1:
                founded = _settled(founded, apart[np.ix_(stay, stay)])
                weights = 1 / np.bincount(founded)[founded]
            weights = _measured(founded, weights)
        self.labels[founders], self.weights[founders] = self.count + founded, weights
        if noise is not None:
            self.noise = np.full(len(self.labels), np.nan) if self.noise is None else self.noise
            self.noise[clients] = noise
        more = clients if self.passes == 1 else clients[stay & ~np.isin(clients, self.landmarks)]
        self.landmarks = np.concatenate([self.landmarks, more])
        self.count += int(kept.sum())
        self.early = self.early or self.count
        return True

    def _kept(self, clients: Ints, founded: Ints, apart: Floats) -> npt.NDArray[np.bool_]:
        """Say which of the groups that landmarks form are no strays.

        Where groups are told from chance: those of some clients that are farther from the nearest larger one, or one of
        an earlier pass, than their own clients are from each other, by the factor of the cut; by twice that, any.
        """
        assert self.first is not None
        groups = int(founded.max()) + 1
        if self.fewest <= 1:
            return np.ones(groups, bool)
        sizes, means = np.bincount(founded), _means(founded, apart, np.ones(len(founded)))
        within = means.diagonal() * sizes / np.maximum(sizes - 1, 1)  # a client is at 0 from itself
        nearest = np.full(groups, np.inf)
        if self.count:
            to_groups = self.to_groups(clients, np.flatnonzero(self.weights > 0))
            nearest = (np.eye(groups)[founded].T @ to_groups / sizes[:, None]).min(axis=1)
        kept, reach = np.zeros(groups, bool), self.rule.reach(self.first)
        for group in np.argsort(-sizes, kind="stable"):
            beyond = min(nearest[group], means[group, kept].min(initial=np.inf))
            enough = beyond > reach * within[group] and sizes[group] >= self.fewest
            kept[group] = enough or beyond > CLEAR * reach * max(within[group], 1.0)
        return kept if kept.any() or self.count else np.ones(groups, bool)

    def join(self, reach: float) -> None:
        """Let those who wait join the nearest group within reach."""
        waiting = np.flatnonzero(self.labels < 0)
        founders = np.flatnonzero(self.weights > 0)
        at_once = max(1, min(BLOCK, PAIRS // max(len(founders), 1)))
        for block in (waiting[i : i + at_once] for i in range(0, len(waiting), at_once)):
            far = self.to_groups(block, founders)
            beyond = far.min(axis=1) > reach
            self.labels[block] = np.where(beyond, -1, far.argmin(axis=1))

    def to_groups(self, clients: Ints, founders: Ints) -> Floats:
        """Return how far clients are from each group, by the founders of all, (clients, groups)."""
        assert self.first is not None
        apart = self.crowd.apart(clients, founders)
        noise = self.crowd.noise(clients, founders, apart)
        apart = self.rule.scaled(apart, noise, None if self.noise is None else self.noise[founders])
        groups = replace(self.first, labels=self.labels[founders], weights=self.weights[founders])
        return distance_to_groups(groups, apart)

    def merge(self, drawn: int) -> None:
        """Join groups that are only the edge of a larger one; the first `drawn` landmarks are a fair sample of all.

        Who founds a group in a later pass was beyond the cut: that all are far from the group at whose edge they are is
        how they were chosen. So the landmarks of both choose again, and count for as many as they stand for. To the
        edge of a group more come from within it than it had, and the two are then no farther apart than the cut.
        What is nearest to one edge may be another, which joins: then it is asked again.
        """
        if self.first is None or self.fewest <= 1 or self.passes == 1:
            return
        apart = self.crowd.apart(self.landmarks)
        apart = self.rule.scaled(apart, None if self.noise is None else self.noise[self.landmarks], None)
        labels = self.labels[self.landmarks]
        stand_for = np.where(labels < self.early, 1.0, (np.bincount(self.labels) / np.bincount(labels))[labels])
        stand_for[:drawn] = len(self.labels) / drawn
        while self._join_edges(apart, stand_for, self.rule.reach(self.first)):
            pass

    def _join_edges(self, apart: Floats, stand_for: Floats, reach: float) -> bool:
        """Join the edges of larger groups, the smallest first; say whether there were any."""
        labels, sizes, before = self.labels[self.landmarks], np.bincount(self.labels), self.edges
        means = _means(labels, apart, np.ones(len(labels)))
        late = self.early + np.argsort(sizes[self.early :], kind="stable")
        for group in late[sizes[late] > 0]:
            larger = np.flatnonzero(sizes > sizes[group])
            if not len(larger):
                continue
            other = larger[means[group, larger].argmin()]
            pair = np.flatnonzero((labels == group) | (labels == other))
            within = apart[np.ix_(pair, pair)]
            sides = _settled((labels[pair] == group).astype(np.int64), within, times=1)
            if _means(sides, within, stand_for[pair])[0, 1] <= reach:
                self.weights[self.labels == group] = 0.0
                self.labels[self.labels == group] = labels[labels == group] = other
                self.edges += 1
        return self.edges > before

    def settle(self) -> None:
        """Let all but founders move to the group whose mean point is nearest: that of all members, not of some."""
        if self.first is None or self.fewest <= 1 or self.first.linkage in ("single", "complete"):
            return
        points, sizes = self.crowd.points, np.bincount(self.labels)
        blocks = [slice(i, i + BLOCK) for i in range(0, len(points), BLOCK)]
        member = np.eye(len(sizes), dtype=np.float32)
        centres: Points = np.zeros((len(sizes), points.shape[1]), np.float32)
        for b in blocks:
            centres += member[self.labels[b]].T @ points[b]
        centres /= np.maximum(sizes, 1)[:, None].astype(np.float32)
        lengths = np.where(sizes > 0, np.square(centres).sum(axis=1), np.inf)
        for b in blocks:
            nearest = (lengths - 2 * points[b] @ centres.T).argmin(axis=1)
            self.labels[b] = np.where(self.weights[b] > 0, self.labels[b], nearest)

    def result(self) -> LandmarkGroups:
        """Return the groups, numbered by first appearance, with what was done in the reason."""
        assert self.first is not None
        labels = canonical(self.labels)
        grouping = replace(
            self.first,
            labels=labels[self.landmarks],
            weights=self.weights[self.landmarks],
            passes=self.passes,
            reason=f"{self.first.reason} {self.story()}",
        )
        return LandmarkGroups(
            labels, self.landmarks, grouping, None if self.noise is None else self.noise[self.landmarks]
        )

    def story(self) -> str:
        """Say how many were landmarks, in how many passes, and what became of the rest."""
        many, n = len(self.landmarks), len(self.labels)
        passes = "1 pass" if self.passes == 1 else f"{self.passes} passes"
        told = f"{many:,} of {n:,} clients were landmarks, in {passes}; the others joined the nearest group."
        if self.edges:
            told += f" {self.edges:,} groups of later passes were edges of others, and joined them."
        if self.strays and self.full:
            told += f" {self.strays:,} beyond the cut joined it too: more groups than so many landmarks can tell apart."
        elif self.strays:
            told += f" {self.strays:,} beyond the cut joined it too: they made no group that stands out from chance."
        return told


def _settled(labels: Ints, apart: Floats, times: int = 3) -> Ints:
    """Let landmarks move to the nearest group, as others join it: early merges of a tree are not undone by it.

    No group loses all of its members.
    """
    groups = int(labels.max(initial=-1)) + 1
    for _ in range(times):
        member = np.eye(groups)[labels]
        others = member.sum(axis=0) - member  # a client is not compared with itself
        moved = np.where(others > 0, apart @ member / np.maximum(others, 1), np.inf).argmin(axis=1)
        if np.array_equal(moved, labels) or (np.bincount(moved, minlength=groups) == 0).any():
            break
        labels = moved
    return labels


def _means(labels: Ints, apart: Floats, weights: Floats) -> Floats:
    """Return the mean distances between groups, of clients that count so much each, (groups, groups)."""
    member = np.eye(int(labels.max()) + 1)[labels] * weights[:, None]
    sizes = member.sum(axis=0)
    sizes[sizes == 0] = 1.0  # of a group without members, to which everything is at 0
    return np.asarray(member.T @ apart @ member / (sizes[:, None] * sizes))


def _measured(labels: Ints, weights: Floats) -> Floats:
    """Let only some members of a large group count: the first ones, which were drawn at random."""
    result = weights.copy()
    for group in np.flatnonzero(np.bincount(labels) > MEASURED):
        members = np.flatnonzero(labels == group)
        result[members[MEASURED:]] = 0.0
        result[members] /= result[members].sum()
    return result
