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
from coterie.errors import CoterieError, suggestion

Arrays = tuple[npt.ArrayLike, ...] | Mapping[str, npt.ArrayLike] | Sequence[tuple[npt.ArrayLike, npt.ArrayLike]]
"""What is taken: (x, y), (x_train, y_train, x_test, y_test), a mapping of such names, or a list of clients' (x, y)."""

WANTED = (
    "give (x, y), (x_train, y_train, x_test, y_test), a mapping with these names, or a list of (x, y), one for each "
    "client"
)
KEYS = ("x_train", "y_train", "x_test", "y_test")
MORE_KEYS = ("user_train", "attributes", "attribute_names")
"""What else an .npz file may hold."""
NAMED = re.compile(r"arrays-[0-9a-f]{12}")
SAMPLES = 50
"""Per client, where nobody says how many clients there are."""
MOST_CLIENTS = 100


@dataclass(frozen=True)
class HeldData:
    """A data set in memory; its name is forgotten when nobody holds it any more."""

    name: str
    pool: Dataset
    divided: bool
    """True: each user is a client. False: a partition divides it."""

    @property
    def clients(self) -> int:
        """How many there are, unless the user says otherwise where he may."""
        if self.divided and self.pool.users is not None:
            return int(self.pool.users[-1]) + 1
        return min(max(len(self.pool.train) // SAMPLES, 1), MOST_CLIENTS)


_HELD: WeakValueDictionary[str, HeldData] = WeakValueDictionary()


def hold(given: Any) -> HeldData:
    """Make arrays a data set that can be named, as long as what is returned is kept."""
    arrays, divided = _arrays(given)
    name = f"arrays-{_digest(arrays, divided)}"
    held = _HELD.get(name)
    if held is None:
        held = _HELD[name] = HeldData(name, dataset_from_arrays(name, arrays, "dataset"), divided)
        _register(name, held.clients, divided)
    return held


def arrays_to_dataset(given: Any, name: str) -> Dataset:
    """Return the pooled data set that a user's function has made: as it is, or of arrays."""
    if isinstance(given, Dataset):
        return given
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
        "arrays again, coterie.resume(folder, dataset=(x, y)), or save them as .npz to begin a run that can be resumed "
        "anywhere"
    )


def _register(name: str, clients: int, divided: bool) -> None:
    def held() -> HeldData:
        data = _HELD.get(name)
        if data is None:
            raise CoterieError(str(error_in_name(name)))
        return data

    def pooled() -> Dataset:
        """Arrays of this session."""
        return held().pool

    def of_clients(clients: int, seed: int, server_share: float | None) -> FederatedData:
        """Arrays of this session, by client."""
        data = held()
        if clients != data.clients:
            raise CoterieError(f"clients = {clients}, but samples of {data.clients} clients were given: leave it out")
        return divide(data.pool, "by-user", {"min_samples": 1}, clients, seed, server_share=server_share)

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
        content.update(np.ascontiguousarray(array).data if array.dtype != object else repr(array).encode())
    return content.hexdigest()[:12]
