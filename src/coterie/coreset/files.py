"""Graphs and costs from files."""

import csv
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from coterie.bounded import check_unpacked, open_zip, read_npy, read_npz_array
from coterie.coreset.graph import Floats, Ints, Sparse, checked_costs, neighbour_graph, refuse_bad_numbers, symmetrised
from coterie.errors import CoterieError

HEADERS = {"source", "target", "from", "to", "src", "dst", "node", "node1", "node2", "u", "v", "i", "j", "id", "name"}
"""First fields of a line that names columns, where the nodes are named by words too."""
MATRICES = ("adjacency", "A")
_DAMAGE = (OSError, ValueError, EOFError, zipfile.BadZipFile, zlib.error, LookupError, RuntimeError, MemoryError)
GAPS, SPARE = 100, 10**6
"""The largest node number may be GAPS times the number of edges, plus SPARE."""


@dataclass(frozen=True)
class Graph:
    """A graph as a file has it: weights, and names of the nodes if they are not numbered from 0."""

    adjacency: Sparse
    names: tuple[str, ...] | None = None
    points: Floats | None = None
    """The points that it was made from, if it was."""

    def name(self, node: int) -> str:
        """Return what the file calls a node."""
        return self.names[node] if self.names else str(node)


def read_graph(path: Path, *, symmetrise: bool = False) -> Graph:
    """Read a graph from .npz (SciPy's sparse format, a dense matrix, `edges`, or `points`) or from a list of edges.

    A list of edges is undirected: an edge may stand there in one direction or in both, with one weight. By `symmetrise`
    the larger weight is taken where there are two.
    """
    with _readable(path):
        graph = _from_npz(path, symmetrise) if path.suffix in (".npz", ".npy") else _from_lines(path, symmetrise)
    return Graph(symmetrised(graph.adjacency), graph.names, graph.points) if symmetrise else graph


def read_costs(path: Path, graph: Graph) -> tuple[Graph, Floats]:
    """Read a cost per node: one number per line in the order of nodes, or lines `node,cost`; or .npy.

    Where the nodes of a list of edges have names, those that only have a cost are added to the graph, without an edge.
    """
    with _readable(path):
        graph, costs = _read_costs(path, graph)
    return graph, checked_costs(costs, graph.adjacency.shape[0], graph.name)


def _read_costs(path: Path, graph: Graph) -> tuple[Graph, Floats]:
    if path.suffix == ".npy":
        return graph, np.atleast_1d(_numbers(_loaded(path), path))
    fields = [fields for _, fields in _records(path)]
    if not fields:
        raise CoterieError(f"'{path}' has no costs")
    if {len(line) for line in fields} == {1}:
        body = fields[1:] if _number(fields[0][0]) is None else fields
        return graph, np.array([_cost(line[0], path) for line in body])
    if {len(line) for line in fields} != {2}:
        raise CoterieError(f"'{path}' has lines of one field, a cost, or of two, node and cost; not of more")
    body = fields[1:] if _number(fields[0][1]) is None else fields
    costs: dict[str, float] = {}
    for name, text in body:
        if name in costs:
            raise CoterieError(f"'{path}' has two costs of node {name}")
        costs[name] = _cost(text, path)
    every = tuple(dict.fromkeys((*(graph.names or ()), *costs)))
    if graph.names and len(every) > len(graph.names):
        from scipy.sparse import block_diag, csr_array

        new = csr_array((len(every) - len(graph.names),) * 2)
        graph = Graph(csr_array(block_diag((graph.adjacency, new))), every, graph.points)
    names = graph.names or tuple(str(node) for node in range(graph.adjacency.shape[0]))
    missing = next((name for name in names if name not in costs), None)
    if missing is not None:
        raise CoterieError(f"'{path}' has no cost of node {missing}")
    if unknown := costs.keys() - set(names):
        raise CoterieError(f"'{path}' has a cost of node {min(unknown)}, which is not in the graph")
    return graph, np.array([costs[name] for name in names])


def _cost(text: str, path: Path) -> float:
    value = _number(text)
    if value is None:
        raise CoterieError(f"'{path}': a cost is a number, got '{text}'")
    return value


def _from_npz(path: Path, larger: bool) -> Graph:
    from scipy.sparse import csr_array, load_npz

    arrays = _loaded(path)
    if isinstance(arrays, np.ndarray):
        name = path.with_suffix(".npz").name
        raise CoterieError(
            f"'{path}' is one array: save it as .npz by np.savez('{name}', adjacency=…), or as edges=… or points=…"
        )
    if "format" in arrays and "shape" in arrays:
        try:
            sizes = [int(size) for size in np.ravel(arrays["shape"])[:2]]
            if max(sizes, default=0) > GAPS * max(array.size for array in arrays.values()) + SPARE:
                raise ValueError(f"a matrix of shape {sizes} with so few entries")
            return Graph(csr_array(load_npz(path)))
        except (ValueError, TypeError, LookupError, OSError, AttributeError, ArithmeticError, MemoryError) as error:
            raise CoterieError(f"'{path}' can't be read as a sparse matrix: {error}") from error
    if "edges" in arrays:
        return Graph(_of_numbered_edges(arrays, path, larger))
    if "points" in arrays:
        points = _numbers(arrays["points"], path)
        return Graph(neighbour_graph(points), points=points)
    matrices = [name for name in MATRICES if name in arrays] or [name for name, x in arrays.items() if x.ndim == 2]
    if len(matrices) != 1:
        raise CoterieError(
            f"'{path}' has {', '.join(arrays) or 'nothing'}; a graph is SciPy's save_npz, a matrix 'adjacency', "
            "'edges' of shape (edges, 2) with perhaps 'weights', or 'points' of shape (points, features)"
        )
    return Graph(csr_array(np.atleast_2d(_numbers(arrays[matrices[0]], path))))


def _of_numbered_edges(arrays: dict[str, Any], path: Path, larger: bool) -> Sparse:
    """Return the graph of edges between numbered nodes; numbers that no edge has are nodes without edges."""
    edges = arrays["edges"]
    if edges.ndim != 2 or edges.shape[1] != 2 or edges.dtype.kind not in "ui":
        raise CoterieError(f"'{path}': edges are whole numbers of shape (edges, 2), got {edges.dtype} {edges.shape}")
    if len(edges) and edges.min() < 0:
        raise CoterieError(f"'{path}': nodes are numbered from 0, got {edges.min()}")
    weights = _numbers(arrays["weights"], path) if "weights" in arrays else np.ones(len(edges))
    if weights.shape != (len(edges),):
        raise CoterieError(f"'{path}': weights have shape ({len(edges)},), one per edge, got {weights.shape}")
    n = int(edges.max()) + 1 if len(edges) else 0
    if n > GAPS * len(edges) + SPARE:
        raise CoterieError(
            f"'{path}': nodes are numbered from 0 without large gaps, got {n - 1}: write a list of edges as .csv, "
            "whose nodes may have any name"
        )
    return undirected(edges.astype(np.int64), weights, n, str, larger=larger)


def undirected(edges: Ints, weights: Floats, n: int, name: Callable[[int], str], *, larger: bool = False) -> Sparse:
    """Return the symmetric matrix of undirected edges.

    An edge that is there twice must have one weight, or by `larger` gets the larger one.
    """
    from scipy.sparse import coo_array, csr_array

    refuse_bad_numbers(weights, lambda i: f"the weight of edge ({', '.join(map(name, edges[i].tolist()))})", "weights")
    low, high = edges.min(axis=1, initial=n), edges.max(axis=1, initial=-1)
    order = np.lexsort((weights, high, low))
    low, high, weights = low[order], high[order], weights[order]
    again = (np.diff(low) == 0) & (np.diff(high) == 0)
    clash = again & (weights[1:] != weights[:-1])
    if clash.any() and not larger:
        i = int(np.argmax(clash))
        raise CoterieError(
            f"edge ({name(int(low[i]))}, {name(int(high[i]))}) has two weights, {weights[i]:.12g} and "
            f"{weights[i + 1]:.12g}; give it one, or take the larger by --symmetrise"
        )
    keep = np.concatenate([~again, [True]]) if len(low) else np.zeros(0, np.bool_)
    low, high, weights = low[keep], high[keep], weights[keep]
    both = low != high
    rows, columns = np.concatenate([low, high[both]]), np.concatenate([high, low[both]])
    return csr_array(coo_array((np.concatenate([weights, weights[both]]), (rows, columns)), shape=(n, n)))


def _from_lines(path: Path, larger: bool) -> Graph:
    """Read lines `node,node` or `node,node,weight`; nodes are whole numbers or words."""
    numbered = _numbered_lines(path)
    if numbered is None:
        records = list(_records(path))
        _refuse_odd_lines(records, path)
        fields = [fields for _, fields in records]
        header = (
            fields[0][0].lower() in HEADERS
            or (len(fields[0]) == 3 and _number(fields[0][2]) is None)
            or (not _numbered(fields[0]) and len(fields) > 1 and all(_numbered(line) for line in fields[1:]))
        )
        fields = fields[1:] if header else fields
        weights = np.array([float(line[2]) if len(line) == 3 else 1.0 for line in fields])
        ends = [tuple(line[:2]) for line in fields]
        names = list(dict.fromkeys(name for pair in ends for name in pair))
        with suppress(ValueError):  # words stay in the order in which they come
            names = sorted(names, key=int)
        number = {name: i for i, name in enumerate(names)}
        edges = np.array([[number[a], number[b]] for a, b in ends], np.int64).reshape(-1, 2)
    else:
        numbers, weights = numbered
        values, edges = np.unique(numbers, return_inverse=True)
        edges, names = edges.reshape(-1, 2), [str(value) for value in values]
    if not names:
        raise CoterieError(f"'{path}' has no edges")
    return Graph(undirected(edges, weights, len(names), lambda node: names[node], larger=larger), tuple(names))


def _numbered(fields: list[str]) -> bool:
    return all(name.lstrip("-").isdecimal() for name in fields[:2])


def _refuse_odd_lines(records: list[tuple[int, list[str]]], path: Path) -> None:
    """Name the first line that is not an edge, or that differs from the first in having a weight."""
    if not records:
        raise CoterieError(f"'{path}' has no lines 'node,node' or 'node,node,weight'")
    first, width = records[0][0], len(records[0][1])
    mark = _delimiter(path) or " "
    for number, fields in records:
        bad_weight = len(fields) == 3 and number != first and _number(fields[2]) is None  # the first may name columns
        if len(fields) not in (2, 3) or bad_weight:
            raise CoterieError(
                f"'{path}': line {number}, '{mark.join(fields)}', is not 'node,node' or 'node,node,weight'"
            )
    for number, fields in records:
        if len(fields) != width:
            raise CoterieError(
                f"'{path}': line {number}, '{mark.join(fields)}', has {len(fields)} fields, those before it {width}: "
                "every edge has a weight, or none has"
            )


def _numbered_lines(path: Path) -> tuple[Ints, Floats] | None:
    """Read a list of edges between whole numbers, quickly; None if it is not one."""
    first = [fields for _, fields in islice(_records(path), 2)]
    columns = len(first[-1]) if first else 0
    header = int(bool(first) and not _numbered(first[0]))
    if columns not in (2, 3) or len(first[0]) != columns or (header and len(first) == 1):
        return None
    kinds = [("a", np.int64), ("b", np.int64), ("w", np.float64)][:columns]
    try:
        read = np.loadtxt(path, kinds, delimiter=_delimiter(path), skiprows=header, ndmin=1, encoding="utf-8-sig")
    except ValueError:
        return None
    return np.stack([read["a"], read["b"]], axis=1), read["w"] if columns == 3 else np.ones(len(read))


def _delimiter(path: Path) -> str | None:
    """Return what separates the fields of the first line; None stands for blanks."""
    with path.open(encoding="utf-8-sig", errors="replace") as lines:
        line = next((line for line in lines if line.strip() and not line.startswith("#")), "")
    return next((mark for mark in (",", ";", "\t") if mark in line), None)


def _records(path: Path) -> Iterator[tuple[int, list[str]]]:
    """Yield the number of each line in the file, from 1, and its fields; not of empty lines and comments (#)."""
    mark = _delimiter(path)
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            for number, line in enumerate(file, 1):
                if line.strip() and not line.startswith("#"):
                    fields = next(csv.reader([line], delimiter=mark)) if mark else line.split()
                    yield number, [field.strip() for field in fields]
    except (UnicodeDecodeError, csv.Error) as error:
        raise CoterieError(f"'{path}' is not a text file with a line per node or edge: {error}") from error


@contextmanager
def _readable(path: Path) -> Iterator[None]:
    """Say what is wrong where a file can't be opened."""
    try:
        yield
    except FileNotFoundError as error:
        raise CoterieError(f"there is no file '{path}'") from error
    except OSError as error:
        if path.is_dir():
            raise CoterieError(f"'{path}' is a directory: give a file in it") from error
        raise CoterieError(f"'{path}' can't be read: {error.strerror or error}") from error


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _loaded(path: Path) -> Any:
    """Return the arrays of a .npz file by name, or the one of a .npy file; no pickles."""
    with path.open("rb") as file:
        try:
            if not zipfile.is_zipfile(file):
                file.seek(0)
                return read_npy(file, path.stat().st_size)
            archive = open_zip(file)
        except _DAMAGE as error:
            raise CoterieError(f"'{path}' is not a {path.suffix} file as NumPy writes it ({_first(error)})") from error
        try:
            names = [name.removesuffix(".npy") for name in archive.namelist() if name.endswith(".npy")]
            check_unpacked(sum(item.file_size for item in archive.infolist()), path.stat().st_size)
            return {name: read_npz_array(archive, name) for name in names}
        except _DAMAGE as error:
            raise CoterieError(
                f"'{path}' has an array that can't be read ({_first(error)}): arrays of numbers are needed"
            ) from error


def _first(error: BaseException) -> str:
    return str(error).partition("\n")[0] or type(error).__name__


def _numbers(array: Any, path: Path) -> Floats:
    if not isinstance(array, np.ndarray) or array.dtype.kind not in "buif":
        raise CoterieError(f"'{path}' has no numbers where they are needed")
    return array.astype(np.float64)
