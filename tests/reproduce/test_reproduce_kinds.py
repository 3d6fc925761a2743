"""Every kind of table, as short as it can be; and the graphs of chapter 6 beside closed forms."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy.sparse import csr_array

from coterie.errors import CoterieError
from coterie.messages import ModelSpec
from coterie.reproduce import reproduce
from coterie.reproduce.catalogue import catalogue, read_own
from coterie.reproduce.computed import KINDS as COMPUTED
from coterie.reproduce.estimate import measured_speed, minutes
from coterie.reproduce.gcn import accuracy, normalised, tensor
from coterie.reproduce.graphs import block_model, cora, random_graph, tree
from coterie.reproduce.request import LENGTHS, ONE_SEED, SEEDLESS, ReproductionRequest
from coterie.reproduce.trained import KINDS as TRAINED
from coterie.training import one_thread

BOOK = Path(__file__).parent / "digits.toml"
ENTRIES = {
    "accuracy": "pair", "target": "targets", "sweep": "sweep", "curves": "curves", "newcomers": "newcomers",
    "pruning": "pruning", "statistics": "statistics", "layers": "layers", "proximity": "classes",
    "super-clusters": "sets", "client-distances": "distances", "clustering-error": "error", "agreement": "agreement",
    "update-measures": "updates", "costs": "costs", "sizes": "sizes", "flops": "flops", "pacing": "pacing",
    "gaussians": "gaussians", "coreset": "coreset", "graph-labels": "labels", "graph-distances": "hops",
}  # fmt: skip
CONTENT = "a 1 0 1 x\nb 0 0 0 y\nc 0 1 0 x\nd 1 1 1 y\ne 0 0 1 x\nf 1 0 0 y\n"
CITES = "a b\nb a\nb c\nc d\nd e\ne f\nf f\nf elsewhere\n"


@pytest.fixture(scope="module", autouse=True)
def data(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder with a small Cora, and a Facebook of a ring of six with two more far off."""
    place = tmp_path_factory.mktemp("data")
    (place / "cora").mkdir()
    (place / "cora" / "cora.content").write_text(CONTENT)
    (place / "cora" / "cora.cites").write_text(CITES)
    ring = [*(f"{i} {(i + 1) % 6}" for i in range(6)), "6 7"]
    (place / "facebook_combined.txt").write_text("\n".join(ring) + "\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COTERIE_DATA", str(place))
        patch.setenv("XDG_CACHE_HOME", str(place / "cache"))
        yield place


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("kinds")


def test_all_kinds_are_tried() -> None:
    assert set(ENTRIES) == {*TRAINED, *COMPUTED}
    assert {*LENGTHS, *SEEDLESS, *ONE_SEED} <= set(ENTRIES)
    assert not set(SEEDLESS) & set(ONE_SEED)


@pytest.mark.integration
@pytest.mark.parametrize("kind", ENTRIES)
def test_the_shortest_of_a_kind(kind: str, place: Path) -> None:
    made = reproduce(f"digits-{ENTRIES[kind]}", book=BOOK, out=place, rounds_scale=0.01, seeds=[0], jobs=1)
    assert made.kind == kind
    assert made.failed == ()
    assert all(line.ours is not None for line in made.lines if not line.quantity.startswith("rounds to"))
    assert ("SHORTENED" in made.report()) == (kind in LENGTHS or kind == "gaussians")
    assert ("--rounds-scale has no effect here" in " ".join(made.report().split())) == (kind not in LENGTHS)
    assert made.seeds == (() if kind in SEEDLESS else (0,))
    assert made.lines or made.charts
    for format in ("markdown", "csv", "latex"):
        assert made.report(format)


@pytest.mark.integration
def test_seeds_that_are_not_used_are_told(place: Path) -> None:
    item = reproduce("digits-coreset", book=BOOK, out=place, seeds=[3, 4])
    assert item.seeds == (3,)
    assert "Of --seeds only the first, 3, is used here." in item.report()
    none = reproduce("digits-sizes", book=BOOK, out=place, seeds=[3, 4])
    assert none.seeds == ()
    assert "--seeds has no effect here" in none.report()


# --------------------------------------------------------------------------------------------- labels of nodes


@pytest.mark.integration
def test_more_labels_are_better(place: Path) -> None:
    made = reproduce("digits-labels", book=BOOK, out=place, datasets=["sbm"])
    for line in made.lines:
        few = line.beside["5 labels"]
        assert line.ours is not None
        assert few is not None
        assert 10 < few.mean < line.ours.mean < 100
        assert line.ours.n == 2
    alike, weighted = made.lines[:2]
    assert alike.beside["cost"] == weighted.beside["cost"]  # the same nodes
    assert alike.ours != weighted.ours
    chart = made.to_json()["charts"][0]
    assert chart["series"][0]["x"] == [5, 20]
    assert chart["series"][0]["y"][1] == pytest.approx(alike.ours.mean if alike.ours else None)


@pytest.mark.integration
def test_two_cliques_need_a_label_each() -> None:
    clique = np.ones((10, 10)) - np.eye(10)
    graph = csr_array(np.block([[clique, np.zeros((10, 10))], [np.zeros((10, 10)), clique]]))
    labels = torch.tensor([0] * 10 + [1] * 10)
    inputs = tensor(normalised(graph)), tensor(csr_array(np.eye(20))), labels
    both, item = np.array([0, 10]), np.array([0])
    with one_thread():
        assert accuracy(*inputs, both, np.ones(2), seed=0) == accuracy(*inputs, both, np.ones(2), seed=0) == 1
        assert accuracy(*inputs, item, np.ones(1), seed=0) < 1


def test_normalised_adjacency() -> None:
    graph = np.array([[0, 1, 0], [1, 0, 2], [0, 2, 0]], float)
    looped = graph + np.eye(3)
    root = np.diag(looped.sum(axis=1) ** -0.5)
    np.testing.assert_allclose(normalised(csr_array(graph)).toarray(), root @ looped @ root)


def test_cora_as_it_is_published_and_as_arrays(data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    graph, features, labels = cora()
    expected = np.zeros((6, 6))
    for i in range(5):
        expected[i, i + 1] = expected[i + 1, i] = 1
    np.testing.assert_array_equal(graph.toarray(), expected)
    np.testing.assert_allclose(features.toarray()[[0, 1, 3]], np.array([[3, 0, 3], [0, 0, 0], [2, 2, 2]]) / 6)
    assert labels.tolist() == [0, 1, 0, 1, 0, 1]
    words = csr_array((features.toarray() > 0).astype(float))
    np.savez(
        tmp_path / "cora.npz", edges=np.array([[0, 1], [1, 2], [2, 3], [4, 3], [4, 5]]), labels=labels,
        feat_indices=words.indices, feat_indptr=words.indptr, feat_shape=np.array(words.shape),
    )  # fmt: skip
    monkeypatch.setenv("COTERIE_DATA", str(tmp_path))
    again = cora()
    np.testing.assert_array_equal(again[0].toarray(), expected)
    np.testing.assert_allclose(again[1].toarray(), features.toarray())


@pytest.mark.parametrize(("name", "content"), [("cora.npz", b"no"), ("cora/cora.content", b"a 1 x\nb many y\n")])
def test_a_damaged_cora(name: str, content: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_bytes(content)
    monkeypatch.setenv("COTERIE_DATA", str(tmp_path))
    with pytest.raises(CoterieError, match="can't be read as Cora"):
        cora()


@pytest.mark.integration
def test_graphs_that_are_not_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COTERIE_DATA", str(tmp_path / "data"))
    with pytest.raises(CoterieError, match=r"none of the data .*'facebook' is not here: get https://snap.*unpack it"):
        reproduce("digits-hops", book=BOOK, out=tmp_path / "out")
    made = reproduce("digits-labels", book=BOOK, out=tmp_path / "out", seeds=[0], rounds_scale=0.01)
    assert {line.column for line in made.lines} == {"SBM"}
    assert "Cora: 'cora' is not here: get https://" in made.skipped[0]


# ------------------------------------------------------------------------------------------- distances of nodes


@pytest.mark.integration
def test_all_nodes_give_the_mean_distance(place: Path) -> None:
    """On a ring of six, of which each node has weight 1/6; the two far off do not count."""
    found = {line.row: line for line in reproduce("digits-hops", book=BOOK, out=place).lines}
    for row in ("betweenness", "random", "shares"):
        ours = found[row].ours
        assert ours is not None
        assert ours.mean == pytest.approx(0, abs=1e-12)
        assert found[row].quantity == "6 nodes"
    few = found["betweenness"].beside["2 nodes"]
    assert few is not None
    assert few.std == pytest.approx(0)
    # two nodes that are d apart on the ring, of which each is 1.5 from all on average
    errors = [np.mean([abs((_ring(v) + _ring(v - d)) / 2 - 1.5) for v in range(6)]) for d in (1, 2, 3)]
    assert any(few.mean == pytest.approx(error) for error in errors)


def _ring(steps: int) -> int:
    return min(steps % 6, -steps % 6)


def test_trees_and_random_graphs() -> None:
    from scipy.sparse.csgraph import connected_components

    grown = tree(np.random.default_rng(0), 200)
    assert grown.shape == (200, 200)
    assert grown.nnz == 2 * 199
    assert connected_components(grown)[0] == 1
    assert grown.sum(axis=0).max() > 10  # it has hubs
    drawn = random_graph(np.random.default_rng(0), 200)
    assert connected_components(drawn)[0] == 1
    assert 180 < drawn.shape[0] <= 200
    graph, block = block_model([50, 50], 1.0, 0.0, np.random.default_rng(0))
    assert block.tolist() == [0] * 50 + [1] * 50
    assert graph.nnz == 2 * 50 * 49


# ------------------------------------------------------------------------------------------------------- times


MEASURED = {
    ("fashion_mnist", "fedavg"): 190, ("fashion_mnist", "lg"): 345, ("fashion_mnist", "ifca"): 289,
    ("cifar10", "fedavg"): 330, ("cifar10", "lg"): 832, ("cifar10", "ifca"): 625, ("cifar10", "pacfl"): 310,
}  # fmt: skip
"""Seconds of 50 rounds as in pacfl-table7, evaluated after each, one core each of two that were busy."""


@pytest.mark.parametrize(("dataset", "method"), MEASURED)
def test_times_are_about_those_measured(dataset: str, method: str) -> None:
    request = ReproductionRequest(0.25, (0,), (dataset,), (method,))
    expected = minutes(catalogue()["pacfl-table7"], request, cores=1, speed=speed_there)
    assert expected is not None
    assert MEASURED[dataset, method] / 1.5 < 60 * expected < MEASURED[dataset, method] * 1.5


def speed_there(spec: ModelSpec, batch_size: int) -> tuple[float, float]:
    """Seconds of a step of LeNet-5, and of an evaluated sample, on the machine where these runs were timed."""
    assert (spec.name, batch_size) == ("lenet5", 10)
    step = 0.72e-3 if spec.shape == (3, 32, 32) else 0.36e-3
    return step, 0.065 * step


def test_a_step_is_timed_here() -> None:
    small, large = (measured_speed(ModelSpec("mlp", (64,), 10, {"hidden": hidden}), 10) for hidden in (8, 4096))
    assert 0 < small[0] < large[0]
    assert 0 < small[1] < large[1]
    assert measured_speed(ModelSpec("mlp", (64,), 10, {"hidden": 8}), 10) == small  # once in a process


def test_evaluations_take_time() -> None:
    item = read_own(BOOK)["digits-pair"]
    entry = item.entry.model_copy(update={"settings": {"evaluation": {"every": 4}}})
    often, rare = minutes(item, cores=1), minutes(type(item)(item.name, entry, item.book), cores=1)
    assert rare is not None
    assert often is not None
    assert often > rare
