"""Average linkage over known pairs against SciPy, and against brute force where pairs are missing."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import silhouette_score

from coterie.clustering import cut, forest, heights, mean_between, tree
from coterie.clustering.forest import parts_of, silhouettes


def random_distances(n: int, missing: float, seed: int, low: float = 0.0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    matrix = rng.uniform(low, 1, (n, n))
    matrix[rng.random((n, n)) < missing] = np.nan
    matrix = np.triu(matrix, 1)
    return matrix + matrix.T


def brute_force(distances: np.ndarray, weights: np.ndarray) -> list[tuple[set[int], float]]:
    """Merge the two groups whose known pairs have the smallest weighted mean; return what was merged, and where."""
    groups, merged = [{i} for i in range(len(distances))], []
    while True:
        best: tuple[float, int, int] | None = None
        for a in range(len(groups)):
            for b in range(a):
                pairs = [(i, j) for i in groups[a] for j in groups[b] if np.isfinite(distances[i, j])]
                if pairs:
                    total = sum(weights[p] for p in pairs)
                    mean = sum(weights[p] * distances[p] for p in pairs) / total
                    if best is None or mean < best[0]:
                        best = mean, a, b
        if best is None:
            return merged
        mean, a, b = best
        union = groups[a] | groups[b]
        groups = [group for k, group in enumerate(groups) if k not in (a, b)] + [union]
        merged.append((union, mean))


def contents(merges: np.ndarray) -> list[set[int]]:
    clients = [{i} for i in range(len(merges) + 1)]
    for a, b in merges[:, :2].astype(int):
        clients.append(clients[a] | clients[b])
    return clients[len(merges) + 1 :]


@given(st.integers(1, 20), st.integers(0, 99))
@settings(max_examples=30)
def test_with_all_pairs_known_it_is_scipys_average_linkage(n: int, seed: int) -> None:
    distances = random_distances(n, 0.0, seed)
    expected, found = tree(distances, "average"), forest(distances)
    assert found.shape == expected.shape
    np.testing.assert_allclose(found, expected, rtol=1e-9)
    for count in range(1, n + 1):
        np.testing.assert_array_equal(cut(found, count=count), cut(expected, count=count))


@given(st.integers(2, 12), st.floats(0, 1), st.integers(0, 99), st.sampled_from([0.0, -0.5]))
def test_with_pairs_missing_it_is_brute_force(n: int, missing: float, seed: int, low: float) -> None:
    distances = random_distances(n, missing, seed, low)
    weights = np.random.default_rng(seed + 1).uniform(0.1, 3, (n, n))
    weights = weights + weights.T
    expected, found = brute_force(distances, weights), forest(distances, weights)
    connected = np.isfinite(found[:, 2])
    assert contents(found)[: len(expected)] == [union for union, _ in expected]
    np.testing.assert_allclose(found[connected, 2], np.maximum([height for _, height in expected], 0), atol=1e-9)
    assert connected.sum() == len(expected)
    assert contents(found)[-1] == set(range(n))
    assert sorted(found[:, :2].ravel()) == [*range(2 * n - 2)]
    np.testing.assert_allclose(found[:, 3], [len(clients) for clients in contents(found)])


def test_what_nothing_connects_is_merged_by_no_threshold() -> None:
    distances = np.full((4, 4), np.nan)
    distances[0, 1] = distances[1, 0] = 0.2
    distances[2, 3] = distances[3, 2] = 0.4
    merges = forest(distances)
    assert cut(merges, threshold=1e300).tolist() == [0, 0, 1, 1]
    assert cut(merges, count=1).tolist() == [0, 0, 0, 0]
    np.testing.assert_array_equal(heights(merges), [0.2, 0.4, np.inf])
    assert forest(np.zeros((1, 1))).shape == (0, 4)
    assert forest(np.zeros((0, 0))).shape == (0, 0)


@given(st.integers(2, 12), st.floats(0, 0.8), st.integers(0, 99))
def test_means_between_merges_are_brute_force(n: int, missing: float, seed: int) -> None:
    distances = random_distances(n, missing, seed)
    merges, values = forest(distances), random_distances(n, 0.0, seed + 1)
    weights = np.isfinite(distances).astype(float)
    clients = [{i} for i in range(n)] + contents(merges)
    found = mean_between(merges, values, weights)
    for k, (a, b) in enumerate(merges[:, :2].astype(int)):
        pairs = [(i, j) for i in clients[a] for j in clients[b] if weights[i, j]]
        assert found[k] == pytest.approx(np.mean([values[p] for p in pairs]) if pairs else np.nan, nan_ok=True)


@given(st.integers(3, 16), st.integers(0, 99))
def test_with_all_pairs_known_silhouettes_are_sklearns(n: int, seed: int) -> None:
    distances = random_distances(n, 0.0, seed)
    merges = forest(distances)
    found = dict(silhouettes(merges, distances, range(1, n - 1)))
    assert list(found) == [*range(1, n - 1)]
    for made, score in found.items():
        labels = cut(merges, count=n - made)
        assert score == pytest.approx(silhouette_score(distances, labels, metric="precomputed"), abs=1e-9)


def test_silhouettes_are_of_parts_that_are_divided() -> None:
    distances = np.full((6, 6), np.nan)
    distances[:4, :4] = [[0, 1, 4, 4], [1, 0, 4, 4], [4, 4, 0, 1], [4, 4, 1, 0]]
    distances[4:, 4:] = [[0, 0.5], [0.5, 0]]
    merges = forest(distances)
    assert parts_of(merges).tolist() == [0, 0, 0, 0, 1, 1]
    assert dict(silhouettes(merges, distances, [3]))[3] == pytest.approx(0.75)  # of the first four
    assert dict(silhouettes(merges, distances, [0, 3], least=0.7)).keys() == {3}  # with all alone it can't be


@pytest.mark.integration
def test_two_thousand_clients_are_no_burden() -> None:
    """It ends, and all merges are there; how long it takes is not measured here."""
    distances = random_distances(2000, 0.5, 0)
    assert np.isfinite(forest(distances)[:, 2]).all()
