"""Trees and cuts against SciPy, against loops that merge by hand, and the rules of ALGORITHMS 0.6, 2 and 12.6."""

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.cluster import hierarchy
from scipy.spatial.distance import pdist, squareform

from coterie.clustering import LINKAGES, adjusted_rand_index, canonical, condensed, cut, heights, number_of_groups, tree
from coterie.clustering import hierarchical as module

MONOTONE = ("single", "complete", "average", "weighted", "ward")
seeds = st.integers(0, 10**6)


def proximities(seed: int, n: int) -> np.ndarray:
    """A random proximity matrix in degrees, not Euclidean, all entries different."""
    upper = np.triu(np.random.default_rng(seed).uniform(0, 90, (n, n)), 1)
    return upper + upper.T


def distances(seed: int, n: int, decimals: int | None = None) -> np.ndarray:
    """Distances between random points in the plane; rounded, there are ties and duplicates."""
    points = np.random.default_rng(seed).normal(size=(n, 2))
    return squareform(pdist(points if decimals is None else points.round(decimals)))


def merged_by_hand(
    p: np.ndarray, apart: Callable[[list[int], list[int], np.ndarray], float], threshold: float, count: int = 1
) -> np.ndarray:
    """Merge the two groups that are closest, by the definition, while they are within the threshold."""
    groups = [[i] for i in range(len(p))]
    while len(groups) > count:
        pairs = [(apart(a, b, p), i, j) for i, a in enumerate(groups) for j, b in enumerate(groups) if i < j]
        distance, i, j = min(pairs)
        if distance > threshold:
            break
        groups[i] += groups.pop(j)
    labels = np.empty(len(p), int)
    for name, members in enumerate(groups):
        labels[members] = name
    return canonical(labels)


BY_HAND: dict[str, Callable[[list[int], list[int], np.ndarray], float]] = {
    "single": lambda a, b, p: float(p[np.ix_(a, b)].min()),
    "complete": lambda a, b, p: float(p[np.ix_(a, b)].max()),
    "average": lambda a, b, p: float(p[np.ix_(a, b)].mean()),
}


def wpgma(p: np.ndarray, threshold: float) -> np.ndarray:
    """PACFL's loop: merge the closest pair (i, j) if within the threshold, then d(new, k) = (d(i, k) + d(j, k)) / 2."""
    p = p.copy()
    np.fill_diagonal(p, np.inf)
    members = [[i] for i in range(len(p))]
    while len(p) > 1 and p.min() <= threshold:
        i, j = sorted(np.unravel_index(p.argmin(), p.shape))
        p[i] = p[:, i] = (p[i] + p[j]) / 2
        p[i, i] = np.inf
        p = np.delete(np.delete(p, j, 0), j, 1)
        members[i] += members.pop(j)
    labels = np.empty(sum(map(len, members)), int)
    for name, group in enumerate(members):
        labels[group] = name
    return canonical(labels)


@pytest.mark.integration
def test_weighted_is_the_loop_of_pacfl() -> None:
    """Oracle 6: 300 random cases; UPGMA is something else."""
    differ = 0
    for seed in range(300):
        n = 2 + seed % 19
        p, threshold = proximities(seed, n), float(np.random.default_rng(seed + 1).uniform(0, 70))
        expected = wpgma(p, threshold)
        np.testing.assert_array_equal(cut(tree(p, "weighted"), threshold=threshold), expected)
        differ += not np.array_equal(cut(tree(p, "average"), threshold=threshold), expected)
    assert differ > 20


@pytest.mark.parametrize("linkage", sorted(BY_HAND))
@given(seed=seeds, n=st.integers(1, 14), threshold=st.floats(0, 95), count=st.integers(1, 14))
def test_groups_merged_by_hand(linkage: str, seed: int, n: int, threshold: float, count: int) -> None:
    p = proximities(seed, n)
    merges = tree(p, linkage)
    apart = BY_HAND[linkage]
    np.testing.assert_array_equal(cut(merges, threshold=threshold), merged_by_hand(p, apart, threshold))
    np.testing.assert_array_equal(cut(merges, count=count), merged_by_hand(p, apart, np.inf, count))


@pytest.mark.integration
@pytest.mark.parametrize("linkage", LINKAGES)
@given(seed=seeds, n=st.integers(2, 30), decimals=st.sampled_from([None, 0, 1]), share=st.floats(0, 1.2))
def test_tree_and_threshold_are_those_of_scipy(
    linkage: str, seed: int, n: int, decimals: int | None, share: float
) -> None:
    """Also where there are ties, and where merges lie below those that they contain (centroid, median)."""
    p = distances(seed, n, decimals)
    merges = tree(p, linkage)
    np.testing.assert_array_equal(merges, hierarchy.linkage(squareform(p, checks=False), linkage))
    for threshold in [share * merges[:, 2].max(), *merges[:3, 2]]:  # equal to a height, too
        labels = cut(merges, threshold=threshold)
        np.testing.assert_array_equal(labels, canonical(hierarchy.fcluster(merges, threshold, "distance")))
        assert number_of_groups(merges, threshold) == len(set(labels))


@pytest.mark.parametrize("linkage", LINKAGES)
@given(seed=seeds, n=st.integers(1, 25), decimals=st.sampled_from([None, 0, 1]))
def test_exactly_as_many_groups_as_asked_for(linkage: str, seed: int, n: int, decimals: int | None) -> None:
    """Also where SciPy's maxclust gives fewer, since merges tie; each cut refines the one before."""
    merges = tree(distances(seed, n, decimals), linkage)
    coarser = np.zeros(n, int)
    for count in range(1, n + 3):
        labels = cut(merges, count=count)
        assert set(labels) == set(range(min(count, n)))
        assert len(set(zip(labels, coarser, strict=True))) == min(count, n)
        coarser = labels


def test_ties_where_scipy_gives_fewer_groups() -> None:
    merges = tree(np.ones((4, 4)) - np.eye(4))
    assert hierarchy.fcluster(merges, 3, "maxclust").max() == 1
    np.testing.assert_array_equal(cut(merges, count=3), [0, 0, 1, 2])


@pytest.mark.integration
@pytest.mark.parametrize("linkage", MONOTONE)
@given(seed=seeds, n=st.integers(1, 20), threshold=st.floats(0, 95))
def test_the_order_of_clients_does_not_matter(linkage: str, seed: int, n: int, threshold: float) -> None:
    p, order = proximities(seed, n), np.random.default_rng(seed).permutation(n)
    merges, permuted = tree(p, linkage), tree(p[np.ix_(order, order)], linkage)
    np.testing.assert_allclose(heights(permuted), heights(merges), rtol=1e-9)
    for count in range(1, n + 1):
        np.testing.assert_array_equal(cut(permuted, count=count), canonical(cut(merges, count=count)[order]))
    if n == 1 or np.abs(heights(merges) - threshold).min() > 1e-6:
        agreement = adjusted_rand_index(cut(permuted, threshold=threshold), cut(merges, threshold=threshold)[order])
        assert agreement == 1


@pytest.mark.parametrize("linkage", LINKAGES)
def test_heights_say_where_the_number_of_groups_changes(linkage: str) -> None:
    """An equilateral triangle's centre is nearer to a corner than the corners to each other: an inversion."""
    p = squareform(pdist(np.array([[0, 0], [1, 0], [0.5, 0.75], [4, 4], [4, 4.5]])))
    merges = tree(p, linkage)
    steps = heights(merges)
    assert (np.diff(steps) >= 0).all()
    for step in steps:
        labels = [cut(merges, threshold=t) for t in (np.nextafter(step, -1), step)]
        found = [len(set(groups)) for groups in labels]
        assert found[1] == len(p) - (steps <= step).sum() < found[0]
        np.testing.assert_array_equal(number_of_groups(merges, [np.nextafter(step, -1), step]), found)
    assert (np.diff(merges[:, 2]) < 0).any() == (linkage in ("centroid", "median"))


@pytest.mark.parametrize("linkage", LINKAGES)
def test_duplicates_fall_into_one_group_at_0(linkage: str) -> None:
    points = np.array([0.1, 0.7, 0.1, 0.3, 0.7, 0.7])
    merges = tree(np.abs(points[:, None] - points), linkage)
    np.testing.assert_array_equal(cut(merges, threshold=0), [0, 1, 0, 2, 1, 1])
    np.testing.assert_array_equal(cut(merges, threshold=-1e-9), range(6))
    np.testing.assert_array_equal(cut(merges, threshold=np.inf), np.zeros(6))


@pytest.mark.parametrize("linkage", LINKAGES)
def test_everything_identical(linkage: str) -> None:
    merges = tree(np.zeros((5, 5)), linkage)
    np.testing.assert_array_equal(cut(merges, threshold=0), np.zeros(5))
    assert len(set(cut(merges, count=3))) == 3


@pytest.mark.parametrize("linkage", ["average", "weighted", "complete", "single"])
def test_nothing_above_1_means_one_group_at_1(linkage: str) -> None:
    """FLAG: α = 1 gives one cluster; no rounding of means leads above 1."""
    for seed in range(50):
        p = np.minimum(proximities(seed, 17) / 30, 1)
        assert cut(tree(p, linkage), threshold=1).max() == 0


@pytest.mark.parametrize("linkage", LINKAGES)
@pytest.mark.parametrize("p", [np.zeros((0, 0)), [], [[0.0]], [[0, 2], [2, 0]]], ids=["none", "[]", "one", "two"])
def test_few_clients(linkage: str, p: np.ndarray) -> None:
    merges = tree(p, linkage)
    n = len(p)
    assert merges.shape == (max(n - 1, 0), 4 if n else 0)
    np.testing.assert_array_equal(heights(merges), [2.0] * (n - 1))
    np.testing.assert_array_equal(cut(merges, threshold=2), [0] * n)
    np.testing.assert_array_equal(cut(merges, threshold=1.9), range(n))
    np.testing.assert_array_equal(cut(merges, count=1), [0] * n)
    np.testing.assert_array_equal(cut(merges, count=9), range(n))
    np.testing.assert_array_equal(number_of_groups(merges, [-1, 1.9, 2, 3]), [n, n, min(n, 1), min(n, 1)])
    assert cut(merges, count=1).dtype == np.int64


def test_blocks_and_types_make_no_difference(monkeypatch: pytest.MonkeyPatch) -> None:
    p = proximities(0, 50)
    expected = squareform(p)
    np.testing.assert_array_equal(condensed(p), expected)
    monkeypatch.setattr(module, "BLOCK", 7)
    np.testing.assert_array_equal(condensed(p), expected)
    np.testing.assert_array_equal(condensed(p.T), expected)
    np.testing.assert_array_equal(condensed(p.astype(np.float32)), expected.astype(np.float32))
    np.testing.assert_array_equal(condensed(p.astype(np.uint8)), expected.astype(np.uint8))
    np.testing.assert_array_equal(condensed(p > 45), expected > 45)


def test_rounding_is_forgiven() -> None:
    noise = np.random.default_rng(0).uniform(-1e-7, 1e-7, (6, 6))
    p = np.where(np.eye(6) > 0, 0.0, 0.5)
    p[0, 1] = p[1, 0] = 0.0
    forgiven = condensed(p + noise)
    np.testing.assert_allclose(forgiven, condensed(p), atol=1e-7)
    np.testing.assert_array_equal(forgiven, condensed((p + noise).T))
    assert forgiven.min() >= 0


def with_entry(i: int, j: int, value: float) -> np.ndarray:
    p = proximities(1, 300)  # more than one block
    p[i, j] = value
    return p


@pytest.mark.parametrize(
    ("p", "says"),
    [
        (np.zeros((2, 3)), r"square, got shape \(2, 3\)"),
        (np.zeros(3), r"square, got shape \(3,\)"),
        (np.zeros((2, 2, 2)), "square"),
        (np.float64(3), "square"),
        (with_entry(3, 280, np.nan), r"proximity\[3, 280\] is nan"),
        (with_entry(280, 3, np.inf), r"proximity\[280, 3\] is inf"),
        (with_entry(280, 3, 100.0), r"proximity\[3, 280\] is .*, but proximity\[280, 3\] is 100.0: not symmetric"),
        (with_entry(299, 290, 0.0), r"proximity\[290, 299\] is .*, but proximity\[299, 290\] is 0.0: not symmetric"),
        (with_entry(290, 299, -2.0), r"proximity\[290, 299\] is -2.0: .* not negative"),
        (with_entry(7, 7, 1.0), r"proximity\[7, 7\] is 1.0, not 0: is this a similarity"),
        (np.eye(3), "is this a similarity"),
        ([[1.0]], "is this a similarity"),
    ],
)
def test_what_is_no_proximity_is_refused(p: np.ndarray, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        tree(p)


def test_wrong_arguments() -> None:
    merges = tree(proximities(0, 4))
    with pytest.raises(ValueError, match="no linkage 'weigthed': did you mean 'weighted'"):
        tree(np.zeros((1, 1)), "weigthed")
    for arguments in ({}, {"threshold": 1.0, "count": 2}):
        with pytest.raises(ValueError, match="either by `threshold` or by `count`"):
            cut(merges, **arguments)
    with pytest.raises(ValueError, match="nan"):
        cut(merges, threshold=np.nan)
    with pytest.raises(ValueError, match="count = 0"):
        cut(merges, count=0)


@given(st.lists(st.integers(-3, 6), max_size=20))
def test_canonical(labels: list[int]) -> None:
    names = list(dict.fromkeys(labels))
    found = canonical(labels)
    np.testing.assert_array_equal(found, [names.index(label) for label in labels])
    np.testing.assert_array_equal(canonical(found), found)
    assert found.dtype == np.int64


@pytest.mark.parametrize("spread", [1.0, 1e-2, 1e-4])
def test_one_minus_cosine_in_float32(spread: float) -> None:
    """Its diagonal is 1 − 1 up to rounding, however near to each other all vectors are."""
    rng = np.random.default_rng(0)
    x = (rng.normal(size=300_000) + spread * rng.normal(size=(12, 300_000))).astype(np.float32)
    unit = x / np.linalg.norm(x, axis=1, keepdims=True)
    distances = 1 - unit @ unit.T
    assert np.abs(distances.diagonal()).max() > 0
    exact = x.astype(np.float64) / np.linalg.norm(x.astype(np.float64), axis=1, keepdims=True)
    expected = squareform(1 - exact @ exact.T, checks=False)
    np.testing.assert_allclose(condensed(distances), expected, atol=1e-5)
    assert len(tree(distances)) == 11
    with pytest.raises(ValueError, match="is this a similarity"):
        tree(1 - distances)
