"""Reading the folder of a comparison or a sweep for its page: also one that is not finished, or damaged in part."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from coterie.compare.comparison import DATA, FILE, Comparison
from coterie.compare.design import Design
from coterie.errors import CoterieError
from coterie.results.comparisons import Attempt, StoredComparison
from coterie.results.run_folder import RunFolder
from coterie.results.runs import StoredRun, read_run
from coterie.results.toml import toml_value

SAME = ("data", "partition", "newcomers")
"""Sections that two runs of a seed must share for their clients to be compared one by one, beside held-out samples."""
FINISHED = "finished"


def is_comparison(path: Path) -> bool:
    """Return whether a folder is that of a comparison or a sweep."""
    return (path / FILE).is_file() or (path / DATA).is_file()


def read_compared(path: Path) -> StoredComparison:
    """Read a comparison; the numbers are counted anew from its runs, never taken from comparison.json."""
    try:
        comparison = Comparison.load(path)
        stored, problems = _stored(path, comparison)
        design, runs = comparison.design, _runs(comparison)
        attempts = [
            Attempt(label, seed, _state(path, design, label, seed, runs, stored), f"{design.folder(label)}/seed-{seed}")
            for label in design.cells
            for seed in design.seeds
        ]
        failed = {
            (a.label, a.seed): a.state.removeprefix("failed: ") for a in attempts if a.state.startswith("failed: ")
        }
        table = replace(comparison, failed=failed).table()
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise CoterieError(
            f"a run in '{path}' is damaged ({type(error).__name__}: {error}): remove it, then 'coterie resume {path}'"
        ) from None
    return StoredComparison(
        path=path,
        table=table,
        runs=runs,
        attempts=attempts,
        text=(path / FILE).read_text(encoding="utf-8"),
        sweep=design.kind == "sweep",
        settings=_varied(design) if design.kind == "sweep" else {},
        alone=_alone(design),
        chosen={label: tuned.text(label, design) for label, tuned in comparison.tuned.items()},
        scores=[
            (label, ", ".join(f"{key} = {toml_value(value)}" for key, value in tried.items()), score)
            for label, tuned in comparison.tuned.items()
            for tried, score in tuned.scores
        ],
        targets=design.targets,
        problems=problems,
    )


def _runs(comparison: Comparison) -> dict[str, dict[int, StoredRun]]:
    """Read the finished runs, with the targets of the comparison."""
    return {
        label: {
            seed: read_run(result.folder, f"{label}, seed {seed}")
            for seed, result in results.items()
            if result.folder is not None
        }
        for label, results in comparison.results.items()
    }


def _stored(path: Path, comparison: Comparison) -> tuple[dict[tuple[str, int], str], list[str]]:
    """Read from comparison.json why runs failed; say if it is damaged, or of other runs than those that are here."""
    again = f"`coterie resume {path}` writes it anew"
    if not (path / DATA).is_file():
        return {}, []
    try:
        cells = json.loads((path / DATA).read_text(encoding="utf-8"))["cells"]
        failed = {(cell["label"], one["seed"]): str(one["why"]) for cell in cells for one in cell["failed"]}
        told = {(cell["label"], one["seed"]): one["accuracy"] for cell in cells for one in cell["runs"]}
    except (ValueError, KeyError, TypeError) as error:
        return {}, [f"{DATA} is damaged ({type(error).__name__}); this page is made from the runs, and {again}."]
    here = {(label, seed): r.accuracy for label, by_seed in comparison.results.items() for seed, r in by_seed.items()}
    if json.dumps(sorted(told.items())) != json.dumps(sorted(here.items())):
        return failed, [
            f"{DATA} and the tables beside it are of other runs than those in the folder; this page is made from the "
            f"runs, and {again}."
        ]
    return failed, []


def _state(
    path: Path,
    design: Design,
    label: str,
    seed: int,
    runs: Mapping[str, Mapping[int, StoredRun]],
    stored: Mapping[tuple[str, int], str],
) -> str:
    """Say what became of a run."""
    if seed in runs[label]:
        return FINISHED
    folder = path / design.folder(label) / f"seed-{seed}"
    traceback = folder.with_name(f"{folder.name}.error.txt")
    if traceback.is_file():
        lines = traceback.read_text(encoding="utf-8", errors="replace").strip().splitlines()
        return f"failed: {stored.get((label, seed)) or (lines[-1] if lines else 'no reason is known')}"
    if RunFolder(folder).exists:
        run = read_run(folder)
        return f"stopped after round {run.history[-1]['round']} of {run.rounds}" if run.history else "begun"
    if (label, seed) in stored:
        return f"failed: {stored[label, seed]}"
    return "not begun"


def _varied(design: Design) -> dict[str, dict[str, Any]]:
    """Return the keys that have more than one value in a sweep, with their values, by label."""
    tables = {label: design.config(label, design.seeds[0]).model_dump() for label in design.cells}
    paths = dict.fromkeys(path for changes in design.cells.values() for path in changes)
    found: dict[str, dict[str, Any]] = {label: {} for label in design.cells}
    for path in paths:
        section, _, key = path.partition(".")
        given = {label: changes.get(path, tables[label][section].get(key)) for label, changes in design.cells.items()}
        first = next(iter(given.values()))
        if any(value != first for value in given.values()):
            for label, value in given.items():
                found[label][path] = value
    return found


def _alone(design: Design) -> dict[str, str]:
    """Return for each cell the first one of SOLO on the same data and parts, if there is one."""
    configs = {label: design.config(label, design.seeds[0]) for label in design.cells}
    solo = [label for label, config in configs.items() if config.algorithm.name == "solo"]

    def same(a: str, b: str) -> bool:
        one, other = configs[a], configs[b]
        alike = all(getattr(one, section) == getattr(other, section) for section in SAME)
        return alike and one.evaluation.validation == other.evaluation.validation

    twins = {label: next((twin for twin in solo if same(label, twin)), None) for label in configs if label not in solo}
    return {label: twin for label, twin in twins.items() if twin is not None}
