"""Comparisons and sweeps as their folders hold them: also those that are not finished, or damaged in part."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from coterie.bounded import LARGEST_JSON, read_bytes
from coterie.errors import CoterieError, counted, one_line
from coterie.results.checks import missing_in_result
from coterie.results.comparison_folder import ComparisonFolder, ComparisonPlan, Tables, Tuned, mean_score, seeds_text
from coterie.results.comparison_table import BySeed, ComparisonTable, make_table, reached
from coterie.results.formats import data_title
from coterie.results.run_folder import RunFolder, changed_settings
from coterie.results.runs import StoredRun, read_run

FINISHED, FAILED = "finished", "failed: "
"""How the state of an attempt reads, or begins."""
SAME = ("data", "partition", "newcomers")
"""Sections that two runs of a seed must share for their clients to be compared one by one, beside held-out samples."""
SHARED = {
    "data": "data",
    "partition": "partitions",
    "newcomers": "newcomers",
    "model": "initial models",
    "training.fraction": "cohorts",
}
"""What runs of a seed share unless these keys differ."""


@dataclass(frozen=True)
class Attempt:
    """A run of a comparison: which, and what became of it."""

    label: str
    seed: int
    state: str
    """``finished``, or in words."""
    folder: str

    @property
    def finished(self) -> bool:
        """Whether its numbers are here."""
        return self.state == FINISHED


@dataclass(frozen=True)
class StoredComparison:
    """A comparison or a sweep."""

    path: Path
    plan: ComparisonPlan
    table: ComparisonTable
    runs: Mapping[str, Mapping[int, StoredRun]]
    """Those that are finished, by label and seed."""
    attempts: Sequence[Attempt] = ()
    """All that were asked for."""
    failed: Mapping[tuple[str, int], str] = field(default_factory=dict)
    """Why runs failed, by label and seed."""
    tuned: Mapping[str, Tuned] = field(default_factory=dict)
    """What was chosen on validation samples, by label."""
    alone: Mapping[str, str] = field(default_factory=dict)
    """From a label to that of SOLO on the same data and parts."""
    warnings: Sequence[str] = ()
    configs: Mapping[str, Tables] = field(default_factory=dict)
    """A configuration of each cell that has begun."""

    @property
    def sweep(self) -> bool:
        """Whether it is a sweep."""
        return self.plan.kind == "sweep"

    @property
    def labels(self) -> list[str]:
        """All of them, in order."""
        return [row.label for row in self.table.rows]

    @cached_property
    def settings(self) -> dict[str, dict[str, Any]]:
        """The keys of a sweep that have more than one value, with their values, by label."""
        cells = self.plan.cells if self.sweep else {}
        paths = dict.fromkeys(path for changes in cells.values() for path in changes)
        base = {path: _setting(self.plan.base, path) for path in paths}
        complete = {label: {**base, **changes} for label, changes in cells.items()}
        first = next(iter(complete.values()), {})
        varied = [path for path in paths if any(cell[path] != first[path] for cell in complete.values())]
        return {label: {path: cell[path] for path in varied} for label, cell in complete.items()}

    @property
    def varied(self) -> list[str]:
        """The keys of a sweep that have more than one value."""
        return list(next(iter(self.settings.values()), {}))

    @property
    def chosen(self) -> dict[str, str]:
        """Which settings were chosen on validation samples, in words, by label."""
        return {label: choice.text(label, self.plan) for label, choice in self.tuned.items()}

    def all_runs(self) -> list[tuple[str, StoredRun]]:
        """Return the finished ones, each with its label."""
        return [(label, run) for label, by_seed in self.runs.items() for run in by_seed.values()]


def comparison_table(
    plan: ComparisonPlan,
    results: Mapping[str, BySeed],
    failed: Mapping[tuple[str, int], str],
    tuned: Mapping[str, Tuned],
    configs: Mapping[str, Tables],
) -> ComparisonTable:
    """Count a comparison: results by label and seed, why others failed, what was chosen, and a configuration each."""
    notes = [f"{label}, seed {seed}, failed: {why}" for (label, seed), why in failed.items()]
    notes += [f"{choice.text(label, plan)}." for label, choice in tuned.items()]
    for label, changes in plan.cells.items():
        as_set = [key for key in plan.tuning.grid if key in changes]
        notes += [f"{label}: {', '.join(as_set)} as set, not chosen."] if as_set else []
    if different := differing([*configs.values()]):
        notes.append(f"Not the same for all: {', '.join(different)}. Seeds are paired all the same.")
    ordered = {
        label: {seed: by_seed[seed] for seed in plan.seeds if seed in by_seed} for label, by_seed in results.items()
    }
    title = comparison_title(plan, results)
    return make_table(ordered, plan.seeds, title=title, noun=plan.noun, baseline=plan.baseline, notes=notes)


def comparison_title(plan: ComparisonPlan, results: Mapping[str, BySeed]) -> str:
    """Say what all runs have in common."""
    runs = [run for by_seed in results.values() for run in by_seed.values()]
    columns = [
        *([[run["algorithm"] for run in runs]] if plan.kind == "sweep" else []),
        [data_title(run["data"]) for run in runs],
        [counted(len(run["per_client"]["L"]), "client") for run in runs],
        [run["partition"] for run in runs],
        [run["model"] for run in runs],
        [counted(run["rounds"], "round") for run in runs],
    ]
    shared = [texts[0] for texts in columns if len(set(texts)) == 1 and texts[0]]
    return ", ".join([*map(str, shared), seeds_text(plan.seeds)])


def differing(configs: Sequence[Tables]) -> list[str]:
    """Say which of data, partitions, newcomers, initial models and cohorts differ between configurations."""
    return [
        noun
        for path, noun in SHARED.items()
        if any(_setting(config, path) != _setting(configs[0], path) for config in configs)
    ]


def _setting(config: Tables, path: str) -> Any:
    """Return a section of a configuration, or a key of one."""
    section, _, key = path.partition(".")
    return config.get(section, {}).get(key) if key else config.get(section)


def read_comparison(path: Path) -> StoredComparison:
    """Read a comparison; the numbers are counted anew from its runs, never taken from comparison.json."""
    folder = ComparisonFolder.open(path)
    plan = ComparisonPlan.read(folder.plan_file)
    try:
        tuned = choose_settings(folder, plan)
        runs = {label: _finished_runs(folder, plan, label, tuned) for label in plan.cells}
        results = {
            label: {
                seed: {
                    **(run.result or {}),
                    "targets": [reached(target, run.history, run.metric) for target in plan.targets],
                }
                for seed, run in by_seed.items()
            }
            for label, by_seed in runs.items()
        }
        accuracies = {(label, seed): run["accuracy"] for label in results for seed, run in results[label].items()}
        reasons, warning = folder.read_failures(accuracies)
        attempts = [
            Attempt(
                label,
                seed,
                FINISHED if seed in runs[label] else _state(folder.run(plan, label, seed), reasons.get((label, seed))),
                plan.run_place(label, seed),
            )
            for label in plan.cells
            for seed in plan.seeds
        ]
        failed = {
            (attempt.label, attempt.seed): attempt.state.removeprefix(FAILED)
            for attempt in attempts
            if attempt.state.startswith(FAILED)
        }
        configs = _configs(folder, plan)
        table = comparison_table(plan, results, failed, tuned, configs)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise CoterieError(
            f"a run in '{path}' is damaged ({type(error).__name__}: {error}): remove it, then 'coterie resume {path}'"
        ) from None
    warnings = [warning] if warning else []
    return StoredComparison(path, plan, table, runs, attempts, failed, tuned, _alone(configs), warnings, configs)


def choose_settings(
    folder: ComparisonFolder,
    plan: ComparisonPlan,
    read: Callable[[RunFolder], Mapping[str, Any] | None] = RunFolder.read_result,
    *,
    all_finished: bool = True,
) -> dict[str, Tuned]:
    """Choose for each cell the values with the best mean accuracy on validation samples, where there is one.

    With `all_finished`, only for cells whose candidates are; else one that has no result has no score.
    """
    tuned = {}
    for label, changes in plan.cells.items():
        tries = plan.tuning.tries(changes)
        results = [
            [read(folder.candidate(plan, label, values, seed)) for seed in plan.tuning.seeds] for values in tries
        ]
        if all_finished and any(None in runs for runs in results):
            continue
        scores = [mean_score([run["accuracy"][plan.protocol] if run else None for run in runs]) for runs in results]
        if best := Tuned.best([*zip(tries, scores, strict=True)], plan.metric):
            tuned[label] = best
    return tuned


def _finished_runs(
    folder: ComparisonFolder, plan: ComparisonPlan, label: str, tuned: Mapping[str, Tuned]
) -> dict[int, StoredRun]:
    """Read the finished runs of a cell; refuse those that are cut short, or of another configuration."""
    if plan.tuning.tries(plan.cells[label]) and label not in tuned:
        return {}
    chosen = tuned[label].chosen if label in tuned else {}
    runs = {}
    for seed in plan.seeds:
        place = folder.run(plan, label, seed)
        if not (place.exists and place.finished):
            continue
        run = read_run(place.path, f"{label}, seed {seed}")
        again = f"remove '{place.path}' to run it again"
        if missing := missing_in_result(run.result or {}):
            raise CoterieError(f"'{place.result_file}' is damaged, or of an older version ({missing}): {again}")
        if not run.history or run.history[-1]["round"] != run.rounds:
            raise CoterieError(f"'{place.metrics_file}' is damaged: it does not reach round {run.rounds}: {again}")
        if changed := _other_settings(plan, {**plan.cells[label], **chosen, "run.seed": seed}, run.config):
            raise CoterieError(
                f"'{place.path}' holds a run with another configuration ({'; '.join(changed[:3])}): {again}"
            )
        runs[seed] = run
    return runs


def _other_settings(plan: ComparisonPlan, changes: Mapping[str, Any], config: Tables) -> list[str]:
    """Say which names and numbers of a run are others than the plan asks for; other values are not written alike."""
    paths = {f"{section}.{key}": value for section, table in plan.base.items() for key, value in table.items()}
    stored: dict[str, dict[str, Any]] = {}
    asked: dict[str, dict[str, Any]] = {}
    for path, value in {**paths, **changes}.items():
        section, _, key = path.partition(".")
        setting = _setting(config, path)
        if key == "name" and setting != value:  # perhaps with options behind a colon
            value = str(value).partition(":")[0]
        if setting is not None and (key == "name" or isinstance(value, int | float)):
            stored.setdefault(section, {})[key], asked.setdefault(section, {})[key] = setting, value
    return changed_settings(stored, asked)


def _state(run: RunFolder, reason: str | None) -> str:
    """Say what became of a run that is not finished; `reason` is why it failed, if that is known."""
    if run.error_file.is_file():
        try:
            lines = read_bytes(run.error_file, LARGEST_JSON).decode("utf-8", "replace").strip().splitlines()
        except ValueError as error:
            lines = [f"{run.error_file.name}: {error}"]
        return FAILED + (reason or (one_line(lines[-1]) if lines else "no reason is known"))
    if run.exists:
        stored = read_run(run.path)
        return f"stopped after round {stored.history[-1]['round']} of {stored.rounds}" if stored.history else "begun"
    return f"{FAILED}{reason}" if reason else "not begun"


def _configs(folder: ComparisonFolder, plan: ComparisonPlan) -> dict[str, Tables]:
    """Return a configuration of each cell that has begun."""
    folders = {label: [folder.run(plan, label, seed) for seed in plan.seeds] for label in plan.cells}
    begun = {label: [run for run in runs if run.exists] for label, runs in folders.items()}
    return {label: runs[0].shown_config() for label, runs in begun.items() if runs}


def _alone(configs: Mapping[str, Tables]) -> dict[str, str]:
    """Return for each cell the first one of SOLO on the same data and parts, if there is one."""
    solo = [label for label, config in configs.items() if config.get("algorithm", {}).get("name") == "solo"]

    def federation(label: str) -> list[Any]:
        config = configs[label]
        return [*(config.get(section) for section in SAME), config.get("evaluation", {}).get("validation")]

    others = [label for label in configs if label not in solo]
    twins = {label: [twin for twin in solo if federation(twin) == federation(label)] for label in others}
    return {label: labels[0] for label, labels in twins.items() if labels}
