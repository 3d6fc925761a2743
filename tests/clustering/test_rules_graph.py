"""Rules that divide a graph: connected components against single linkage, eigenvectors against scikit-learn."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.cluster import SpectralClustering

import coterie
from coterie.clustering import Components, GroupingOptions, Spectral, adjusted_rand_index, cut, extend, tree
from coterie.clustering.rules.graph import laplacian
from coterie.testing import small_run

TURNED = {"algorithm": "pacfl", "dataset": "digits-rotated", "clients": 20}


def blocks(sizes: list[int], seed: int = 0) -> np.ndarray:
    """Groups of these sizes: distances around 2 in them, around 40 else."""
    labels = np.repeat(np.arange(len(sizes)), sizes)
    rng = np.random.default_rng(seed)
    matrix = np.where(labels[:, None] == labels, 2.0, 40.0) * rng.uniform(0.8, 1.2, (len(labels), len(labels)))
    matrix = (matrix + matrix.T) / 2
    np.fill_diagonal(matrix, 0)
    return matrix


@given(st.integers(0, 10**6), st.integers(1, 9), st.floats(0, 1))
def test_components_are_what_single_linkage_merges(seed: int, n: int, threshold: float) -> None:
    matrix = np.random.default_rng(seed).random((n, n))
    matrix = (matrix + matrix.T) / 2
    np.fill_diagonal(matrix, 0)
    labels = Components(threshold=threshold).group(matrix).labels
    assert labels.tolist() == cut(tree(matrix, "single"), threshold=threshold).tolist()


def test_components_by_walking_the_graph() -> None:
    matrix = np.random.default_rng(3).random((12, 12)) * 10
    matrix = (matrix + matrix.T) / 2
    np.fill_diagonal(matrix, 0)
    labels = Components(threshold=2.0).group(matrix).labels
    for i in range(12):
        reached, frontier = {i}, [i]
        while frontier:
            new = set(np.flatnonzero(matrix[frontier.pop()] <= 2.0).tolist()) - reached
            reached |= new
            frontier += new
        assert reached == set(np.flatnonzero(labels == labels[i]).tolist())
    assert 1 < labels.max() + 1 < 12


def test_a_newcomer_joins_by_one_edge() -> None:
    grouping = Components("complete", threshold=5.0).group(blocks([3, 3]))
    assert grouping.linkage == "single"
    cross = np.array([[90.0, 90, 4, 80, 80, 80], [50.0, 50, 50, 50, 50, 50]])
    assert extend(grouping, cross, np.array([[0, 60.0], [60, 0]])).labels.tolist()[6:] == [0, 2]


@pytest.mark.parametrize("sizes", [[3, 4, 5], [6, 6], [5, 5, 5, 5], [9]])
def test_spectral_finds_clear_groups_and_how_many(sizes: list[int]) -> None:
    grouping = Spectral().group(blocks(sizes))
    assert grouping.labels.tolist() == np.repeat(np.arange(len(sizes)), sizes).tolist()
    assert "largest gap" in grouping.reason
    assert (grouping.confidence, len(grouping.tree)) == (None, 0)


def test_spectral_groups_are_those_of_scikit_learn() -> None:
    """Of the same affinities, into the same number."""
    rng = np.random.default_rng(5)
    points = np.concatenate([rng.normal(centre, 1.0, (8, 3)) for centre in ((0, 0, 0), (3, 0, 0), (0, 4, 0))])
    matrix = np.linalg.norm(points[:, None] - points, axis=2)
    sigma = np.sort(matrix, axis=1)[:, 2]
    affinity = np.exp(-(matrix**2) / np.outer(sigma, sigma))
    theirs = SpectralClustering(3, affinity="precomputed", random_state=0).fit(affinity).labels_
    assert adjusted_rand_index(Spectral(groups=3).group(matrix).labels, theirs) == 1.0


def test_the_laplacian() -> None:
    """Its smallest eigenvalue is 0 once for each part of the graph, also for a client without edges."""
    matrix = np.array([[0.0, 0, 5, 7], [0, 0, 5, 7], [5, 5, 0, 9], [7, 7, 9, 0]])
    values = np.linalg.eigvalsh(laplacian(matrix, 1))  # an edge between the duplicates, and one between the others
    assert values == pytest.approx([0, 0, 2, 2], abs=1e-9)
    assert np.linalg.eigvalsh(laplacian(matrix[:3, :3], 1)) == pytest.approx([0, 0, 2], abs=1e-9)
    assert (np.linalg.eigvalsh(laplacian(blocks([4, 5]), 2))[:3] < 1e-6).tolist() == [True, True, False]


@pytest.mark.parametrize("n", [1, 2, 3])
@pytest.mark.parametrize("value", [0.0, 1.0])
def test_few_or_equal_clients_are_one_group(n: int, value: float) -> None:
    grouping = Spectral().group(value * (np.ones((n, n)) - np.eye(n)))
    assert grouping.n_groups == 1
    assert Spectral(groups=5).group(blocks([n])).n_groups <= n


def test_they_are_asked_for_by_name_with_the_keys_of_grouping() -> None:
    rule = GroupingOptions(rule="components", threshold=7.0).make("auto")
    assert (type(rule), rule.threshold) == (Components, 7.0)
    assert GroupingOptions(rule="spectral", groups=3).make("auto").groups == 3
    assert "threshold belongs to rule 'degrees'" in str(GroupingOptions(rule="spectral", threshold=7.0).error())


@pytest.mark.integration
def test_pacfl_groups_turned_digits_by_both() -> None:
    """PACFL's sixth remark: the clustering algorithm does not play a crucial role."""
    by_gap, threshold = coterie.cluster(**TURNED, rule="spectral"), 7.0
    assert (by_gap.grouping.rule, by_gap.ari) == ("spectral", 1.0)
    options = {"signature": "whole"}
    by_edges = coterie.cluster(**TURNED, rule="components", threshold=threshold, algorithm_options=options)
    assert (by_edges.grouping.rule, by_edges.ari) == ("components", 1.0)


@pytest.mark.integration
@pytest.mark.parametrize("assign", ["frozen", "recluster"])
def test_newcomers_of_a_graph(assign: str) -> None:
    result = small_run(
        "pacfl", clients=12, rule="spectral", newcomers=0.34, algorithm_options={"assign": assign, "measure": "theta1"}
    )
    assert all(group is not None for group in result.groups)
    assert result.grouping["rule"] == "spectral"
