"""Data sets that a program has in memory, known by a name made of their content.

They are held only while somebody uses them; the name is what configurations, run folders and results show.
"""

import hashlib
import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from weakref import WeakValueDictionary

import numpy as np
import numpy.typing as npt

from coterie.data.dividing import divide
from coterie.data.federated import Array, Dataset, FederatedData
from coterie.data.readers.arrays import dataset_from_arrays, regular
from coterie.data.registries import dataset, divided_dataset
from coterie.data.tables.frames import tables_of
from coterie.data.tables.rows import ReadingOptions, dataset_from_table, usual_label
from coterie.data.tables.table import DataTable
from coterie.data.torch_datasets import torch_arrays
from coterie.errors import CoterieError, suggestion

Arrays = tuple[npt.ArrayLike, ...] | Mapping[str, npt.ArrayLike] | Sequence[tuple[npt.ArrayLike, npt.ArrayLike]]
"""What is taken: (x, y), (x_train, y_train, x_test, y_test), a mapping of such names, or a list of clients' (x, y)."""

WANTED = (
    "give (x, y), (x_train, y_train, x_test, y_test), a mapping with these names, a list of (x, y), one for each "
    "client, a data frame of pandas, a data set of Hugging Face or of PyTorch, or a pair of these to train and test on"
)
KEYS = ("x_train", "y_train", "x_test", "y_test")
MORE_KEYS = ("user_train", "attributes", "attribute_names")
"""What else an .npz file may hold."""
NAMED = re.compile(r"(arrays|table)-[0-9a-f]{12}")
SAMPLES = 50
"""Per client, where nobody says how many clients there are."""
MOST_CLIENTS = 100


@dataclass(frozen=True)
class HeldData:
    """A data set in memory; its name is forgotten when nobody holds it any more."""

    name: str
    content: Dataset | tuple[DataTable, DataTable | None]
    """Samples; or a table, with rows to test on where they were given, that becomes samples by options."""
    divided: bool = False
    """True: each user is a client. False: a partition divides it."""

    @property
    def clients(self) -> int:
        """How many there are, unless the user says otherwise where he may."""
        if isinstance(self.content, tuple):
            return min(max(self.content[0].rows // SAMPLES, 1), MOST_CLIENTS)
        if self.divided and self.content.users is not None:
            return int(self.content.users[-1]) + 1
        return min(max(len(self.content.train) // SAMPLES, 1), MOST_CLIENTS)

    def read(self, **options: Any) -> Dataset:
        """Return the samples; only those of a table depend on options."""
        if isinstance(self.content, Dataset):
            return self.content
        train, test = self.content
        return dataset_from_table(self.name, train, ReadingOptions(**options), "dataset", test)


_HELD: WeakValueDictionary[str, HeldData] = WeakValueDictionary()


def hold(given: Any) -> HeldData:
    """Make arrays or tables a data set that can be named, as long as what is returned is kept."""
    if (tables := tables_of(given)) is not None:
        return _held(f"table-{_digest(_parts_of(tables), False)}", lambda name: HeldData(name, tables))
    arrays, divided = _arrays(given)
    return _held(
        f"arrays-{_digest(arrays, divided)}",
        lambda name: HeldData(name, dataset_from_arrays(name, arrays, "dataset"), divided),
    )


def _held(name: str, make: Callable[[str], HeldData]) -> HeldData:
    held = _HELD.get(name)
    if held is None:
        held = _HELD[name] = make(name)
        _register(name, held)
    return held


def is_table(name: str) -> bool:
    """Say whether a name was made of a table."""
    return NAMED.fullmatch(name) is not None and name.startswith("table-")


def arrays_to_dataset(given: Any, name: str) -> Dataset:
    """Return the pooled data set that a user's function has made: as it is, of arrays, or of a table with a label."""
    if isinstance(given, Dataset):
        return given
    if (tables := tables_of(given)) is not None:
        if usual_label(tables[0]) is None:
            raise CoterieError(
                f"{name} returned a table without one column that is called label: rename the one to predict, or give "
                "the table itself as dataset, with dataset_options={'label': ...}"
            )
        return dataset_from_table(name, tables[0], ReadingOptions(), f"{name}()", tables[1])
    arrays, divided = _arrays(given)
    if divided:
        raise CoterieError(f"{name} returned a list of clients' samples: give the list itself as dataset")
    return dataset_from_arrays(name, arrays, f"{name}()")


def error_in_name(name: str) -> str | None:
    """Say why a data set can't be read whose name was made of arrays; None for any other name."""
    if not NAMED.fullmatch(name):
        return None
    return (
        f"data set '{name}' was in the memory of the program that made the run, and is not stored: give the same "
        f"{'table' if is_table(name) else 'arrays'} again, coterie.resume(folder, dataset=...), or save "
        f"{'it as .csv' if is_table(name) else 'them as .npz'} to begin a run that can be resumed anywhere"
    )


def _register(name: str, data: HeldData) -> None:
    clients, divided, of_table = data.clients, data.divided, isinstance(data.content, tuple)
    del data  # the registry must not keep it

    def held() -> HeldData:
        data = _HELD.get(name)
        if data is None:
            raise CoterieError(str(error_in_name(name)))
        return data

    def pooled(**options: Any) -> Dataset:
        """Data of this session."""
        return held().read(**options)

    pooled.__signature__ = ReadingOptions.signature() if of_table else inspect.Signature()  # type: ignore[attr-defined]

    def of_clients(clients: int, seed: int, server_share: float | None) -> FederatedData:
        """Arrays of this session, by client."""
        data = held()
        if clients != data.clients:
            raise CoterieError(f"clients = {clients}, but samples of {data.clients} clients were given: leave it out")
        return divide(data.read(), "by-user", {"min_samples": 1}, clients, seed, server_share=server_share)

    if divided:
        divided_dataset(name, clients=clients)(_of_session(of_clients, name))
    else:
        dataset(name, clients=clients)(_of_session(pooled, name))


def register_function(function: Callable[..., Any], name: str) -> None:
    """Make a function that returns a data set, or arrays, known by a name in this session."""

    def source(**options: Any) -> Dataset:
        return arrays_to_dataset(function(**options), name)

    source.__signature__ = inspect.signature(function, eval_str=True)  # type: ignore[attr-defined]
    source.__doc__ = function.__doc__
    dataset(name)(_of_session(source, name))


def _of_session(source: Callable[..., Any], name: str) -> Callable[..., Any]:
    """Mark a function as one that other processes can't import."""
    source.__module__, source.__qualname__ = "__main__", name
    return source


def _arrays(given: Any) -> tuple[dict[str, Array], bool]:
    """Return arrays under the names of .npz files, and whether each user is a client."""
    if (arrays := torch_arrays(given)) is not None:
        return arrays, False
    if isinstance(given, Mapping):
        return _named(given), False
    if isinstance(given, tuple) and len(given) in (2, 4) and not any(_is_pair(part) for part in given):
        return {key: regular(part, f"dataset: {key}") for key, part in zip(KEYS, given, strict=False)}, False
    if isinstance(given, list) and given and all(_is_pair(part) for part in given):
        places = [f"dataset: what client {client} has" for client in range(len(given))]
        return _of_clients([(regular(x, of), regular(y, of)) for (x, y), of in zip(given, places, strict=True)]), True
    shown = f"{type(given).__name__} of {len(given)}" if isinstance(given, list | tuple) else type(given).__name__
    raise CoterieError(f"dataset can't be a {shown}: {WANTED}; or name a data set, or the path of a file or folder")


def _named(given: Mapping[str, npt.ArrayLike]) -> dict[str, Array]:
    """Return arrays that were given by name; x and y alone are training samples."""
    names = {key: f"{key}_train" if key in ("x", "y") else str(key) for key in given}
    arrays = {names[key]: regular(value, f"dataset: {key}") for key, value in given.items()}
    if unknown := [key for key in arrays if key not in (*KEYS, *MORE_KEYS)]:
        raise CoterieError(f"dataset has an array '{unknown[0]}': {suggestion(unknown[0], (*KEYS, *MORE_KEYS))}")
    needed = KEYS if {*KEYS[2:]} & arrays.keys() else KEYS[:2]
    if missing := [key for key in needed if key not in arrays]:
        raise CoterieError(f"dataset has no '{missing[0]}', only {', '.join(arrays) or 'nothing'}: {WANTED}")
    return arrays


def _parts_of(tables: tuple[DataTable, DataTable | None]) -> dict[str, Array]:
    """Return all that is in tables, for a digest."""
    arrays = {}
    for part, table in zip(("train", "test"), tables, strict=True):
        for position, (name, column) in enumerate(table.columns.items() if table is not None else ()):
            arrays[f"{part} {position} {name}"] = column.values
            arrays[f"{part} {position} texts"] = _digest_of(column.texts)
    return arrays


def _digest_of(texts: Sequence[str]) -> Array:
    """Return a digest of texts, one by one: an array of them would take for each the room of the longest."""
    content = hashlib.sha256()
    for text in texts:
        encoded = text.encode(errors="surrogatepass")
        content.update(len(encoded).to_bytes(8, "little"))
        content.update(encoded)
    return np.frombuffer(content.digest(), np.uint8)


def _is_pair(part: Any) -> bool:
    """Say whether something is a client's inputs and labels, rather than an array or a list of numbers."""
    if not isinstance(part, tuple | list) or len(part) != 2:
        return False
    try:
        return np.ndim(part[0]) > 1
    except ValueError:  # ragged, which is said of what it belongs to
        return False


def _of_clients(pairs: Sequence[tuple[Array, Array]]) -> dict[str, Array]:
    """Pool what clients have; the user of a sample is the number of its client."""
    for client, (x, y) in enumerate(pairs):
        if not len(y) or len(x) != len(y) or x.shape[1:] != pairs[0][0].shape[1:] or y.ndim != 1:
            raise CoterieError(
                f"dataset: client {client} has inputs of shape {x.shape} and labels of shape {y.shape}: each client "
                "needs as many labels as inputs, at least one, and inputs of the same shape as the others"
            )
    users = np.repeat(np.arange(len(pairs)), [len(y) for _, y in pairs])
    x, y = (np.concatenate([pair[part] for pair in pairs]) for part in (0, 1))
    return {"x_train": x, "y_train": y, "user_train": users}


def _digest(arrays: Mapping[str, Array], divided: bool) -> str:
    """Return a digest of names, types, shapes and values."""
    content = hashlib.sha256(b"by client" if divided else b"pooled")
    for name, array in sorted(arrays.items()):
        content.update(f"{name} {array.dtype.str} {array.shape}".encode())
        content.update(np.ascontiguousarray(array).data if array.dtype != object else repr(array.tolist()).encode())
    return content.hexdigest()[:12]
