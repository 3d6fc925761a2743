"""Accuracies of the true groups, of runs whose groups are known."""

from collections import Counter
from collections.abc import Sequence

from coterie.errors import counted
from coterie.results.charts import Block, NumberCell, Table, Values
from coterie.results.metrics import capital
from coterie.results.protocols import OVER_GROUPS_LEGEND, PROTOCOLS
from coterie.results.runs import StoredRun


def by_true_group(runs: Sequence[StoredRun]) -> list[Block]:
    """Show the accuracies of each true group, at the end and in its best round, and their mean."""
    tables: dict[tuple[str, ...], list[StoredRun]] = {}
    for run in runs:
        if measured := run.by_true_group():
            sizes = Counter(run.true_groups or [])
            groups = (f"group {g} ({counted(sizes[g], 'client')})" for g in range(len(next(iter(measured.values())))))
            title = f"{capital(run.metric)} by true group{run.scale.unit}"
            note = f"Means over the clients of each group{_asked(run)}. {OVER_GROUPS_LEGEND}"
            tables.setdefault((title, note, *groups), []).append(run)
    alone = len(runs) == 1
    return [
        Table(
            title=title,
            columns=(*([] if alone else ["run"]), "protocol", *groups, "mean over groups"),
            rows=tuple((*([] if alone else [run.name]), *row) for run in alike for row in _rows_by_group(run)),
            note=note,
        )
        for (title, note, *groups), alike in tables.items()
    ]


def _rows_by_group(run: StoredRun) -> list[tuple[str | NumberCell | float | None, ...]]:
    """Return a row per protocol that is defined for the run."""
    return [
        (_in_words(key), *_of_groups(run, key, numbers), run.over_groups(key))
        for key, numbers in run.by_true_group().items()
        if any(number is not None for number in numbers)
    ]


def _of_groups(run: StoredRun, key: str, numbers: Values) -> list[NumberCell | float | None]:
    """Return the accuracies of groups, with standard errors where they are estimates."""
    entries = ((run.result or {}).get("measured_by_true_group") or {}).get(key) or []
    if len(entries) != len(numbers):
        return [*numbers]
    errors = [run.scaled(entry["standard_error"]) for entry in entries]
    return [
        n if n is None or e is None else NumberCell(f"{run.scale.shown(n)} ± {run.scale.shown(e)}", n)
        for n, e in zip(numbers, errors, strict=True)
    ]


def _asked(run: StoredRun) -> str:
    """Say how many clients of each group were evaluated, where not all."""
    entries = ((run.result or {}).get("measured_by_true_group") or {}).get("L") or []
    counts = ", ".join(f"{entry['clients']:,}" for entry in entries[:20])
    return f" that were evaluated ({counts}{' …' if len(entries) > 20 else ''})" if entries else ""


def _in_words(key: str) -> str:
    """Write a key of accuracies by group.

    >>> _in_words("plus"), _in_words("C_max"), _in_words("L_unadapted")
    ('+', 'C, best round of the group', 'L, unadapted')
    """
    protocol, _, which = key.partition("_")
    words = {"max": "best round of the group", "unadapted": "unadapted"}
    return PROTOCOLS[protocol].symbol + (f", {words[which]}" if which else "")
