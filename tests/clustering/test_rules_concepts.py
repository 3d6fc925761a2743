"""The rule 'concepts' on clients drawn from known distributions: when it parts them, and where newcomers go."""

from collections.abc import Sequence
from itertools import combinations

import numpy as np
import pytest

from coterie.clustering import RULES, Concepts, Grouping, RuleSupport, adjusted_rand_index
from coterie.clustering.options import GroupingOptions
from coterie.clustering.rules.concepts import to_groups
from coterie.similarity import ClassMoments, class_distances, class_moments

LABELS, FEATURES = 6, 8


def client(concept: float | np.ndarray, labels: list[int], samples: int, seed: int) -> ClassMoments:
    """A client whose label y looks like N(centre of y, 1), shifted by its concept."""
    centres = np.random.default_rng(99).normal(size=(LABELS, FEATURES)) * 2
    rng = np.random.default_rng(seed)
    y = np.sort(rng.choice(labels, samples))
    return class_moments(centres[y] + concept + rng.normal(size=(samples, FEATURES)), y, LABELS)


def federation(concepts: Sequence[float | np.ndarray], labels: list[list[int]], samples: int = 60) -> np.ndarray:
    made = [client(c, own, samples, seed) for seed, (c, own) in enumerate(zip(concepts, labels, strict=True))]
    return class_distances(made)


ALL = [*range(LABELS)]
SKEWED = [[k % LABELS, (k + 1 + k // 3) % LABELS] for k in range(24)]


@pytest.mark.parametrize("labels", [[ALL] * 24, SKEWED], ids=["even", "skewed"])
@pytest.mark.parametrize("samples", [30, 300])
def test_label_frequencies_are_no_reason_to_part(labels: list[list[int]], samples: int) -> None:
    grouping = Concepts(unit="of a label's variance").group(federation([0.0] * 24, labels, samples))
    assert grouping.n_groups == 1
    assert "looks alike at all clients" in grouping.reason or "no clear groups" in grouping.reason
    assert grouping.unit == "of a label's variance"


@pytest.mark.parametrize("labels", [[ALL] * 24, SKEWED], ids=["even", "skewed"])
def test_clients_to_whom_labels_look_different_are_parted(labels: list[list[int]]) -> None:
    concepts = [1.0 * (k % 3) for k in range(24)]
    grouping = Concepts().group(federation(concepts, labels, 80))
    assert adjusted_rand_index(grouping.labels, [k % 3 for k in range(24)]) == 1
    assert "looks different in different groups" in grouping.reason
    assert (grouping.rule, grouping.linkage) == ("concepts", "average")
    assert grouping.confidence is not None
    assert grouping.confidence > 0.5


def test_each_in_its_own_way_is_no_group() -> None:
    """Like writers: beyond chance, but in no clear groups."""
    shifts = np.random.default_rng(5).normal(size=(24, FEATURES))
    grouping = Concepts().group(federation([*shifts], [ALL] * 24, 200))
    assert grouping.n_groups == 1
    assert "no clear groups" in grouping.reason


def test_what_no_chain_of_labels_connects_is_apart_and_divided_by_itself() -> None:
    labels = [[0, 1, 2]] * 6 + [[3, 4], [4, 5]] * 6
    concepts = [0.0] * 6 + [0.0, 0.0, 2.0, 2.0] * 3
    grouping = Concepts().group(federation(concepts, labels, 80))
    assert grouping.labels.tolist() == [0] * 6 + [1, 1, 2, 2] * 3
    assert grouping.reason.startswith("2 parts are connected by no chain of shared labels")
    assert np.isinf(grouping.tree[-1, 2])
    assert np.isfinite(grouping.heights).all()
    alike = Concepts().group(federation([0.0] * 18, labels, 80))
    assert alike.labels.tolist() == [0] * 6 + [1] * 12


def test_both_conditions_are_needed() -> None:
    concepts = [0.8 * (k % 2) for k in range(16)]
    pairs = federation(concepts, [ALL] * 16, 60)
    assert Concepts().group(pairs).n_groups == 2
    assert Concepts(chance=1000.0).group(pairs).n_groups == 1
    assert Concepts(least=1.0).group(pairs).n_groups == 1


def oracle(pairs: np.ndarray, chance: float = 2.0, least: float = 0.7) -> list[frozenset[int]]:
    """The rule by loops over sets of clients: merge, look at each cut, take the clearest beyond chance."""
    known = {
        (i, j): pairs[i, j] for i in range(len(pairs)) for j in range(len(pairs)) if i != j and pairs[i, j]["shared"]
    }

    def mean(a: frozenset[int], b: frozenset[int], value: str, weight: str) -> float:
        found = [known[i, j] for i in a for j in b if (i, j) in known]
        total = sum(pair[weight] for pair in found)
        return sum(pair[value] * pair[weight] for pair in found) / total if found else np.inf

    groups = [frozenset({i}) for i in range(len(pairs))]
    steps: list[tuple[list[frozenset[int]], float, float]] = []
    while True:
        height, a, b = min(
            ((mean(a, b, "distance", "weight"), a, b) for a, b in combinations(groups, 2)),
            key=lambda found: found[0],
            default=(np.inf, groups[0], groups[0]),
        )
        if np.isinf(height):
            break
        steps.append((groups, height, mean(a, b, "excess", "shared")))
        groups = [group for group in groups if group not in (a, b)] + [a | b]
    parts, scores = groups, []
    for cut, height, excess in steps:
        if height > 0 and excess > chance:
            scores.append((round(score_of(cut, parts, known), 2), len(cut), cut))
    best = max(scores, key=lambda found: found[:2], default=(-1.0, 0, parts))
    return best[2] if best[0] >= least else parts


def score_of(cut: list[frozenset[int]], parts: list[frozenset[int]], known: dict[tuple[int, int], np.void]) -> float:
    """Mean silhouette of the clients whose part is divided."""
    scores = []
    for own in cut:
        for i in own:
            if next(part for part in parts if i in part) in cut:
                continue
            means = {}
            for group in cut:
                distances = [known[i, j]["distance"] for j in group if (i, j) in known]
                if distances:
                    means[group] = max(sum(distances), 0.0) / len(distances)
            inside = means.pop(own, None)
            if inside is None or not means:
                scores.append(0.0)
                continue
            nearest = min(means.values())
            scores.append((nearest - inside) / max(inside, nearest) if max(inside, nearest) > 0 else 0.0)
    return float(np.mean(scores))


@pytest.mark.parametrize("seed", range(30))
def test_it_finds_what_loops_find(seed: int) -> None:
    rng = np.random.default_rng(seed)
    clients = int(rng.integers(4, 16))
    concepts = rng.choice([0.0, 0.5, 1.5], clients) * (seed % 3 > 0)
    labels = [sorted(rng.choice(LABELS, rng.integers(1, 4), replace=False).tolist()) for _ in range(clients)]
    pairs = class_distances([client(concepts[k], labels[k], int(rng.integers(8, 80)), 50 + k) for k in range(clients)])
    found, expected = Concepts().group(pairs).labels, oracle(pairs)
    alone = [i for group in expected if len(group) == 1 for i in group]  # whom the rule finds mates for
    for group in expected:
        if len(group) > 1:
            assert len({found[i] for i in group}) == 1
    assert len({*found.tolist()}) == max(len(expected) - len(alone), 1)


def test_nobody_is_alone() -> None:
    """Who differs from all joins the nearest group, who shares no label the largest; all alone are one group."""
    outlier = Concepts().group(federation([0.0] * 8 + [2.0] * 8 + [9.0], [ALL] * 17, 90))
    assert outlier.labels.tolist() == [0] * 8 + [1] * 9
    assert "1 client that shared a group with nobody" in outlier.reason
    stranger = Concepts().group(federation([0.0] * 9, [[0, 1]] * 3 + [[2, 3]] * 5 + [[5]], 60))
    assert stranger.labels.tolist() == [0] * 3 + [1] * 6
    assert Concepts().group(federation([0.0] * 4, [[0], [1], [2], [3]])).n_groups == 1
    empty = class_moments(np.zeros((3, FEATURES)), np.zeros(3, int), LABELS)  # too few samples of any label
    assert Concepts().group(class_distances([client(0, ALL, 60, 0), client(0, ALL, 60, 1), empty])).n_groups == 1
    assert Concepts().group(class_distances([empty])).labels.tolist() == [0]


def test_weights_of_groups_sum_to_one() -> None:
    grouping = Concepts().group(federation([0.0, 3.0] * 6, SKEWED[:12], 80))
    sums = np.bincount(grouping.labels, grouping.weights)
    np.testing.assert_allclose(sums, 1)


@pytest.fixture
def grouping_and_clients() -> tuple[Grouping, list[ClassMoments]]:
    old = [client(2.0 * (k % 2), [0, 1, 2, 3], 80, k) for k in range(10)]
    return Concepts().group(class_distances(old)), old


def extended(grouping: Grouping, old: list[ClassMoments], new: list[ClassMoments]) -> list[int]:
    made = Concepts().extend(grouping, class_distances(new, old), class_distances(new))
    assert made.labels[: len(old)].tolist() == grouping.labels.tolist()
    assert len(made.weights) == len(made.labels) == len(old) + len(new)
    return made.labels[len(old) :].tolist()


def test_newcomers_join_the_group_that_looks_alike_by_the_labels_they_share(
    grouping_and_clients: tuple[Grouping, list[ClassMoments]],
) -> None:
    grouping, old = grouping_and_clients
    assert grouping.n_groups == 2
    new = [client(2.0 * (k % 2), [[0], [1, 4], [2, 3]][k % 3], 40, 100 + k) for k in range(6)]
    assert extended(grouping, old, new) == [0, 1] * 3


def test_newcomers_found_groups_together_and_never_alone(
    grouping_and_clients: tuple[Grouping, list[ClassMoments]],
) -> None:
    grouping, old = grouping_and_clients
    strange = [client(7.0, ALL, 80, 200 + k) for k in range(3)]
    assert extended(grouping, old, strange) == [2, 2, 2]
    assert extended(grouping, old, strange[:1]) == [1]
    mixed = [*strange[:2], client(-9.0, ALL, 80, 300), client(0.0, [4, 5], 80, 301)]
    assert extended(grouping, old, mixed) == [2, 2, 0, 0]  # nearest; and nothing shared: the largest
    founded = Concepts().extend(grouping, class_distances(strange, old), class_distances(strange))
    later = [client(7.0, [1], 60, 400)]
    again = Concepts().extend(founded, class_distances(later, old + strange), class_distances(later))
    assert again.labels[-1] == 2


def test_newcomers_that_differ_each_in_its_own_way_found_nothing() -> None:
    """As among writers, who are one group: beyond chance from each other, and from it."""
    shifts = np.random.default_rng(8).normal(size=(30, FEATURES))
    made = [client(shift, ALL, 200, 500 + k) for k, shift in enumerate(shifts)]
    grouping = Concepts().group(class_distances(made[:15]))
    assert grouping.n_groups == 1
    pairs = class_distances(made[15:], made[:15])
    assert (to_groups(pairs, grouping.labels)["excess"] > 2).all()
    assert extended(grouping, made[:15], made[15:]) == [0] * 15


def test_regrouping_is_grouping_all() -> None:
    pairs = federation([2.0 * (k % 2) for k in range(12)], [ALL] * 12)
    first = Concepts().group(pairs[:6, :6])
    assert Concepts().regroup(first, pairs).labels.tolist() == [0, 1] * 6


def test_means_to_groups_are_weighted_over_known_pairs() -> None:
    pairs = federation([0.0, 1.0, 0.0, 1.0, 2.0], [[0, 1], [0], [1, 2], [3], [0, 2]], 50)
    labels = np.array([0, 0, 1, 1, -1])
    found = to_groups(pairs, labels, 2)
    for i in range(5):
        for group in range(2):
            known = [j for j in np.flatnonzero(labels == group) if np.isfinite(pairs["distance"][i, j])]
            for value, weight in (("distance", "weight"), ("excess", "shared")):
                expected = np.average(pairs[value][i, known], weights=pairs[weight][i, known]) if known else np.nan
                assert found[value][i, group] == pytest.approx(expected, nan_ok=True)


def test_it_needs_what_chance_explains() -> None:
    with pytest.raises(ValueError, match="needs what chance explains"):
        Concepts().group(np.zeros((3, 3)))
    assert RULES["concepts"].needs == ("chance",)
    assert not RuleSupport(("distances", "noise", "trial")).accepts("concepts")
    support = RuleSupport(("chance",), refuses=("count",))
    assert [name for name in RULES if support.accepts(name)] == ["concepts"]
    assert "average linkage" in (support.error_in(GroupingOptions(linkage="single")) or "")
    assert "use concepts" in (support.error_in(GroupingOptions(groups=4)) or "")
