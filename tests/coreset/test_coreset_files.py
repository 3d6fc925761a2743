"""Graphs and costs from every kind of file, and files that are none."""

from pathlib import Path

import numpy as np
import pytest
from coreset_worlds import random_graph
from scipy import sparse

from coterie.coreset import neighbour_graph
from coterie.coreset.files import read_costs, read_graph
from coterie.errors import CoterieError

PATH = np.array([[0.0, 1, 0], [1, 0, 2], [0, 2, 0]])


def written(folder: Path, text: str, name: str = "edges.csv") -> Path:
    (folder / name).write_text(text, encoding="utf-8")
    return folder / name


@pytest.mark.parametrize("kind", ["csr", "csc", "coo", "bsr", "dia"])
def test_sparse_matrices(tmp_path: Path, kind: str) -> None:
    a = random_graph(30, 0)
    sparse.save_npz(tmp_path / "a.npz", sparse.csr_array(a).asformat(kind))
    graph = read_graph(tmp_path / "a.npz")
    np.testing.assert_array_equal(graph.adjacency.toarray(), a)
    assert graph.names is None
    assert graph.name(3) == "3"


@pytest.mark.parametrize("name", ["adjacency", "A", "anything"])
def test_dense_matrices(tmp_path: Path, name: str) -> None:
    np.savez(tmp_path / "a.npz", **{name: PATH, "labels": np.arange(3)})
    np.testing.assert_array_equal(read_graph(tmp_path / "a.npz").adjacency.toarray(), PATH)


def test_numbered_edges(tmp_path: Path) -> None:
    """In one direction or both; numbers that no edge has are nodes too."""
    np.savez(tmp_path / "a.npz", edges=np.array([[0, 1], [3, 1], [1, 3]], np.int32), labels=np.zeros(4))
    a = read_graph(tmp_path / "a.npz").adjacency.toarray()
    np.testing.assert_array_equal(a, [[0, 1, 0, 0], [1, 0, 0, 1], [0, 0, 0, 0], [0, 1, 0, 0]])
    np.savez(tmp_path / "b.npz", edges=np.array([[0, 1], [2, 1], [2, 2]]), weights=np.array([1.0, 2.0, 5.0]))
    np.testing.assert_array_equal(read_graph(tmp_path / "b.npz").adjacency.toarray(), PATH + np.diag([0, 0, 5]))


def test_gaps_that_are_not_large(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", edges=np.array([[0, 1_000_099]]))
    assert read_graph(tmp_path / "a.npz").adjacency.shape == (1_000_100, 1_000_100)


def test_points(tmp_path: Path) -> None:
    points = np.random.default_rng(0).normal(size=(40, 2)).astype(np.float32)
    np.savez(tmp_path / "a.npz", points=points)
    graph = read_graph(tmp_path / "a.npz")
    assert (graph.adjacency != neighbour_graph(points)).nnz == 0
    np.testing.assert_array_equal(graph.points, points)


@pytest.mark.parametrize(
    "text",
    [
        "0,1,1\n1,2,2\n",
        "0,1,1.0\n1,2,2.0",
        "source,target,weight\n0,1,1\n1,2,2\n",
        "a,b,c\r\n0,1,1\r\n2,1,2\r\n",
        "# a comment\n0 1 1\n1 2 2\n",
        "# a comment\nx y z\n0 1 1\n1 2 2\n",
        "0;1;1\n1;2;2\n2;1;2\n",
        "0\t1\t1\n\n1\t2\t2\n",
        "\ufefffrom, to, w\n 0, 1, 1\n 1, 2, 2\n",
    ],
)
def test_lists_of_edges_with_weights(tmp_path: Path, text: str) -> None:
    graph = read_graph(written(tmp_path, text))
    np.testing.assert_array_equal(graph.adjacency.toarray(), PATH)
    assert graph.names == ("0", "1", "2")


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("0,1\n1,2\n", ("0", "1", "2")),
        ("x,y\n10,2\n2,30\n", ("2", "10", "30")),
        ("# c\nx,y\n10,2\n2,30\n", ("2", "10", "30")),
        ("source,target\nann,bob\nbob,cy\n", ("ann", "bob", "cy")),
        ("ann,bob\nbob,cy\n", ("ann", "bob", "cy")),
        ('"ann, b.",bob\nbob,1\n', ("ann, b.", "bob", "1")),
    ],
)
def test_lists_of_edges_without_weights(tmp_path: Path, text: str, names: tuple[str, ...]) -> None:
    graph = read_graph(written(tmp_path, text))
    assert graph.names == names
    assert graph.adjacency.nnz == 4
    assert set(graph.adjacency.data.tolist()) == {1.0}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "no lines 'node,node'"),
        ("0,1,2,3\n", "line 1, '0,1,2,3', is not 'node,node' or 'node,node,weight'"),
        ("0\n1\n", "line 1, '0', is not"),
        ("0,1\n0,1,2\n", "line 2, '0,1,2', has 3 fields, those before it 2"),
        ("source,target\n", "no edges"),
        ("0,1,1\n1,0,2\n", r"edge \(0, 1\) has two weights, 1 and 2"),
        ("0,1,a\n1,0,b\n", "line 2, '1,0,b', is not 'node,node' or 'node,node,weight'"),
        ("0,1\n1,2,x\n", "line 2, '1,2,x', is not 'node,node' or 'node,node,weight'"),
        ("# c\n\n0 1 1\n1 2 x\n", "line 4, '1 2 x', is not"),
        ("a,b,1\nb,c,-2\n", r"weight of edge \(b, c\), -2, is negative"),
        ("a,b,1\nc,b,nan\n", r"weight of edge \(c, b\), nan, is not a finite number"),
        ("5,7,1\n7,9,inf\n", r"weight of edge \(7, 9\), inf, is not a finite number"),
    ],
)
def test_lists_that_are_none(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(CoterieError, match=said):
        read_graph(written(tmp_path, text))


def test_symmetrised_on_demand(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", adjacency=np.triu(PATH))
    np.testing.assert_array_equal(read_graph(tmp_path / "a.npz", symmetrise=True).adjacency.toarray(), PATH)
    edges, weights = np.array([[0, 1], [1, 2], [2, 1], [1, 0]]), np.array([1.0, 2, 1, 0.5])
    np.savez(tmp_path / "b.npz", edges=edges, weights=weights)
    text = "".join(f"{a},{b},{w}\n" for (a, b), w in zip(edges, weights, strict=True))
    for path in (tmp_path / "b.npz", written(tmp_path, text)):
        np.testing.assert_array_equal(read_graph(path, symmetrise=True).adjacency.toarray(), PATH)
        with pytest.raises(CoterieError, match=r"edge \(0, 1\) has two weights, 0.5 and 1; .*--symmetrise"):
            read_graph(path)


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    for name in ("none.npz", "none.csv"):
        with pytest.raises(CoterieError, match=f"no file '.*{name}'"):
            read_graph(tmp_path / name)
    (tmp_path / "folder.npz").mkdir()
    for folder in (tmp_path, tmp_path / "folder.npz"):
        with pytest.raises(CoterieError, match="is a directory: give a file"):
            read_graph(folder)
    (tmp_path / "bad.npz").write_bytes(b"PK\x03\x04 and then nothing")
    (tmp_path / "text.npz").write_text("0,1\n")
    (tmp_path / "empty.npz").write_bytes(b"")
    for name in ("bad.npz", "text.npz", "empty.npz"):
        with pytest.raises(CoterieError, match=r"is not a \.npz file") as refused:
            read_graph(tmp_path / name)
        assert "pickle" not in str(refused.value)
    np.save(tmp_path / "g.npy", PATH)
    with pytest.raises(CoterieError, match=r"save it as .npz by np.savez\('g.npz', adjacency="):
        read_graph(tmp_path / "g.npy")
    (tmp_path / "binary.csv").write_bytes(bytes(range(128, 256)))
    with pytest.raises(CoterieError, match="not a text file"):
        read_graph(tmp_path / "binary.csv")
    np.savez(tmp_path / "pickle.npz", adjacency=np.array([{}], dtype=object))
    with pytest.raises(CoterieError, match=r"arrays of numbers are needed$"):
        read_graph(tmp_path / "pickle.npz")
    np.savez(tmp_path / "half.npz", format=b"csr", shape=np.array([3, 3]), data=np.ones(2))
    with pytest.raises(CoterieError, match="sparse matrix"):
        read_graph(tmp_path / "half.npz")


@pytest.mark.parametrize(
    ("arrays", "said"),
    [
        ({"edges": np.zeros((3, 3), int)}, r"edges are whole numbers of shape \(edges, 2\)"),
        ({"edges": np.zeros((3, 2))}, "edges are whole numbers"),
        ({"edges": np.array([[0, -1]])}, "numbered from 0, got -1"),
        ({"edges": np.array([[0, 1], [1, 10**12]])}, r"without large gaps, got 1000000000000: .* as \.csv"),
        ({"edges": np.array([[0, 2**64 - 1]], np.uint64)}, "without large gaps, got 18446744073709551615"),
        ({"edges": np.array([[0, 1_000_100]])}, "without large gaps"),
        ({"edges": np.array([[0, 1]]), "weights": np.ones(2)}, "one per edge"),
        ({"labels": np.zeros(3)}, "'adjacency'"),
        ({"one": PATH, "two": PATH}, "has one, two"),
        ({"adjacency": np.array(["a"])}, "no numbers"),
    ],
)
def test_arrays_that_are_no_graph(tmp_path: Path, arrays: dict[str, np.ndarray], said: str) -> None:
    np.savez(tmp_path / "a.npz", **arrays)
    with pytest.raises(CoterieError, match=said):
        read_graph(tmp_path / "a.npz")


@pytest.mark.parametrize(
    "text", ["1\n2\n3\n", "cost\n1\n2\n3\n", "node,cost\n30,3\n10,1\n20,2\n", "10,1\n20,2\n30,3", "10 1\n20 2\n30 3\n"]
)
def test_costs(tmp_path: Path, text: str) -> None:
    graph = read_graph(written(tmp_path, "10,20\n20,30\n"))
    same, costs = read_costs(written(tmp_path, text, "cost.csv"), graph)
    np.testing.assert_array_equal(costs, [1, 2, 3])
    assert same is graph


def test_costs_as_an_array(tmp_path: Path) -> None:
    graph = read_graph(written(tmp_path, "0,1\n"))
    np.save(tmp_path / "cost.npy", np.array([1.5, 2.5], np.float32))
    np.testing.assert_array_equal(read_costs(tmp_path / "cost.npy", graph)[1], [1.5, 2.5])


def test_nodes_with_a_cost_but_no_edge(tmp_path: Path) -> None:
    graph = read_graph(written(tmp_path, "ann,bob\n"))
    graph, costs = read_costs(written(tmp_path, "cy,3\nann,1\nbob,2\n", "cost.csv"), graph)
    assert graph.names == ("ann", "bob", "cy")
    np.testing.assert_array_equal(costs, [1, 2, 3])
    np.testing.assert_array_equal(graph.adjacency.toarray(), [[0, 1, 0], [1, 0, 0], [0, 0, 0]])


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "no costs"),
        ("1\nx\n", "a cost is a number, got 'x'"),
        ("0,1\n0,2\n1,1\n", "two costs of node 0"),
        ("0,1\n", "no cost of node 1"),
        ("0,1,2\n", "not of more"),
        ("0,1\n1,1\n2\n", "not of more"),
    ],
)
def test_bad_costs(tmp_path: Path, text: str, said: str) -> None:
    graph = read_graph(written(tmp_path, "0,1\n"))
    with pytest.raises(CoterieError, match=said):
        read_costs(written(tmp_path, text, "cost.csv"), graph)


@pytest.mark.parametrize("text", ["1\n-2\n", "bob,-2\nann,1\n"])
def test_bad_costs_of_named_nodes(tmp_path: Path, text: str) -> None:
    graph = read_graph(written(tmp_path, "ann,bob\n"))
    with pytest.raises(CoterieError, match="cost of node bob, -2, is negative"):
        read_costs(written(tmp_path, text, "cost.csv"), graph)


def test_costs_of_unknown_nodes(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", adjacency=PATH)
    with pytest.raises(CoterieError, match="cost of node 7, which is not in the graph"):
        read_costs(written(tmp_path, "0,1\n1,1\n2,1\n7,1\n", "c.csv"), read_graph(tmp_path / "a.npz"))
