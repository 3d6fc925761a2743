"""The benchmarks of the dissertation's chapter 5, with super clusters of classes and without (ALGORITHMS 8.8).

C-NIID and C-Dir let every client have any labels. SC-NIID and SC-Dir first divide the labels into super clusters, whose
images span alike subspaces, and give every client labels of one of them only, which is its true group.
"""

import math
from collections.abc import Sequence
from typing import Annotated, Literal

import numpy as np
from annotated_types import Ge, Gt, Le

from coterie.data.federated import Dataset, Index
from coterie.data.partitions.counting import moved_note
from coterie.data.partitions.dirichlet import Concentration, Minimum, shared_by_dirichlet
from coterie.data.partitions.even_sizes import dealt_shards
from coterie.data.partitions.label_skew import covering, shared_evenly
from coterie.data.registries import Partition, partition
from coterie.data.super_clusters import THRESHOLD, VECTORS, super_clusters
from coterie.errors import CoterieError
from coterie.similarity.angles import AngleMeasure

LabelsEach = Annotated[
    int | None, Ge(1), "Labels of each client; none: 20 % of those that it may have, rounded up, and at least 2."
]
Share = Annotated[float | None, Gt(0), Le(1), "Fraction ρ of the labels that it may have, instead of their number."]
Degrees = Annotated[
    float | None,
    Ge(0),
    Le(90 * VECTORS),
    f"Degrees up to which classes merge into super clusters; none: {THRESHOLD:g}, with min_abs.",
]
Sets = Annotated[int | None, Ge(1), "Number of super clusters, instead of a threshold."]
Measure = Annotated[
    Literal["min_abs", "theta1", "trace"],
    "Angles between classes: the smallest between singular vectors, as in the public code; the smallest between the "
    "spaces that these span, Eq. 5.1; or the sum of those between vectors of the same rank, Eq. 5.2.",
]
Shards = Annotated[
    int | None,
    Ge(1),
    "Shards of its super cluster's samples, sorted by label, that each client draws, instead of labels; the text: 2.",
]
ShardSize = Annotated[int | None, Ge(1), "Samples in a shard; none: all samples are used, in equal shards."]
Allocation = Annotated[
    Literal["proportional", "R"],
    "Clients of a super cluster: by its samples; R: by 1 + its share of the labels, as in the public code.",
]


@partition("sc-niid")
def sc_niid(
    data: Dataset,
    clients: int,
    rng: np.random.Generator,
    *,
    labels: LabelsEach = None,
    rho: Share = None,
    threshold: Degrees = None,
    groups: Sets = None,
    measure: Measure = "min_abs",
    allocation: Allocation = "proportional",
    shards: Shards = None,
    size: ShardSize = None,
) -> Partition:
    """SC-NIID(k): every client has k labels of one super cluster; owners of a label share its samples evenly.

    Clients are numbered super cluster by super cluster, which are the true groups. Where a super cluster has fewer
    than k labels, its clients have all of them. It has at least as many clients as its labels need owners. With
    `shards` clients draw shards of one super cluster's samples instead, as `shards` does of all (5.2.2).
    """
    sets, notes = _sets("sc-niid", data, threshold, groups, measure)
    if shards is None:
        if size is not None:
            raise CoterieError(f"partition 'sc-niid': size = {size} is that of shards: say how many, or leave it out")
        made = _some_labels("sc-niid", data.train.y, clients, rng, sets, labels, rho, allocation)
    else:
        if labels is not None or rho is not None:
            raise CoterieError(f"partition 'sc-niid': shards = {shards} takes the place of labels and rho: use one")
        made = _some_shards("sc-niid", data.train.y, clients, rng, sets, shards, size, allocation)
    return Partition(made.parts, made.true_groups, notes=notes)


@partition("c-niid")
def c_niid(
    data: Dataset, clients: int, rng: np.random.Generator, *, labels: LabelsEach = None, rho: Share = None
) -> Partition:
    """C-NIID(k): every client has k of all labels; owners of a label share its samples evenly.

    This is `label-skew`, in which the number of labels may stand in place of their fraction.
    """
    sets = [np.unique(data.train.y)]
    return Partition(_some_labels("c-niid", data.train.y, clients, rng, sets, labels, rho, "proportional").parts)


@partition("sc-dirichlet")
def sc_dirichlet(
    data: Dataset,
    clients: int,
    rng: np.random.Generator,
    *,
    alpha: Concentration = 0.5,
    min_samples: Minimum = 15,
    threshold: Degrees = None,
    groups: Sets = None,
    measure: Measure = "min_abs",
    allocation: Allocation = "proportional",
) -> Partition:
    """SC-Dir(alpha): each label is shared in Dirichlet proportions by the clients of its super cluster only.

    Clients are numbered super cluster by super cluster, which are the true groups; `dirichlet` is done in each.
    """
    sets, notes = _sets("sc-dirichlet", data, threshold, groups, measure)
    made = _by_dirichlet("sc-dirichlet", data.train.y, clients, rng, sets, alpha, min_samples, allocation)
    return Partition(made.parts, made.true_groups, notes=[*notes, *made.notes])


@partition("c-dirichlet")
def c_dirichlet(
    data: Dataset, clients: int, rng: np.random.Generator, *, alpha: Concentration = 0.5, min_samples: Minimum = 15
) -> Partition:
    """C-Dir(alpha): each label is shared in Dirichlet proportions by all clients.

    This is `dirichlet` with chapter 5's defaults.
    """
    sets = [np.unique(data.train.y)]
    made = _by_dirichlet("c-dirichlet", data.train.y, clients, rng, sets, alpha, min_samples, "proportional")
    return Partition(made.parts, notes=made.notes)


def _sets(
    name: str, data: Dataset, threshold: float | None, groups: int | None, measure: AngleMeasure
) -> tuple[list[Index], list[str]]:
    """Return the labels of each super cluster, and a note that names them."""
    if threshold is not None and groups is not None:
        raise CoterieError(f"partition '{name}': threshold = {threshold:g} and groups = {groups}: use one of them")
    if measure != "min_abs" and threshold is None and groups is None:
        raise CoterieError(
            f"partition '{name}': {THRESHOLD:g} degrees are for measure = min_abs: with {measure} name a threshold, or "
            "the number of groups"
        )
    clusters = super_clusters(data.train, threshold=threshold, groups=groups, measure=measure)
    if groups is not None and groups > len(clusters.labels):
        raise CoterieError(
            f"partition '{name}': groups = {groups}, but there are {len(clusters.labels)} labels: "
            f"use at most {len(clusters.labels)}"
        )
    note = "all labels are in one super cluster, as without: use a smaller threshold, or name the number of groups"
    if len(clusters.sets) > 1:
        listed = ", ".join("{" + ", ".join(map(str, each)) + "}" for each in clusters.sets)
        note = f"the super clusters of labels are {listed}"
    return [np.array(each, np.int64) for each in clusters.sets], [f"partition '{name}': {note}"]


def _some_labels(
    name: str,
    y: Index,
    clients: int,
    rng: np.random.Generator,
    sets: Sequence[Index],
    labels: int | None,
    rho: float | None,
    allocation: str,
) -> Partition:
    """Divide the samples of each set of labels among clients that have some of its labels each."""
    if labels is not None and rho is not None:
        raise CoterieError(f"partition '{name}': labels = {labels} and rho = {rho:g}: use one of them")
    usual = [max(2, math.ceil(0.2 * len(own))) if rho is None else math.ceil(rho * len(own) - 1e-9) for own in sets]
    each = [min(labels or k, len(own)) for k, own in zip(usual, sets, strict=True)]
    fewest = [math.ceil(len(own) / k) for own, k in zip(sets, each, strict=True)]
    if sum(fewest) > clients:
        raise CoterieError(
            f"partition '{name}': {clients} clients are too few for every label to have an owner, with "
            f"{max(each)} {'label' if max(each) == 1 else 'labels'} per client"
            + (f" in {len(sets)} super clusters" if len(sets) > 1 else "")
            + f": use at least {sum(fewest)} clients, or more labels"
        )
    parts, numbers = [], allocated(y, sets, fewest, clients, allocation, rng)
    for own, k, number in zip(sets, each, numbers, strict=True):
        parts += shared_evenly(y, own, covering(number, len(own), k, rng), rng)
    return Partition(parts, np.repeat(np.arange(len(sets)), numbers))


def _some_shards(
    name: str,
    y: Index,
    clients: int,
    rng: np.random.Generator,
    sets: Sequence[Index],
    shards: int,
    size: int | None,
    allocation: str,
) -> Partition:
    """Divide the samples of each set of labels among clients in shards, of which each client draws so many."""
    _check_clients(name, clients, sets)
    parts, numbers = [], allocated(y, sets, [1] * len(sets), clients, allocation, rng)
    for own, number in zip(sets, numbers, strict=True):
        where = f"partition '{name}', labels {', '.join(map(str, own))}"
        parts += dealt_shards(where, y, np.flatnonzero(np.isin(y, own)), number, shards, size, rng)
    return Partition(parts, np.repeat(np.arange(len(sets)), numbers))


def _check_clients(name: str, clients: int, sets: Sequence[Index]) -> None:
    if clients < len(sets):
        raise CoterieError(
            f"partition '{name}': {clients} clients are too few for {len(sets)} super clusters: "
            f"use at least {len(sets)} clients, or fewer groups"
        )


def _by_dirichlet(
    name: str,
    y: Index,
    clients: int,
    rng: np.random.Generator,
    sets: Sequence[Index],
    alpha: float,
    min_samples: int,
    allocation: str,
) -> Partition:
    """Divide the samples of each set of labels among its clients in Dirichlet proportions."""
    _check_clients(name, clients, sets)
    parts, moved, numbers = [], 0, allocated(y, sets, [1] * len(sets), clients, allocation, rng)
    for own, number in zip(sets, numbers, strict=True):
        positions = np.flatnonzero(np.isin(y, own))
        if number * min_samples > len(positions):
            raise CoterieError(
                f"partition '{name}': at least {min_samples} samples for each of {number} clients are "
                f"{number * min_samples}, but the labels {', '.join(map(str, own))} have {len(positions)}: "
                f"use fewer clients, or min_samples = {len(positions) // number}"
            )
        within, more = shared_by_dirichlet(y[positions], number, alpha, min_samples, rng)
        parts += [positions[part] for part in within]
        moved += more
    groups = np.repeat(np.arange(len(sets)), numbers)
    return Partition(parts, groups, notes=moved_note(name, moved, len(y), min_samples))


def allocated(
    y: Index, sets: Sequence[Index], fewest: Sequence[int], clients: int, allocation: str, rng: np.random.Generator
) -> list[int]:
    """Return how many clients each set of labels gets, at least the `fewest`, which may not be more than all.

    In proportion to samples by largest remainders; or "R", in proportion to 1 + its share of the labels, rounded up,
    and one less for sets drawn at random until the sum is right.
    """
    if allocation == "R":
        weights = np.array([1 + len(own) / sum(map(len, sets)) for own in sets])
        numbers = np.maximum(np.ceil(clients * weights / weights.sum() - 1e-9).astype(np.int64), fewest)
        while numbers.sum() > clients:
            numbers[rng.choice(np.flatnonzero(numbers > fewest))] -= 1
        return [int(number) for number in numbers]
    sizes = np.array([np.isin(y, own).sum() for own in sets])
    exact = clients * sizes / sizes.sum()
    numbers = np.maximum(np.floor(exact).astype(np.int64), fewest)
    while numbers.sum() < clients:
        numbers[np.argmax(exact - numbers)] += 1
    while numbers.sum() > clients:
        numbers[np.argmax(np.where(numbers > fewest, numbers - exact, -np.inf))] -= 1
    return [int(number) for number in numbers]
