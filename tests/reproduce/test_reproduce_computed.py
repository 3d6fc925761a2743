"""Kinds that need no federated runs, on digits: each beside what it should be by another way."""

from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from scipy.linalg import subspace_angles
from scipy.sparse.csgraph import shortest_path
from sklearn.cluster import KMeans

from coterie.coreset import BASELINES, walk_on
from coterie.data import DATASETS
from coterie.reproduce import reproduce
from coterie.reproduce.catalogue import catalogue, read_own
from coterie.reproduce.graph_tasks import gaussian_cloud
from coterie.reproduce.trained import seeded_config
from coterie.results.reproductions import Reproduction
from coterie.run.building import load_data
from coterie.streams import derived_seed, stream

BOOK = Path(__file__).parent / "digits.toml"


def made(name: str, place: Path) -> Reproduction:
    return reproduce(f"digits-{name}", book=BOOK, out=place, jobs=1)


@pytest.mark.integration
def test_angles_between_classes(tmp_path: Path) -> None:
    found = {(line.row, line.column): line.ours.mean for line in made("classes", tmp_path).lines if line.ours}
    train = DATASETS["digits"]().train
    zeros, ones = (np.linalg.svd(train.x[train.y == k].reshape(-1, 64).T.astype(float))[0][:, :3] for k in (0, 1))
    assert found["0", "0"] == 0
    assert found["0", "1"] == found["1", "0"]
    assert found["0", "1"] == pytest.approx(np.degrees(np.arccos(np.abs(zeros.T @ ones).max())), abs=1e-4)
    assert found["0", "1"] >= np.degrees(subspace_angles(zeros, ones).min()) - 1e-6


@pytest.mark.integration
def test_sets_of_classes(tmp_path: Path) -> None:
    found = made("sets", tmp_path)
    assert found.lines[0].difference == 0
    assert "of 2 sets as published" in found.remarks[0]
    kinds = [chart["kind"] for chart in found.to_json()["charts"]]
    assert kinds == ["heatmap", "scatter"]


@pytest.mark.integration
def test_distances_of_clients(tmp_path: Path) -> None:
    """Skewed clients are further apart, and less alike by CKA."""
    found = {(line.row, line.column): line.ours.mean for line in made("distances", tmp_path).lines if line.ours}
    assert found["angle", "IID"] < found["angle", "skewed"] < np.pi / 2
    assert found["emd", "IID"] < found["emd", "skewed"]
    assert found["cka", "IID"] > found["cka", "skewed"]
    measures = {cell.label: cell.options["measure"] for cell in catalogue()["dissertation-table5.3"].cells()}
    assert (measures["Eq. 5.1"], measures["Eq. 5.2"]) == ("theta1", "trace")
    assert found["paired", "skewed"] == pytest.approx(sum_of_paired_angles(), abs=1e-4)


def sum_of_paired_angles() -> float:
    """Eq. 5.2, tr(arccos(UᵀV)) in radians, mean over pairs of clients; vectors have no sign."""
    cell = next(c for c in read_own(BOOK)["digits-distances"].cells() if c.column == "skewed")
    data = load_data(seeded_config(cell.settings, 0))
    flat = [data.train.x[part].reshape(len(part), -1).astype(float) for part in data.train_parts]
    first = [np.linalg.svd(x.T, full_matrices=False)[0][:, :3] for x in flat]
    angles = [np.arccos(np.minimum(np.abs(np.diag(u.T @ v)), 1)).sum() for u, v in combinations(first, 2)]
    return float(np.mean(angles))


@pytest.mark.integration
def test_clustering_error(tmp_path: Path) -> None:
    found = made("error", tmp_path)
    assert found.lines[0].ours is not None
    (series,) = found.to_json()["charts"][0]["series"]
    assert series["x"][0] == 0
    assert series["x"][-1] == 1
    assert found.lines[0].ours.mean == series["x"][int(np.argmin(series["y"]))]
    assert all(0 <= error <= 9 for error in series["y"])


@pytest.mark.integration
def test_models_of_skewed_clients_agree_less(tmp_path: Path) -> None:
    found = {line.row: line.ours.mean for line in made("agreement", tmp_path).lines if line.ours}
    assert len(found) == 4
    assert found["α = 100, E = 2, server data reserved"] < found["α = 0.1, E = 2, server data reserved"]


@pytest.mark.integration
def test_measures_of_updates_are_correlated(tmp_path: Path) -> None:
    found = made("updates", tmp_path)
    assert found.lines[0].ours is not None
    assert 0.3 < found.lines[0].ours.mean <= 1
    assert len(found.to_json()["charts"][0]["points"]) == 15  # all pairs of six clients


@pytest.mark.integration
def test_layers(tmp_path: Path) -> None:
    pytest.importorskip("coterie.studies.layers")
    found = made("layers", tmp_path)
    assert found.lines[0].ours is not None
    assert 0 < found.lines[0].ours.mean <= 1
    assert len(found.to_json()["charts"][0]["series"][0]["y"]) == 2  # layers of the perceptron


@pytest.mark.integration
def test_baselines_of_figure_6_2_weigh_clusters_by_their_shares(tmp_path: Path) -> None:
    """K-means clusters the points themselves; Frank-Wolfe's nodes stand for those that are nearest to them."""
    found = made("means", tmp_path)
    cost = {line.row: line.ours.mean for line in found.lines if line.ours}
    assert cost["direct"] < cost["all"]
    assert cost["aware"] < cost["all"]
    drawn = {series["name"]: series for series in found.to_json()["charts"][0]["series"]}
    assert list(drawn)[3:] == ["frank-wolfe, shares", "k-means", "spectral", "random"]

    graph = gaussian_cloud(200, stream(0, "coreset"))
    assert graph.points is not None
    truth, walk = graph.function.mean(), walk_on(graph.adjacency, 5)
    for k, error in zip(drawn["k-means"]["x"], drawn["k-means"]["y"], strict=True):
        seed = derived_seed(0, "k-means") % 2**32
        clusters = KMeans(int(k), n_init=3, random_state=seed).fit(graph.points)
        nearest = [
            min(np.flatnonzero(clusters.labels_ == c), key=lambda i: np.linalg.norm(graph.points[i] - centre))
            for c, centre in enumerate(clusters.cluster_centers_)
        ]
        mean = np.bincount(clusters.labels_) / 200 @ graph.function[nearest]
        assert error == pytest.approx((mean - truth) ** 2, abs=1e-12)
    hops = shortest_path(graph.adjacency, unweighted=True)
    for k, error in zip(drawn["frank-wolfe, shares"]["x"], drawn["frank-wolfe, shares"]["y"], strict=True):
        nodes = BASELINES["frank-wolfe"](walk, int(k), graph.costs).indices
        far = hops[nodes]
        shares = np.bincount(far.argmin(axis=0)[np.isfinite(far.min(axis=0))], minlength=len(nodes))
        ties = (far == far.min(axis=0)).sum(axis=0) > 1  # go to one of them, whichever
        mean, slack = shares / shares.sum() @ graph.function[nodes], ties.mean()
        assert abs(np.sqrt(error) - abs(mean - truth)) <= slack + 1e-9


@pytest.mark.slow
def test_coresets(tmp_path: Path) -> None:
    share = [line.ours.mean for line in reproduce("dissertation-figure6.3", out=tmp_path).lines if line.ours]
    assert share[1] < share[0]  # fewer of the expensive component
    errors = [line.ours.mean for line in reproduce("dissertation-figure6.2-right", out=tmp_path).lines if line.ours]
    assert errors[2] < errors[0]  # a longer walk is better
