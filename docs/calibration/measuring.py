"""What the rules say of federations, and how often that is right."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from concurrent.futures import Executor
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt
from federations import Case, Clients

import coterie
from coterie.clustering import Grouping, GroupingOptions, adjusted_rand_index, in_units_of_noise, noise
from coterie.data import is_here
from coterie.similarity import principal_angles, signature, split_half_distance
from coterie.streams import stream

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Floats = npt.NDArray[np.float64]

RULES = {
    "auto": GroupingOptions("auto"),
    "gap": GroupingOptions("gap"),
    "silhouette": GroupingOptions("silhouette"),
    "demo": GroupingOptions("demo"),
    "cut 1.45": GroupingOptions(granularity=1.45),
    "cut 1.2": GroupingOptions(granularity=1.2),
}
"""The rules of Coterie as users ask for them, and `auto` with two granularities."""
COMPARED = ("auto", "gap", "silhouette", "demo")
VECTORS = 3
SPLITS = 6


class Described(NamedTuple):
    """What clients send, and what the server makes of it."""

    proximity: Floats
    """Degrees, `theta1` between signatures of all samples, (n, n)."""
    per_label: Floats
    """Degrees, `min_entry` between signatures per label, for `demo`, (n, n)."""
    halves: Floats
    """Degrees between the halves of each client, NaN for too few samples, (n,)."""
    noise: Floats
    """ν, (n,)."""
    samples: float
    """The median number of them."""


def describe(clients: Clients, seed: int) -> Described:
    """Do what `pacfl` does before training, without the machinery of a run."""
    whole = [signature(x, VECTORS).astype(np.float32) for x in clients.x]
    labelled = [signature(x, VECTORS, y).astype(np.float32) for x, y in zip(clients.x, clients.y, strict=True)]
    told = [split_half_distance(x, VECTORS, stream(seed, "halves", i), splits=SPLITS) for i, x in enumerate(clients.x)]
    halves = np.array([np.nan if one is None else one for one in told])
    sizes = [len(x) for x in clients.x]
    proximity = principal_angles(whole)
    per_label = principal_angles(labelled, measure="min_entry")
    return Described(proximity, per_label, halves, noise(halves, sizes, proximity), float(np.median(sizes)))


def grouped(described: Described, rule: str) -> Grouping:
    """Group by a rule of `RULES`, as Coterie would."""
    made = RULES[rule].make("auto", samples=described.samples)
    if "noise" in made.needs:
        return made.group(described.proximity, described.noise)
    return made.group(described.per_label if made.per_label else described.proximity)


class Verdict(NamedTuple):
    """What a rule said."""

    ari: float
    groups: int
    confidence: float


class Outcome(NamedTuple):
    """What all rules said of one federation, and its distances in units of noise."""

    verdicts: dict[str, Verdict]
    within: Floats
    between: Floats
    true: int
    reason: str
    labels: list[int]
    """By rule `auto`."""
    highest: float
    """Merge in its tree, in units of noise."""
    halves: Floats


def outcome(task: tuple[Case, int]) -> Outcome:
    """Make a federation and ask all rules."""
    case, seed = task
    clients = case.make(seed)
    described = describe(clients, seed)
    found = {rule: grouped(described, rule) for rule in RULES}
    verdicts = {
        rule: Verdict(adjusted_rand_index(one.labels.tolist(), clients.truth), one.n_groups, one.confidence or 0.0)
        for rule, one in found.items()
    }
    ratio = in_units_of_noise(described.proximity, described.noise)
    truth, pairs = np.array(clients.truth), np.triu(np.ones(ratio.shape, bool), 1)
    same = truth[:, None] == truth
    auto = found["auto"]
    return Outcome(
        verdicts,
        ratio[pairs & same],
        ratio[pairs & ~same],
        len(set(clients.truth)),
        auto.reason,
        auto.labels.tolist(),
        float(auto.heights[-1]),
        described.halves,
    )


def trained(task: tuple[dict[str, Any], int]) -> tuple[float, float, float, int]:
    """Train and return the accuracies L, C and +, in per cent, and the number of groups."""
    settings, seed = task
    result = coterie.run(**settings, algorithm="pacfl", seed=seed, eval_every=0, workers=1)
    assert result.groups is not None
    told = [100 * (result.accuracy[key] or math.nan) for key in ("L", "C", "plus")]
    return told[0], told[1], told[2], len(set(result.groups))


class Bench:
    """Runs federations, two at a time, and remembers what came out."""

    def __init__(self, pool: Executor, folder: Path | None, quick: bool) -> None:
        self.pool, self.folder, self.quick = pool, folder, quick
        self.known: dict[tuple[Case, int], Outcome] = {}

    def seeds(self, count: int, first: int = 0) -> range:
        """Return so many seeds, or two where it shall be quick."""
        return range(first, first + (min(count, 2) if self.quick else count))

    def outcomes(self, cases: Iterable[Case], seeds: Iterable[int]) -> list[list[Outcome]]:
        """Return what came out for each case and each seed."""
        cases, seeds = list(cases), list(seeds)
        tasks = [(case, seed) for case in cases for seed in seeds]
        new = [task for task in dict.fromkeys(tasks) if task not in self.known]
        self.known |= dict(zip(new, self.pool.map(outcome, new), strict=True))
        return [[self.known[case, seed] for seed in seeds] for case in cases]

    def one(self, case: Case, seed: int = 0) -> Outcome:
        """Return what came out once."""
        return self.outcomes([case], [seed])[0][0]

    def save(self, figure: Figure, name: str, *needs: str) -> None:
        """Write a picture, unless none are wanted or data are missing that it shows."""
        if self.folder is not None and all(map(is_here, needs)):
            figure.savefig(self.folder / f"{name}.png", dpi=110)
        else:
            print(f"\n(picture {name} not written)")


def mean_ari(outcomes: Sequence[Outcome], rule: str) -> float:
    """Return the mean agreement with the truth."""
    return float(np.mean([one.verdicts[rule].ari for one in outcomes]))


def share_right(outcomes: Sequence[Outcome], rule: str) -> float:
    """Return the share of federations in which all groups were found exactly."""
    return float(np.mean([one.verdicts[rule].ari == 1 for one in outcomes]))


def counts(outcomes: Sequence[Outcome], rule: str) -> list[int]:
    """Return the numbers of groups found."""
    return [one.verdicts[rule].groups for one in outcomes]
