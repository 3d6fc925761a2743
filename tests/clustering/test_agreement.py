"""Scores of groupings against pairs counted one by one, entropies, and scikit-learn."""

import math
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import adjusted_rand_score, normalized_mutual_info_score

from coterie.clustering import adjusted_rand_index, clustering_error, normalised_mutual_information, row_groups

pairs = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=2, max_size=20)
Score = Callable[[Sequence[int], Sequence[int]], float]
SCORES: list[Score] = [adjusted_rand_index, normalised_mutual_information]


@pytest.mark.integration
@given(pairs)
def test_adjusted_rand_index_by_counting_pairs(labels: list[tuple[int, int]]) -> None:
    together = [(x[0] == y[0], x[1] == y[1]) for x, y in combinations(labels, 2)]
    a, b, both = (sum(f(t) for t in together) for f in (lambda t: t[0], lambda t: t[1], all))
    chance, most = a * b / len(together), (a + b) / 2
    expected = 1.0 if most == chance else (both - chance) / (most - chance)
    assert adjusted_rand_index(*zip(*labels, strict=True)) == pytest.approx(expected)


def entropy(labels: list[object]) -> float:
    return -sum(c / len(labels) * math.log(c / len(labels)) for c in Counter(labels).values())


@pytest.mark.integration
@given(pairs)
def test_normalised_mutual_information_by_entropies(labels: list[tuple[int, int]]) -> None:
    a, b = (list(names) for names in zip(*labels, strict=True))
    total = entropy(a) + entropy(b)
    expected = 1.0 if total == 0 else 2 * (total - entropy(list(labels))) / total
    assert normalised_mutual_information(a, b) == pytest.approx(expected, abs=1e-9)
    assert 0 <= normalised_mutual_information(a, b) <= 1


def test_the_scores_are_those_of_scikit_learn() -> None:
    rng = np.random.default_rng(0)
    for size in (1, 2, 3, 7, 40, 1000):
        for most in (1, 2, 5, 30):
            a, b = rng.integers(0, most, (2, size))
            for first, second in ((a, b), (a, a), (a, np.arange(size)), (np.zeros(size, int), b)):
                assert adjusted_rand_index(first, second) == adjusted_rand_score(first, second)
                assert normalised_mutual_information(first, second) == pytest.approx(
                    normalized_mutual_info_score(first, second), abs=1e-12
                )


def test_groupings_of_different_clients_are_refused() -> None:
    for score in SCORES:
        with pytest.raises(ValueError, match=r"^two groupings of the same clients: 3 and 2 of them$"):
            score([0, 0, 1], [0, 1])


@pytest.mark.integration
@pytest.mark.parametrize("score", SCORES)
@given(labels=pairs, seed=st.integers(0, 1000))
def test_neither_names_nor_order_matter(score: Score, labels: list[tuple[int, int]], seed: int) -> None:
    order = np.random.default_rng(seed).permutation(len(labels))
    a, b = np.array(labels).T
    assert score(a, b) == pytest.approx(score(b, a))
    assert score(a, b) == pytest.approx(score(7 - a[order], b[order]))
    assert score(a, a) == pytest.approx(1)


@pytest.mark.parametrize("score", SCORES)
def test_one_group_and_clients_alone(score: Score) -> None:
    assert score([0, 0, 0], [4, 4, 4]) == 1
    assert score([0, 1, 2], [5, 3, 4]) == 1
    assert score([0], [0]) == 1
    assert score([0, 0, 0, 0], [0, 0, 1, 1]) == 0


def error_by_hand(members: np.ndarray, sets: list[set[int]]) -> float:
    wrong = 0
    for i, own in enumerate(sets):
        for j, other in enumerate(sets):
            wrong += bool(members[i, j]) != (len(own & other) >= math.ceil(len(own) / 2))
    return wrong / len(sets)


@pytest.mark.integration
@given(
    sets=st.lists(st.sets(st.integers(0, 6), min_size=1, max_size=5), min_size=1, max_size=9),
    seed=st.integers(0, 1000),
)
def test_clustering_error_by_hand(sets: list[set[int]], seed: int) -> None:
    rng, n = np.random.default_rng(seed), len(sets)
    members, labels = row_groups(rng.random((n, n)), 0.5), rng.integers(0, 3, n)
    assert clustering_error(members, sets) == pytest.approx(error_by_hand(members, sets))
    assert clustering_error(labels, sets) == pytest.approx(error_by_hand(labels[:, None] == labels, sets))
    assert clustering_error(members, [np.array(sorted(s)) for s in sets]) == clustering_error(members, sets)
    assert 0 <= clustering_error(members, sets) <= n - 1
    order = rng.permutation(n)
    assert clustering_error(labels[order], [sets[i] for i in order]) == pytest.approx(clustering_error(labels, sets))


def test_clustering_error_counts_clients_and_not_shares() -> None:
    sets = [{0, 1}] * 5 + [{2, 3}] * 5
    assert clustering_error([0] * 5 + [1] * 5, sets) == 0
    assert clustering_error([0] * 10, sets) == 5  # false positives: everyone has five strangers
    assert clustering_error(list(range(10)), sets) == 4  # false negatives: everyone misses four
    assert clustering_error(np.zeros(0), []) == 0
    assert clustering_error([3], [{1}]) == 0


def test_half_of_the_labels_of_the_one_who_asks() -> None:
    """{0} is all that the first has; of the second's three labels it is less than half."""
    assert clustering_error([[1, 1], [0, 1]], [{0}, {0, 1, 2}]) == 0
    assert clustering_error([[1, 0], [0, 1]], [{0}, {0, 1, 2}]) == 0.5
    assert clustering_error([[1, 1], [1, 1]], [{0}, {0, 1, 2}]) == 0.5


def test_wrong_arguments() -> None:
    with pytest.raises(ValueError, match=r"2 label sets, but groups have shape \(3,\)"):
        clustering_error([0, 0, 1], [{1}, {2}])
    with pytest.raises(ValueError, match="client 1 has no labels"):
        clustering_error([0, 1], [{1}, set()])


@pytest.mark.integration
def test_rounding_never_leads_above_1() -> None:
    rng = np.random.default_rng(0)
    for _ in range(200):
        groups = rng.integers(0, 8, 50)
        assert 1 - 1e-12 < normalised_mutual_information(groups, 9 - groups) <= 1
