"""K-means against all partitions and scikit-learn; duplicates, empty groups, few clients."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.cluster import KMeans as SklearnKMeans

from coterie.clustering import canonical, k_means
from coterie.clustering.hierarchical import Ints


def generator(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def inertia(x: np.ndarray, labels: Ints | tuple[int, ...]) -> float:
    groups = [x[np.asarray(labels) == name] for name in set(labels)]
    return float(sum(((g - g.mean(axis=0)) ** 2).sum() for g in groups))


@pytest.mark.integration
@given(seed=st.integers(0, 10**6), n=st.integers(1, 7), k=st.integers(1, 4))
def test_the_best_of_all_partitions(seed: int, n: int, k: int) -> None:
    x = generator(seed).normal(size=(n, 2))
    best = min(inertia(x, labels) for labels in itertools.product(range(k), repeat=n))
    found = k_means(x, k, generator(seed), restarts=30)
    assert found.inertia == pytest.approx(best, abs=1e-12)
    assert found.inertia == pytest.approx(inertia(x, found.labels), abs=1e-12)


@pytest.mark.parametrize("seed", range(10))
def test_as_tight_as_scikit_learn(seed: int) -> None:
    rng = generator(seed)
    x = rng.normal(size=(60, 3)) + 6 * np.repeat(rng.normal(size=(4, 3)), 15, axis=0)
    found = k_means(x, 4, generator(seed))
    other = SklearnKMeans(4, n_init=10, random_state=seed).fit(x)
    assert found.inertia <= other.inertia_ * 1.01
    if found.inertia == pytest.approx(other.inertia_, rel=1e-9):
        np.testing.assert_array_equal(found.labels, canonical(other.labels_))


@pytest.mark.integration
@given(
    points=st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=1, max_size=20),
    k=st.integers(1, 8),
    seed=st.integers(0, 1000),
    restarts=st.integers(1, 3),
)
def test_duplicates(points: list[tuple[int, int]], k: int, seed: int, restarts: int) -> None:
    """Equal points in one group; k groups where k points differ, else as many as differ; every centre a mean."""
    x = np.array(points) / 3
    found = k_means(x, k, generator(seed), restarts=restarts)
    groups = {
        point: {int(label) for label, p in zip(found.labels, points, strict=True) if p == point} for point in points
    }
    assert all(len(names) == 1 for names in groups.values())
    assert len(found.centres) == min(k, len(set(points)))
    np.testing.assert_array_equal(found.labels, canonical(found.labels))
    for name, centre in enumerate(found.centres):
        np.testing.assert_allclose(centre, x[found.labels == name].mean(axis=0), atol=1e-12)


def test_every_point_is_nearest_to_its_own_centre() -> None:
    x = generator(3).normal(size=(200, 4))
    found = k_means(x, 6, generator(3))
    distances = np.linalg.norm(x[:, None] - found.centres, axis=2)
    np.testing.assert_array_equal(distances.argmin(axis=1), found.labels)


def test_an_empty_group_is_seeded_anew_with_the_farthest_point() -> None:
    from coterie.clustering.k_means import _lloyd

    x = np.array([[0.0], [0.2], [1.0], [9.0]])
    found = _lloyd(x, np.array([[0.0], [-50.0]]), 300)
    np.testing.assert_array_equal(found.labels, [0, 0, 0, 1])
    found = _lloyd(x, np.array([[0.0], [-50.0], [-60.0]]), 300)
    np.testing.assert_array_equal(found.labels, [0, 0, 1, 2])


def test_few_clients() -> None:
    none = k_means(np.zeros((0, 3)), 2, generator())
    assert none.labels.shape == (0,)
    assert none.centres.shape == (0, 3)
    assert none.inertia == 0
    one = k_means([[1.0, 2.0]], 5, generator())
    np.testing.assert_array_equal(one.labels, [0])
    np.testing.assert_array_equal(one.centres, [[1.0, 2.0]])
    np.testing.assert_array_equal(k_means([[1.0], [2.0]], 2, generator()).labels, [0, 1])
    np.testing.assert_array_equal(k_means(np.ones((6, 2)) / 3, 3, generator()).labels, np.zeros(6))


def test_points_that_hardly_differ() -> None:
    """Squares that vanish and sums that round: fewer groups at worst, never an empty one."""
    for x in ([[0.0], [1e-200], [3e-200]], [[0.1], [np.nextafter(0.1, 1)], [0.1], [0.1]]):
        found = k_means(x, 2, generator(), restarts=2)
        assert set(found.labels) == set(range(len(found.centres)))
        assert np.isfinite(found.centres).all()


def test_the_same_generator_gives_the_same_groups() -> None:
    x = generator(1).normal(size=(80, 5))
    first, second, other = (k_means(x, 7, generator(seed), restarts=1) for seed in (4, 4, 5))
    np.testing.assert_array_equal(first.labels, second.labels)
    np.testing.assert_array_equal(first.centres, second.centres)
    assert not np.array_equal(first.labels, other.labels)


@pytest.mark.parametrize(
    ("x", "k", "says"),
    [
        ([1.0, 2.0], 1, r"got shape \(2,\)"),
        ([[1.0], [np.nan]], 1, "client 1 are not finite"),
        ([[1.0]], 0, "at least 1"),
    ],
)
def test_wrong_arguments(x: list[list[float]], k: int, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        k_means(x, k, generator())
