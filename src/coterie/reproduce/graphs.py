"""The graphs of chapter 6: block models, trees, random graphs, and two that must be downloaded."""

import zipfile
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from coterie.bounded import open_zip, read_npz_array
from coterie.data.folder import places
from coterie.errors import CoterieError

NODES = 1000
"""Of the tree and the random graph."""
STORED = {
    "cora": ("https://linqs-data.soe.ucsc.edu/public/lbc/cora.tgz", "cora.npz", "cora/cora.content"),
    "facebook": (
        "https://snap.stanford.edu/data/facebook_combined.txt.gz",
        *("facebook_combined.npz", "facebook_combined.txt"),
    ),
}
"""Graphs that are no data sets of clients, looked for beside those: address, and files of which any will do."""


def stored(name: str) -> Path | None:
    """Return the file of a graph, if it is here."""
    paths = (place / file for place in places() for file in STORED[name][1:])
    return next((path for path in paths if path.is_file()), None)


def how_to_store(name: str) -> str:
    """Say how to get a graph."""
    return f"get {STORED[name][0]} and unpack it into the folder '{places()[0]}'"


def the_file(name: str) -> Path:
    """Return the file of a graph, which must be here."""
    file = stored(name)
    if file is None:
        raise CoterieError(f"'{name}' is not here: {how_to_store(name)}")
    return file


def block_model(
    sizes: Sequence[int], within: float, between: float, rng: np.random.Generator
) -> tuple[Any, npt.NDArray[np.int64]]:
    """Return a stochastic block model, and the block of each node."""
    from scipy.sparse import csr_array

    block = np.repeat(np.arange(len(sizes)), sizes)
    chance = np.where(block[:, None] == block, within, between)
    upper = np.triu(rng.random(chance.shape) < chance, 1)
    return csr_array((upper | upper.T).astype(np.float64)), block


def tree(rng: np.random.Generator, nodes: int = NODES) -> Any:
    """Return a tree that grows by preferential attachment: a new node joins an old one in proportion to its degree."""
    from coterie.coreset.files import undirected

    ends = [0, 1]  # every end of every edge: a draw from it is proportional to degree
    for node in range(2, nodes):
        ends += [int(rng.choice(ends)), node]
    return undirected(np.array(ends).reshape(-1, 2), np.ones(nodes - 1), nodes, str)


def random_graph(rng: np.random.Generator, nodes: int = NODES) -> Any:
    """Return the largest component of a graph with three times as many edges as nodes, drawn uniformly."""
    from coterie.coreset.files import undirected

    edges = rng.integers(0, nodes, (3 * nodes, 2))
    edges = edges[edges[:, 0] != edges[:, 1]]
    return largest(undirected(edges, np.ones(len(edges)), nodes, str))


def largest(graph: Any) -> Any:
    """Return the largest component."""
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import connected_components

    _, which = connected_components(graph)
    inside = np.flatnonzero(which == np.bincount(which).argmax())
    return csr_array(graph[inside][:, inside])


def facebook() -> Any:
    """Return the largest component of the graph of Facebook's ego networks."""
    from coterie.coreset.files import read_graph

    return largest(read_graph(the_file("facebook")).adjacency)


def cora() -> tuple[Any, Any, npt.NDArray[np.int64]]:
    """Return the citation graph, the words of each document in equal shares, and the subjects."""
    from scipy.sparse import csr_array, diags_array

    file = the_file("cora")
    edges, features, labels = _cora_npz(file) if file.suffix == ".npz" else _cora_text(file)
    n = len(labels)
    graph = csr_array((np.ones(len(edges)), tuple(edges.T)), shape=(n, n))
    shares = diags_array(1 / np.maximum(features.sum(axis=1), 1))
    return csr_array(graph.maximum(graph.T)), csr_array(shares @ features), labels


def _cora_npz(file: Path) -> tuple[npt.NDArray[np.int64], Any, npt.NDArray[np.int64]]:
    """Read edges, labels, and features as the parts of a sparse matrix of ones."""
    from scipy.sparse import csr_array

    try:
        with file.open("rb") as opened, open_zip(opened) as archive:
            names = ("feat_shape", "feat_indices", "feat_indptr", "edges", "labels")
            sizes, indices, starts, edges, labels = (read_npz_array(archive, name) for name in names)
        shape, edges, labels = tuple(int(size) for size in sizes), edges.astype(np.int64), labels.astype(np.int64)
        return edges, csr_array((np.ones(len(indices)), indices, starts), shape=shape), labels
    except (OSError, KeyError, ValueError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        raise CoterieError(
            f"'{file}' can't be read as Cora ({error}): it should hold edges, labels, feat_indices, feat_indptr and "
            "feat_shape"
        ) from None


def _cora_text(file: Path) -> tuple[npt.NDArray[np.int64], Any, npt.NDArray[np.int64]]:
    """Read cora.content (paper, words as 0 and 1, subject) and cora.cites (two papers) beside it."""
    from scipy.sparse import csr_array

    try:
        rows = [line.split() for line in file.read_text(encoding="utf-8").splitlines() if line.strip()]
        place = {row[0]: number for number, row in enumerate(rows)}
        subjects = sorted({row[-1] for row in rows})
        labels = np.array([subjects.index(row[-1]) for row in rows], np.int64)
        features = csr_array(np.array([row[1:-1] for row in rows], np.float64))
        cites = (line.split() for line in file.with_suffix(".cites").read_text(encoding="utf-8").splitlines())
        pairs = [(place[a], place[b]) for a, b in cites if a in place and b in place and a != b]
        return np.unique(np.array(pairs, np.int64), axis=0), features, labels
    except (OSError, ValueError, IndexError) as error:
        raise CoterieError(f"'{file}' and cora.cites beside it can't be read as Cora: {error}") from None
