"""What a result says of each single client: of more than 2,000 summarised in ``result.json``, and whole beside it.

A column is a list with an entry for each client, or a table by client. One of more than 2,000 entries goes into a file
of arrays, ``clients-<content>.safetensors``; a summary stands in its place, which names it. Whoever reads a run folder
gets the columns back in place of the summaries, and need not know.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from coterie.bounded import read_tensors
from coterie.errors import one_line
from coterie.files import UNSEALED, Flush, part_of, remove, seal, sealed, write_whole
from coterie.messages import is_error
from coterie.results.protocols import WORST
from coterie.streams import stream

FEW = 2000
"""Columns of more entries than this are summarised."""
SHOWN = 100
"""Clients of which a summary has the values."""
SIZES = 100
"""Groups of which a summary has the number of clients: the largest."""
QUANTILES = (0.0, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 1.0)
COLUMN, FILE = "column", "columns"
"""The keys by which a summary names its column, and a result the file."""
KEYS, LENGTHS = ".keys", ".lengths"
"""Behind the name of a column: whose values they are, where not of all; how many each has, where they are lists."""
MOST_VALUES = 10**7
"""Of a column that are read."""

Arrays = dict[str, npt.NDArray[Any]]
Place = tuple[str, Any, Any]
"""A column's name, what it is in, and under which key."""


def split(fields: Mapping[str, Any]) -> tuple[dict[str, Any], Arrays]:
    """Return a result with summaries in place of long columns, and those; the result itself stays as it is."""
    content, arrays, metric = _copied(fields), Arrays(), fields.get("metric")
    for name, owner, key in [*_places(content)]:
        if isinstance(column := owner[key], list | dict) and len(column) > FEW:
            held = _to_arrays(name, column)
            arrays |= held
            lower_is_better = name.startswith(("per_client.", "newcomers.per_client.")) and is_error(metric)
            owner[key] = {COLUMN: name, **_summary(name, column, held, lower_is_better)}
    return content, arrays


def write(arrays: Arrays, beside: Path, flush: Flush = "file") -> str | None:
    """Write columns into a file of their content's name; return that, None where there are none."""
    if not arrays:
        return None
    from safetensors.numpy import save

    content, digest = sealed(save({k: np.ascontiguousarray(a) for k, a in arrays.items()}, metadata=UNSEALED))
    file = part_of(beside, digest[:16])
    write_whole(file, content, flush)
    return file.name


def remove_all(beside: Path, but: str | None = None) -> None:
    """Remove the files of columns, but the one that is in use."""
    for file in beside.parent.glob(part_of(beside, "*").name):
        if file.name != but:
            remove(file)


def joined(content: Mapping[str, Any], beside: Path) -> dict[str, Any]:
    """Return a result with its columns in place of their summaries; raise ValueError where they can't be had."""
    name = content.get(FILE)
    whole = {key: value for key, value in _copied(content).items() if key != FILE}
    summaries = [place for place in _places(whole) if isinstance(item := place[1][place[2]], dict) and COLUMN in item]
    if not summaries:
        return whole
    if not isinstance(name, str) or not Path(name).match(part_of(beside, "*").name) or Path(name).name != name:
        raise ValueError("it does not name the file of its columns")
    arrays = _read(beside.with_name(name))
    for column, owner, key in summaries:
        try:
            owner[key] = _from_arrays(column, arrays)
        except (KeyError, ValueError, TypeError) as error:
            raise ValueError(f"{one_line(name)} has no column {one_line(column)} ({one_line(str(error))})") from None
    return whole


def _read(file: Path) -> Arrays:
    from safetensors import SafetensorError
    from safetensors.numpy import load

    try:
        content = read_tensors(file)
        if part_of(file.with_name(f"{file.name.partition('-')[0]}.safetensors"), seal(content)[:16]) != file:
            raise ValueError("its content is not that of its name")
        return load(content)
    except FileNotFoundError:
        raise ValueError(f"{one_line(file.name)}, which holds what it says of clients, is missing") from None
    except (SafetensorError, ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{one_line(file.name)}: {one_line(str(error))}") from None


def _copied(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Copy what columns are in, and nothing below it."""
    content = dict(fields)
    for key in ("per_client", "traffic", "newcomers", "details"):
        if isinstance(content.get(key), Mapping):
            content[key] = {name: copy(v) if isinstance(v, dict) else v for name, v in content[key].items()}
    if isinstance(content.get("events"), list):
        content["events"] = [dict(event) if isinstance(event, Mapping) else event for event in content["events"]]
    return content


def _places(content: Mapping[str, Any]) -> Iterator[Place]:
    """Go through all columns that a result can have."""
    newcomers = content.get("newcomers")
    inside: list[tuple[str, Any, Sequence[str] | None]] = [
        ("", content, ("groups", "true_groups", "memberships")),
        ("per_client.", content.get("per_client"), None),
        ("traffic.by_client.", _entry(content.get("traffic"), "by_client"), None),
        ("details.", content.get("details"), ("pruned_by_client",)),
        ("newcomers.", newcomers, ("clients", "groups", "founded")),
        ("newcomers.per_client.", _entry(newcomers, "per_client"), None),
    ]
    events = content.get("events")
    for number, event in enumerate(events if isinstance(events, list) else []):
        inside.append((f"events.{number}.", event, ("clients",)))
    for prefix, owner, keys in inside:
        if isinstance(owner, dict) and COLUMN not in owner:
            yield from ((f"{prefix}{key}", owner, key) for key in [*owner] if keys is None or key in keys)


def _entry(owner: Any, key: str) -> Any:
    return owner.get(key) if isinstance(owner, Mapping) else None


def _to_arrays(name: str, column: list[Any] | dict[Any, Any]) -> Arrays:
    """Return a column as arrays: without a value is NaN, or -1 where all are whole numbers."""
    if isinstance(column, dict):
        return {f"{name}{KEYS}": np.array([int(key) for key in column], np.int64), name: _array([*column.values()])}
    if any(isinstance(item, list | tuple) for item in column):
        lengths = np.array([-1 if item is None else len(item) for item in column], np.int64)
        return {f"{name}{LENGTHS}": lengths, name: _array([value for item in column for value in item or ()])}
    return {name: _array(column)}


def _array(values: Sequence[Any]) -> npt.NDArray[Any]:
    if any(isinstance(value, float) for value in values):
        return np.array([math.nan if value is None else value for value in values], np.float64)
    return np.array([-1 if value is None else value for value in values], np.int64)


def _from_arrays(name: str, arrays: Arrays) -> list[Any] | dict[str, Any]:
    array = arrays[name]
    if array.ndim != 1 or array.dtype.kind not in "if" or len(array) > MOST_VALUES:
        raise ValueError(f"it is {array.dtype} {list(array.shape)}")
    missing = np.isnan(array) if array.dtype.kind == "f" else array == -1
    items: list[Any] = array.tolist()
    for place in np.flatnonzero(missing):
        items[place] = None
    keys, lengths = arrays.get(f"{name}{KEYS}"), arrays.get(f"{name}{LENGTHS}")
    if any(beside is not None and (beside.ndim != 1 or beside.dtype.kind != "i") for beside in (keys, lengths)):
        raise ValueError("it is not known whose values it has")
    if keys is not None:
        return dict(zip(map(str, keys.tolist()), items, strict=True))
    if lengths is None:
        return items
    ends = np.cumsum(np.maximum(lengths, 0)).tolist()
    if not len(lengths) or lengths.max() > len(items) or ends[-1] != len(items):
        raise ValueError("its lists are not as long as they should be")
    return [
        None if length < 0 else items[end - length : end] for length, end in zip(lengths.tolist(), ends, strict=True)
    ]


def _summary(
    name: str, column: list[Any] | dict[Any, Any], arrays: Arrays, lower_is_better: bool = False
) -> dict[str, Any]:
    """Summarise a column: how its values are distributed, or how large groups are, and those of some clients."""
    summary: dict[str, Any] = {"entries": len(column)}
    if name.endswith(("clients", "founded", "memberships")):  # numbers of clients, or several values for each
        return summary
    values = arrays[name].astype(np.float64)
    places = np.flatnonzero(~np.isnan(values) if arrays[name].dtype.kind == "f" else arrays[name] >= 0)
    of = arrays.get(f"{name}{KEYS}", np.arange(len(values)))
    shown = np.sort(stream(len(column), "shown clients").choice(places, min(SHOWN, len(places)), replace=False))
    sample = {"clients": of[shown].tolist(), "values": arrays[name][shown].tolist()}
    if name.endswith("groups"):
        return {**summary, **_sizes(arrays[name][places]), "sample": sample}
    return {**summary, **spread_of(values[places], lower_is_better), "sample": sample}


def _sizes(groups: npt.NDArray[Any]) -> dict[str, Any]:
    numbers, counts = np.unique(groups, return_counts=True)
    largest = np.argsort(-counts, kind="stable")[:SIZES]
    sizes = {
        str(number): count for number, count in zip(numbers[largest].tolist(), counts[largest].tolist(), strict=True)
    }
    return {"clients": len(groups), "groups": len(numbers), "largest": sizes}


def spread_of(values: npt.NDArray[np.float64], lower_is_better: bool = False) -> dict[str, Any]:
    """Return how many values there are, mean, standard deviation, quantiles, and the mean of the worst tenth.

    The worst are the lowest values, or of errors, where lower is better, the highest.

    >>> spread_of(np.arange(1.0, 12.0))["worst_tenth"]
    {'clients': 2, 'mean': 1.5}
    """
    n = len(values)
    if not n:
        return {"clients": 0}
    sign = -1.0 if lower_is_better else 1.0
    worst = sign * np.sort(sign * values)[: math.ceil(WORST * n - 1e-9)]
    return {
        "clients": n,
        "mean": float(values.mean()),
        "sd": float(values.std(ddof=1)) if n > 1 else None,
        "quantiles": {f"{q:g}": v for q, v in zip(QUANTILES, np.quantile(values, QUANTILES).tolist(), strict=True)},
        "worst_tenth": {"clients": len(worst), "mean": float(worst.mean())},
    }
