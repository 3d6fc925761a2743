"""Whether the files of a folder make sense: types by `schema`, and whether their parts fit together."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
from annotated_types import Len

from coterie.errors import one_line
from coterie.results.protocols import BY_LABEL, COMPARED, CURVES, EACH_CLIENT, PROTOCOLS
from coterie.results.schema import (
    MOST_TRIES,
    MeasuredEntry,
    PlanFile,
    ResultFields,
    Round,
    Tables,
    Typed,
    Value,
    Values,
    error_in,
)

if TYPE_CHECKING:
    from coterie.results.run_folder import PlotArrays


COLUMNS: dict[str, Any] = {
    **dict.fromkeys((*CURVES, *BY_LABEL, "loss", "discrepancy", "groups", "up_bytes", "down_bytes", "seconds"), Value),
    **dict.fromkeys(("pruned", "pruned_L"), Value),
    "unadapted": dict[str, Value] | None,
    "by_true_group": dict[str, Values],
    "measured": dict[str, MeasuredEntry] | None,
    "pruning": dict[str, Annotated[list[Value], Len(2, 2)]],
}
"""What is looked at in a line of ``metrics.jsonl``; methods may write more."""


def error_in_result(content: Any) -> str | None:
    """Say what is wrong with the content of ``result.json``: types, and parts that do not fit together."""
    return error_in(content, ResultFields) or _error_in_parts(content)


def _error_in_parts(result: Mapping[str, Any]) -> str | None:
    clients = len(next(iter(result["per_client"].values()), []))
    lists = {f"per_client.{key}": items for key, items in result["per_client"].items()}
    lists |= {key: result[key] for key in ("groups", "true_groups", "memberships") if result.get(key) is not None}
    lists |= {f"traffic.by_client.{key}": items for key, items in result["traffic"].get("by_client", {}).items()}
    for key, items in lists.items():
        if len(items) != clients:
            return f"{key}: it has {len(items)} entries, for {clients} clients"
    if unknown := [target["protocol"] for target in result.get("targets", []) if target["protocol"] not in PROTOCOLS]:
        return f"targets: there is no protocol '{unknown[0]}'"
    by_group = result.get("accuracy_by_true_group") or {}
    if unknown := [key for key in by_group if key.partition("_")[0] not in PROTOCOLS]:
        return f"accuracy_by_true_group: there is no protocol '{unknown[0]}'"
    if unknown := [key for key in by_group if key.partition("_")[2] not in ("", "max", "unadapted")]:
        return f"accuracy_by_true_group.{unknown[0]}: it is not known what that is"
    if len({len(items) for items in by_group.values()}) > 1:
        return "accuracy_by_true_group: its lists are not of one length"
    numbered = [(f"events.{i}.clients", event.get("clients", {})) for i, event in enumerate(result["events"])]
    numbered += [("details.pruned_by_client", (result.get("details") or {}).get("pruned_by_client", {}))]
    for key, by_client in numbered:
        if odd := next((name for name in by_client if not (name.isascii() and name.isdigit() and len(name) < 8)), None):
            return f"{key}: '{odd}' is not the number of a client"
    return _error_in_newcomers(result.get("newcomers")) or _error_in_memberships(result.get("memberships"))


def _error_in_newcomers(late: Mapping[str, Any] | None) -> str | None:
    if late is None:
        return None
    lists = {"groups": late["groups"], **{f"per_client.{key}": items for key, items in late["per_client"].items()}}
    for key, items in lists.items():
        if len(items) != len(late["clients"]):
            return f"newcomers.{key}: it has {len(items)} entries, for {len(late['clients'])} newcomers"
    missing = [key for key in EACH_CLIENT if key not in late["accuracy"]]
    return f"newcomers.accuracy: there is no '{missing[0]}'" if missing else None


def _error_in_memberships(memberships: Sequence[Any] | None) -> str | None:
    """Shares in all groups are as many for each client; numbers of groups need not be."""
    if error := error_in(memberships or [], list[Values | None], "memberships"):
        return error
    soft = [item for item in memberships or [] if item and any(isinstance(share, float) for share in item)]
    lengths = {len(item) for item in memberships or [] if item}
    return "memberships: its lists are not of one length" if soft and len(lengths) > 1 else None


def missing_in_result(content: Mapping[str, Any]) -> str | None:
    """Say what a result lacks to be compared with others: older versions wrote less."""
    keys = ("algorithm", "data", "partition", "model", "rounds", "groups", "ari", "seconds", "targets")
    if missing := [key for key in keys if key not in content]:
        return f"it has no '{missing[0]}'"
    for part, wanted in (("accuracy", COMPARED), ("per_client", EACH_CLIENT)):
        if missing := [key for key in wanted if key not in content[part]]:
            return f"{part}: there is no '{missing[0]}'"
    return None


def error_in_config(tables: Any) -> str | None:
    """Say what is wrong with the configuration of a run, as far as it is looked at."""
    if error := error_in(tables, Tables):
        return error
    known = ((section, key, kind) for section, keys in Typed.items() for key, kind in keys.items())
    errors = (
        error_in(tables[section][key], kind, f"{section}.{key}")
        for section, key, kind in known
        if key in tables.get(section, {})
    )
    return next((error for error in errors if error), None)


def error_in_plan(tables: Any) -> str | None:
    """Say what is wrong with ``comparison.toml``."""
    if error := error_in(tables, PlanFile):
        return error
    head = tables["comparison"]
    if head["protocol"] not in COMPARED:
        return f"comparison.protocol: '{one_line(head['protocol'])}' should be one of {', '.join(COMPARED)}"
    if odd := next((label for label in tables["cells"] if not label.isprintable() or not label), None):
        return f"cells: the label {odd!r} is not one line of letters"
    tries = math.prod(len(values) for values in head.get("tune", {}).values())
    if tries > MOST_TRIES or len(head["seeds"]) * len(tables["cells"]) > MOST_TRIES:
        return f"comparison: it asks for more than {MOST_TRIES:,} runs"
    targets = tables.get("base", {}).get("evaluation", {}).get("targets", [])
    return error_in(targets, list[str], "base.evaluation.targets")


def error_in_row(row: Any, after: int | None) -> str | None:
    """Say why a line of ``metrics.jsonl`` can't be right."""
    if not isinstance(row, dict) or "round" not in row:
        return "it has no round"
    if error := error_in(row["round"], Round, "round"):
        return error
    return None if after is None or row["round"] > after else f"round {row['round']} comes after round {after}"


def error_in_history(rows: Sequence[Mapping[str, Any]], evaluated: Sequence[int]) -> str | None:
    """Say why rows of metrics can't be those of the rounds in which accuracies were measured."""
    if [row["round"] for row in rows] != [*evaluated]:
        return f"it has {len(rows)} rows of metrics for {len(evaluated)} evaluated rounds, or of others"
    places = ((row, key, kind) for row in rows for key, kind in COLUMNS.items() if key in row)
    errors = (error_in(row[key], kind, f"round {row['round']}, {key}") for row, key, kind in places)
    return next((error for error in errors if error), None)


def without_odd_values(row: dict[str, Any]) -> list[str]:
    """Take what is no number out of a line of ``metrics.jsonl``, and return where that was."""
    odd = [key for key, kind in COLUMNS.items() if key in row and error_in(row[key], kind)]
    for key in odd:
        if COLUMNS[key] is Value:
            row[key] = None
        else:
            del row[key]
    return odd


def error_in_arrays(arrays: PlotArrays) -> str | None:
    """Say what is wrong with the arrays of ``views.safetensors``: types, shapes, and parts that do not fit together."""
    for name, array in arrays.items():
        whole = name in ("grouped", "labels", "label_counts", "client_pool")
        dimensions = 2 if name in ("label_counts", "proximity", "tree") else 1
        if array.dtype.kind not in ("iu" if whole else "iuf") or array.ndim != dimensions:
            return f"{name} is {array.dtype} {list(array.shape)}"
        if array.dtype.kind == "f" and name == "tree" and (np.isnan(array) | (array == -np.inf)).any():
            return f"{name} holds no numbers"
        if whole and array.size and not 0 <= array.min() <= array.max() < 2**40:
            return f"{name} goes from {array.min()} to {array.max()}"
    together = [name for name in ("grouped", "proximity", "tree", "labels") if name in arrays]
    if not together:
        return None
    if len(together) < 4:
        return f"it has {', '.join(together)} without the others"
    n = len(arrays["grouped"])
    shapes = {"grouped": (n,), "proximity": (n, n), "labels": (n,)}
    for key, shape in shapes.items():
        if arrays[key].shape != shape:  # type: ignore[index]
            return f"{key} is {list(arrays[key].shape)}, not {list(shape)}"  # type: ignore[index]
    if len(arrays["labels"]) and arrays["labels"].max() >= 10**6:
        return f"labels go to {arrays['labels'].max()}"
    return _error_in_tree(arrays["tree"], n)


def _error_in_tree(tree: np.ndarray[Any, Any], n: int) -> str | None:
    if len(tree) == 0:
        return None
    if tree.shape != (n - 1, 4):
        return f"tree is {list(tree.shape)}, not {[n - 1, 4]}"
    children = tree[:, :2]
    if (children != np.rint(children)).any() or sorted(children.ravel().tolist()) != [*range(2 * n - 2)]:
        return "tree does not merge every branch once"
    if (children >= n + np.arange(n - 1)[:, None]).any():
        return "tree merges branches before they are there"
    if not np.isfinite(tree[:, 3]).all():  # heights may be: such merges were never made
        return "tree has branches of infinitely many clients"
    return "tree has merges below 0, or lower than those before" if (tree[:, 2] < 0).any() else None
