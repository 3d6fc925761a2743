"""Tables and figures that need runs: which, and what is read from them."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from coterie.compare.existing_runs import ExistingRuns
from coterie.compare.jobs import RunJob, run_jobs
from coterie.reproduce import findings
from coterie.reproduce.catalogue import Cell, Reproducible
from coterie.reproduce.findings import Findings, ReproductionSession, beside_published, over_seeds
from coterie.reproduce.request import TRAINED
from coterie.results.charts import Bars, Chart, Lines, Series, values
from coterie.results.comparison_folder import seeds_text
from coterie.results.folder_lock import PATIENCE, locked
from coterie.results.protocols import BEST, COMPARED, CURVES, EACH_CLIENT, KEYS, OVER_GROUPS
from coterie.results.reproductions import NumberPair
from coterie.results.run_folder import RunFolder
from coterie.results.statistics import Spread, spread
from coterie.run.config import Config
from coterie.run.result import Result
from coterie.run.validation import make_config

DIGITS = {"rounds": 0, "megabits": 2, "%": 2, "% pruned": 1}
ROW_NAMES = {"W": "accuracy W (%)", "discrepancy": "discrepancy", "loss": "mean training loss"}


Results = Mapping[str, list[Result]]
"""By cell, over seeds; see `key_of`."""
Failures = Mapping[str, Mapping[int, str]]
"""Why there is no result, by cell and seed."""


def train(item: Reproducible, session: ReproductionSession) -> Findings:
    """Make the runs of a table, and read its numbers from them."""
    cells = session.request.cells(item, session.place)
    results, failed = make_runs(item, cells, session)
    asked = len(session.request.seeds_of(item))
    lines = [_line(item, cell, results[key_of(cell)], failed.get(key_of(cell), {}), asked) for cell in cells]
    charts = CHARTS.get(item.entry.kind, _compared)(item, cells, lines, results)
    folders = [str(run.folder) for runs in results.values() for run in runs]
    return Findings(lines, list(charts), failed=describe_failures(cells, failed), runs=list(dict.fromkeys(folders)))


def describe_failures(cells: Sequence[Cell], failed: Failures) -> list[str]:
    """Say which runs failed."""
    sentences = [
        f"{cell.column}, {cell.label}: seed {seed}: {why}"
        for cell in cells
        for seed, why in failed.get(key_of(cell), {}).items()
    ]
    return list(dict.fromkeys(sentences))


def key_of(cell: Cell) -> str:
    """Return what tells cells apart."""
    return f"{cell.column}/{cell.row}"


def make_runs(item: Reproducible, cells: Sequence[Cell], session: ReproductionSession) -> tuple[Results, Failures]:
    """Make the runs of cells that were not made before, and return results and failures by cell.

    Runs that are there must be whole, and those of the catalogue.
    """
    seeds, owners = session.request.seeds_of(item), dict[Path, list[str]]()
    jobs: dict[Path, RunJob] = {}
    for cell in cells:
        tables = session.request.scaled(cell.settings)
        for seed, path in zip(seeds, session.request.runs(item, cell, session.place), strict=True):
            owners.setdefault(path, []).append(key_of(cell))
            if path not in jobs:
                jobs[path] = RunJob(f"{cell.column}, {cell.label}", seeded_config(tables, seed, path))
    existing = ExistingRuns()
    done = existing.results(jobs.values())
    waiting = [job for job in jobs.values() if job not in done]
    failed: dict[str, dict[int, str]] = {}
    if waiting:
        with locked(session.place, PATIENCE) as lock, session.progress as progress:
            progress.begin(item.name, len(jobs), len(jobs) - len(waiting))
            for job, why in run_jobs(waiting, session.jobs, progress, lock).items():
                for owner in owners[job.folder.path]:
                    failed.setdefault(owner, {})[job.seed] = why
        done |= existing.results(waiting)
    results: dict[str, list[Result]] = {key_of(cell): [] for cell in cells}
    for path, job in jobs.items():
        if job in done:
            for owner in dict.fromkeys(owners[path]):
                results[owner].append(done[job])
    return results, failed


def seeded_config(tables: Mapping[str, Any], seed: int, folder: Path | None = None) -> Config:
    """Return the configuration of settings, with a seed and perhaps a folder; a finished run needs no data."""
    config = make_config(tables, files=folder is None or not RunFolder(folder).finished)
    config.run.seed, config.run.out = seed, str(folder) if folder else config.run.out
    return config


def _line(
    item: Reproducible, cell: Cell, results: Sequence[Result], failed: Mapping[int, str], seeds_asked: int
) -> NumberPair:
    ours = over_seeds(results, cell.quantity, cell.options)
    beside = {name: over_seeds(results, name, {}) for name in _names_beside(item.entry.kind)}
    if "L best" in beside and all(len(result.history) < 2 for result in results):
        beside["L best"] = None  # of one evaluated round, the best is the last
    measured = {cell.quantity: cell.options, **{name: {} for name in beside if name != cell.quantity}}
    odd = {name: findings.no_numbers(results, name, options) for name, options in measured.items()}
    notes = [f"{name}: no number in {seeds_text(seeds)}" for name, seeds in odd.items() if seeds]
    notes += [f"failed: {seeds_text(sorted(failed))}"] * bool(failed)
    return replace(
        beside_published(cell, ours, DIGITS.get(item.entry.unit, 3)),
        beside=beside,
        notes=(*cell.notes, *notes),
        why="failed" if failed and not results else "NaN" if odd[cell.quantity] and ours is None else "",
        reached=(ours.n if ours else 0) if findings.is_target(cell.quantity) and results else None,
        tried=len(results),
        asked=seeds_asked,
    )


def _names_beside(kind: str) -> list[str]:
    """Return the quantities that are shown beside the published one."""
    if kind in ("statistics", "target"):
        return []
    names = [*COMPARED.values(), *(f"group mean {COMPARED[key]}" for key in OVER_GROUPS), "L best"]
    if kind == "newcomers":
        names = [f"newcomers {name}" for name in EACH_CLIENT]
    return [*names, "groups", *(["pruned"] if kind == "pruning" else [])]


# ------------------------------------------------------------------------------------------------------- pictures


def _compared(
    item: Reproducible, cells: Sequence[Cell], lines: Sequence[NumberPair], results: Results
) -> Iterator[Chart]:
    """Draw the paper's numbers and ours as bars, a chart per column."""
    for column in dict.fromkeys(line.column for line in lines):
        shown = [line for line in lines if line.column == column and (line.ours or line.paper is not None)]
        if not shown:
            continue
        mixed = len({line.quantity for line in shown}) > 1 and item.entry.unit == "%"
        paper = _bars("paper", [(line.paper, line.paper_spread) for line in shown])
        ours = _bars("ours", [(line.ours.mean, line.ours.std) if line.ours else (None, None) for line in shown])
        yield Bars(
            title=f"{item.entry.title}: {column}",
            x_label="",
            y_label=_axis(item, "" if item.entry.unit == "%" else shown[0].quantity),
            categories=tuple(f"{line.row} ({line.quantity})" if mixed else line.row for line in shown),
            series=tuple(s for s in (paper, ours) if any(y is not None for y in s.y)),
        )


def _sweep(item: Reproducible, cells: Sequence[Cell], lines: Sequence[NumberPair], results: Results) -> Iterator[Chart]:
    """Draw accuracy as a line over bars of the number of groups (PACFL Fig. 2), or a line per series."""
    vary = item.entry.vary
    if vary is None:
        yield from _compared(item, cells, lines, results)
        return
    pairs = list(zip(cells, lines, strict=True))
    for column in dict.fromkeys(cell.column for cell in cells):
        here = [(cell, line) for cell, line in pairs if cell.column == column]
        title = f"{item.entry.title}: {column}"
        if vary.series is None:
            groups = [_mean(line.beside.get("groups")) for _, line in here]
            yield Bars(
                title=title,
                x_label=vary.label,
                y_label="groups",
                categories=tuple(str(cell.x) for cell, _ in here),
                series=(Series(name="groups", y=values(groups)),),
                line=Series(name="accuracy", y=values(_mean(line.ours) for _, line in here)),
                line_label=_axis(item, here[0][1].quantity),
            )
            continue
        lines_of = [
            Series(
                name=f"{vary.series_label} = {value}",
                x=values(cell.x for cell, _ in here if cell.series == value),
                y=values(_mean(line.ours) for cell, line in here if cell.series == value),
            )
            for value in vary.series_values
        ]
        axis = _axis(item, here[0][1].quantity)
        yield Lines(title=title, x_label=vary.label, y_label=axis, series=tuple(lines_of))


def _curves(
    item: Reproducible, cells: Sequence[Cell], lines: Sequence[NumberPair], results: Results
) -> Iterator[Chart]:
    """Draw accuracy, or what else is asked for, over rounds: a line per row, with the spread over seeds."""
    upto = item.entry.options.get("upto")
    for what in item.entry.options.get("series", ["accuracy"]):
        for column in dict.fromkeys(cell.column for cell in cells):
            here = [cell for cell in cells if cell.column == column]
            series = [_curve(cell, results[key_of(cell)], what, upto, slot) for slot, cell in enumerate(here)]
            label = ROW_NAMES.get(what, "accuracy (%)")
            yield Lines(
                title=f"{item.entry.title}: {column}" + (f", {what}" if what not in ("accuracy", "W") else ""),
                x_label="round",
                y_label=label,
                series=tuple(s for s in series if s.y),
            )


def _curve(cell: Cell, results: Sequence[Result], what: str, upto: int | None, slot: int) -> Series:
    """Return a line over rounds: the mean over seeds, and the band of its deviation."""
    measured = cell.quantity if cell.quantity.startswith("unadapted ") else KEYS.get(cell.quantity, "L")
    key = measured if what == "accuracy" else what
    key = {**BEST, "plus": "L", "L_best": "L"}.get(key, key)
    factor = 100.0 if key.removeprefix("unadapted ") in CURVES else 1.0
    by_round: dict[int, list[float]] = {}
    for result in results:
        for row in result.history:
            number = findings.accuracy_in(row, key)
            if number is not None and (upto is None or row["round"] <= upto):
                by_round.setdefault(row["round"], []).append(factor * number)
    rounds = sorted(by_round)
    spreads = [spread(by_round[round]) for round in rounds]
    means, deviations = [s.mean if s else None for s in spreads], [(s.std or 0.0) if s else 0.0 for s in spreads]
    many = len(results) > 1
    return Series(
        name=f"{cell.label} ({key})",
        x=values(rounds),
        y=values(means),
        low=values(m and m - d for m, d in zip(means, deviations, strict=True)) if many else (),
        high=values(m and m + d for m, d in zip(means, deviations, strict=True)) if many else (),
        slot=slot,
    )


def _pruning(
    item: Reproducible, cells: Sequence[Cell], lines: Sequence[NumberPair], results: Results
) -> Iterator[Chart]:
    """Draw clients' mean accuracy against the mean pruned share, over the rounds."""
    for cell in cells:
        rows = [row for result in results[key_of(cell)][:1] for row in result.history if row.get("pruned") is not None]
        if rows:
            pruned, accuracy = (values((row[key] for row in rows), 100) for key in ("pruned", "L"))
            yield Lines(
                title=f"{item.entry.title}: {cell.column}",
                x_label="weights pruned (%), mean over clients",
                y_label="accuracy L (%)",
                series=(Series(name=cell.label, x=pruned, y=accuracy),),
            )


def _axis(item: Reproducible, quantity: str) -> str:
    if item.entry.unit == "%":
        return f"accuracy (%), {quantity}" if quantity else "accuracy (%)"
    return item.entry.unit or quantity


def _bars(name: str, points: Sequence[tuple[float | None, float | None]]) -> Series:
    """Return bars with their deviations, if there are any."""
    series = Series(name=name, y=values(y for y, _ in points))
    if not any(deviation for _, deviation in points):
        return series
    low, high = (values(None if y is None else y + sign * (d or 0) for y, d in points) for sign in (-1, 1))
    return replace(series, low=low, high=high)


def _mean(ours: Spread | None) -> float | None:
    return None if ours is None else ours.mean


CHARTS = {"sweep": _sweep, "curves": _curves, "pruning": _pruning}
KINDS = TRAINED
"""All of them are runs; they differ in what is read from them and drawn."""
