"""Comparisons and sweeps as their folders hold them: also those that are not finished, or damaged in part."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from coterie.errors import CoterieError
from coterie.results.comparison_folder import ComparisonFolder, ComparisonPlan, Tables, Tuned, mean_score, seeds_text
from coterie.results.comparison_table import BySeed, ComparisonTable, make_table, reached
from coterie.results.formats import toml_value
from coterie.results.run_folder import RunFolder
from coterie.results.runs import StoredRun, read_run

FINISHED = "finished"
SAME = ("data", "partition", "newcomers")
"""Sections that two runs of a seed must share for their clients to be compared one by one, beside held-out samples."""
APART = {
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
    table: ComparisonTable
    runs: Mapping[str, Mapping[int, StoredRun]]
    """Those that are finished, by label and seed."""
    attempts: Sequence[Attempt]
    """All that were asked for."""
    text: str
    """Of comparison.toml."""
    sweep: bool = False
    settings: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Of a sweep: the values of the varied keys, by label."""
    alone: Mapping[str, str] = field(default_factory=dict)
    """From a label to that of SOLO on the same data and parts."""
    chosen: Mapping[str, str] = field(default_factory=dict)
    """Which settings were chosen on validation samples, in words, by label."""
    scores: Sequence[tuple[str, str, float | None]] = ()
    """Label, values tried, and their score on validation samples."""
    targets: Sequence[str] = ()
    problems: Sequence[str] = ()

    @property
    def labels(self) -> list[str]:
        """All of them, in order."""
        return [row.label for row in self.table.rows]

    @property
    def varied(self) -> list[str]:
        """The keys of a sweep."""
        return list(dict.fromkeys(key for of in self.settings.values() for key in of))

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
        own = [key for key in plan.tuning.grid if key in changes]
        notes += [f"{label}: {', '.join(own)} as set, not chosen."] if own else []
    apart = differing([*configs.values()])
    if apart:
        notes.append(f"Not the same for all: {', '.join(apart)}. Seeds are paired all the same.")
    ordered = {label: {seed: of[seed] for seed in plan.seeds if seed in of} for label, of in results.items()}
    title = comparison_title(plan, results)
    return make_table(ordered, plan.seeds, title=title, what=plan.noun, baseline=plan.baseline, notes=notes)


def comparison_title(plan: ComparisonPlan, results: Mapping[str, BySeed]) -> str:
    """Say what all runs have in common."""
    every = [result for of in results.values() for result in of.values()]
    parts = [
        *([[run["algorithm"] for run in every]] if plan.kind == "sweep" else []),
        [run["data"] for run in every],
        [f"{len(run['per_client']['L'])} clients" for run in every],
        [run["partition"] for run in every],
        [run["model"] for run in every],
        [f"{run['rounds']} rounds" for run in every],
    ]
    shared = [texts[0] for texts in parts if len(set(texts)) == 1 and texts[0]]
    return ", ".join([*map(str, shared), seeds_text(plan.seeds)])


def differing(configs: Sequence[Tables]) -> list[str]:
    """Say which of data, partitions, newcomers, initial models and cohorts differ between configurations."""
    return [
        what
        for path, what in APART.items()
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
        tuned = _tuned(folder, plan)
        runs = {label: _finished_runs(folder, plan, label, tuned) for label in plan.cells}
        results = {
            label: {
                seed: {**(run.result or {}), "targets": [reached(target, run.history) for target in plan.targets]}
                for seed, run in of.items()
            }
            for label, of in runs.items()
        }
        accuracies = {(label, seed): run["accuracy"] for label, of in results.items() for seed, run in of.items()}
        reasons, problem = folder.read_failures(accuracies)
        states = {
            (label, seed): FINISHED
            if seed in runs[label]
            else _state(folder.run(plan, label, seed), reasons.get((label, seed)))
            for label in plan.cells
            for seed in plan.seeds
        }
        failed = {key: state.removeprefix("failed: ") for key, state in states.items() if state.startswith("failed: ")}
        configs = _configs(folder, plan)
        table = comparison_table(plan, results, failed, tuned, configs)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise CoterieError(
            f"a run in '{path}' is damaged ({type(error).__name__}: {error}): remove it, then 'coterie resume {path}'"
        ) from None
    return StoredComparison(
        path=path,
        table=table,
        runs=runs,
        attempts=[Attempt(*key, state, plan.run_place(*key)) for key, state in states.items()],
        text=folder.plan_file.read_text(encoding="utf-8"),
        sweep=plan.kind == "sweep",
        settings=_varied(plan) if plan.kind == "sweep" else {},
        alone=_alone(configs),
        chosen={label: choice.text(label, plan) for label, choice in tuned.items()},
        scores=[
            (label, ", ".join(f"{key} = {toml_value(value)}" for key, value in values.items()), score)
            for label, choice in tuned.items()
            for values, score in choice.scores
        ],
        targets=plan.targets,
        problems=[problem] if problem else [],
    )


def _tuned(folder: ComparisonFolder, plan: ComparisonPlan) -> dict[str, Tuned]:
    """Return what was chosen for the cells whose candidates are all finished."""
    tuned = {}
    for label, changes in plan.cells.items():
        scores: list[tuple[Mapping[str, Any], float | None]] = []
        for values in plan.tuning.tries(changes):
            results = [folder.candidate(plan, label, values, seed).read_result() for seed in plan.tuning.seeds]
            accuracies = [result["accuracy"][plan.protocol] for result in results if result is not None]
            if len(accuracies) < len(results):
                break
            scores.append((values, mean_score(accuracies, len(results))))
        else:
            if (best := Tuned.best(scores)) is not None:
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
        if not run.history or run.history[-1]["round"] != run.rounds:
            raise CoterieError(f"'{place.metrics_file}' is damaged: it does not reach round {run.rounds}: {again}")
        if changed := _other_settings(plan, {**plan.cells[label], **chosen, "run.seed": seed}, run.config):
            raise CoterieError(
                f"'{place.path}' holds a run with another configuration ({'; '.join(changed[:3])}): {again}"
            )
        runs[seed] = run
    return runs


def _other_settings(plan: ComparisonPlan, changes: Mapping[str, Any], config: Tables) -> list[str]:
    """Say which names and numbers that were asked for a run has otherwise; other values are not written alike."""
    asked = {f"{section}.{key}": value for section, table in plan.base.items() for key, value in table.items()}
    changed = []
    for path, value in {**asked, **changes}.items():
        stored = _setting(config, path)
        if stored is None or path.startswith("engine.") or path == "data.clients":  # which data may decide
            continue
        other = isinstance(value, int | float) and value != stored
        if path.endswith(".name"):  # perhaps with options behind a colon
            other = stored not in (value, str(value).partition(":")[0])
        if other:
            changed.append(f"{path} was {stored!r}, is {value!r}")
    return changed


def _state(run: RunFolder, reason: str | None) -> str:
    """Say what became of a run that is not finished; `reason` is why it failed, if that is known."""
    if run.error_file.is_file():
        lines = run.error_file.read_text(encoding="utf-8", errors="replace").strip().splitlines()
        return f"failed: {reason or (lines[-1] if lines else 'no reason is known')}"
    if run.exists:
        stored = read_run(run.path)
        return f"stopped after round {stored.history[-1]['round']} of {stored.rounds}" if stored.history else "begun"
    return f"failed: {reason}" if reason else "not begun"


def _configs(folder: ComparisonFolder, plan: ComparisonPlan) -> dict[str, Tables]:
    """Return a configuration of each cell that has begun."""
    runs = {label: [folder.run(plan, label, seed) for seed in plan.seeds] for label in plan.cells}
    begun = {label: [run for run in of if run.exists] for label, of in runs.items()}
    return {label: of[0].read_config() for label, of in begun.items() if of}


def _varied(plan: ComparisonPlan) -> dict[str, dict[str, Any]]:
    """Return the keys that have more than one value in a sweep, with their values, by label."""
    paths = dict.fromkeys(path for changes in plan.cells.values() for path in changes)
    base = {path: _setting(plan.base, path) for path in paths}
    given = {label: {**base, **changes} for label, changes in plan.cells.items()}
    first = next(iter(given.values()))
    varied = [path for path in paths if any(of[path] != first[path] for of in given.values())]
    return {label: {path: of[path] for path in varied} for label, of in given.items()}


def _alone(configs: Mapping[str, Tables]) -> dict[str, str]:
    """Return for each cell the first one of SOLO on the same data and parts, if there is one."""
    solo = [label for label, config in configs.items() if config["algorithm"]["name"] == "solo"]

    def federation(label: str) -> list[Any]:
        config = configs[label]
        return [*(config.get(section) for section in SAME), config.get("evaluation", {}).get("validation")]

    others = [label for label in configs if label not in solo]
    twins = {label: [twin for twin in solo if federation(twin) == federation(label)] for label in others}
    return {label: alike[0] for label, alike in twins.items() if alike}
