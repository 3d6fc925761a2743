"""The kinds of federations that the rules are tried on, each made by a seed."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from coterie.data import DATASETS, Samples, load

Array = npt.NDArray[Any]


class Clients(NamedTuple):
    """The samples and labels of each client, and who truly belongs together."""

    x: list[Array]
    y: list[Array]
    truth: list[int]


class Case(Protocol):
    """A kind of federation; a seed makes one of it."""

    def make(self, seed: int) -> Clients:
        """Deal the samples."""
        ...


@functools.cache
def pooled(name: str) -> Samples:
    """Return all training samples of a data set, raw, (n, channels, height, width)."""
    data: Samples = DATASETS[name]().train
    return data


def dealt(name: str, sizes: Sequence[int], seed: int) -> list[Samples]:
    """Deal samples at random, none twice."""
    data = pooled(name)
    order = np.random.default_rng([seed, 1]).permutation(len(data))[: sum(sizes)]
    return [data[part] for part in np.split(order, np.cumsum(sizes)[:-1])]


def turned(x: Array, turn: int) -> Array:
    """Turn images by right angles, from 4 on also mirror them: eight ways to look at them."""
    x = np.rot90(x, turn % 4, axes=(2, 3))
    return np.ascontiguousarray(x[..., ::-1] if turn >= 4 else x)


def tilted(x: Array, degrees: float) -> Array:
    """Turn images by any angle."""
    from scipy.ndimage import rotate

    return np.asarray(rotate(x.astype(np.float32), degrees, axes=(3, 2), reshape=False, order=1))


@dataclass(frozen=True)
class Turned:
    """Clients with so many samples each, who see them turned (and mirrored) as their group does."""

    data: str
    sizes: tuple[int, ...]
    groups: tuple[int, ...]

    def make(self, seed: int) -> Clients:
        """Deal and turn."""
        parts = dealt(self.data, self.sizes, seed)
        x = [turned(part.x, group) for part, group in zip(parts, self.groups, strict=True)]
        return Clients(x, [part.y for part in parts], list(self.groups))


def even(data: str, clients: int, samples: int, groups: int) -> Turned:
    """Return clients with equally many samples, in groups of equal size that see them turned; 1 group is IID."""
    return Turned(data, (samples,) * clients, tuple(i % groups for i in range(clients)))


def minority(data: str, clients: int, samples: int, few: int) -> Turned:
    """Return two groups, a few clients who see images upside down and all others."""
    return Turned(data, (samples,) * clients, (2,) * few + (0,) * (clients - few))


@dataclass(frozen=True)
class Uneven:
    """20 clients whose numbers of samples are log-normal with this deviation, 8 at least, in groups as `even`."""

    data: str
    spread: float
    groups: int

    def sizes(self, seed: int) -> tuple[int, ...]:
        """Return the number of samples of each client; there are 85 for each on average."""
        share = np.exp(np.random.default_rng([seed, 6]).normal(0, self.spread, 20))
        return tuple(np.maximum(8, 1690 * share / share.sum()).astype(int).tolist())

    def make(self, seed: int) -> Clients:
        """Deal and turn."""
        return Turned(self.data, self.sizes(seed), tuple(i % self.groups for i in range(20))).make(seed)


@dataclass(frozen=True)
class LabelGroups:
    """Groups of clients with labels of their own, of which each group shares some with the next."""

    data: str
    clients: int
    samples: int
    groups: int
    each: int
    shared: int = 0

    def make(self, seed: int) -> Clients:
        """Draw which labels each group has, then samples of these."""
        data, rng = pooled(self.data), np.random.default_rng([seed, 2])
        names, order = rng.permutation(10), rng.permutation(len(data))
        truth = [i % self.groups for i in range(self.clients)]
        free = np.ones(len(data), bool)
        parts = []
        for group in truth:
            first = group * (self.each - self.shared)
            own = order[np.isin(data.y[order], names[first : first + self.each]) & free[order]][: self.samples]
            free[own] = False
            parts.append(data[own])
        return Clients([part.x for part in parts], [part.y for part in parts], truth)


@dataclass(frozen=True)
class Library:
    """A federation as Coterie divides it: `coterie cluster --dataset ... --partition ... --clients ...`."""

    data: str
    clients: int
    partition: str | None = None
    option: tuple[str, float] | None = None

    def make(self, seed: int) -> Clients:
        """Load it; without true groups, those with the same set of labels belong together."""
        options = dict([self.option]) if self.option else {}
        division = (self.partition, options) if self.partition else None
        data = load(self.data, {} if division else options, division, self.clients, seed)
        x, y = ([of[part] for part in data.train_parts] for of in (data.train.x, data.train.y))
        if data.true_groups is not None:
            return Clients(x, y, data.true_groups.tolist())
        sets = [tuple(np.unique(labels)) for labels in y]
        return Clients(x, y, [0] * len(x) if self.partition == "iid" else [sets.index(own) for own in sets])


@dataclass(frozen=True)
class Copies:
    """20 IID clients whose distinct samples are there several times each."""

    data: str
    distinct: int
    times: int

    def make(self, seed: int) -> Clients:
        """Deal and repeat."""
        parts = dealt(self.data, (self.distinct,) * 20, seed)
        x, y = ([np.repeat(of, self.times, axis=0) for of in many] for many in zip(*map(_pair, parts), strict=True))
        return Clients(x, y, [0] * 20)


def _pair(part: Samples) -> tuple[Array, Array]:
    return part.x, part.y


@dataclass(frozen=True)
class Tilted:
    """20 clients in two groups whose images are turned a little, half of it one way and half the other."""

    data: str
    samples: int
    degrees: float

    def make(self, seed: int) -> Clients:
        """Deal and turn."""
        parts, truth = dealt(self.data, (self.samples,) * 20, seed), [i % 2 for i in range(20)]
        x = [tilted(part.x, (group - 0.5) * self.degrees) for part, group in zip(parts, truth, strict=True)]
        return Clients(x, [part.y for part in parts], truth)


@dataclass(frozen=True)
class Smooth:
    """40 clients, each of whom sees images turned by another angle, evenly spread: there are no groups."""

    data: str
    samples: int
    widest: float = 90.0

    def make(self, seed: int) -> Clients:
        """Deal and turn."""
        parts = dealt(self.data, (self.samples,) * 40, seed)
        x = [tilted(part.x, self.widest * i / 39) for i, part in enumerate(parts)]
        return Clients(x, [part.y for part in parts], list(range(40)))
