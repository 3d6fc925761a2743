"""Where numbers on a page come from: versions, configurations, and commands that make them again."""

import shlex
from collections.abc import Sequence
from pathlib import Path

from coterie.results.charts import Block, Code, Section, Table
from coterie.results.comparison_folder import PLAN
from coterie.results.comparisons import StoredComparison
from coterie.results.run_folder import CONFIG
from coterie.results.runs import StoredRun

HEADING = "Configuration and versions"
SIMULATED = (
    "The configuration is complete: saved as a file, it reruns the run on another machine that has the data. The same "
    "seed gives the same numbers, but for times."
)
DEPLOYED = (
    "For a federation of real machines the configuration holds what the sites agreed on. Their data stay with them: "
    "`flwr run` with the app of the federation runs it again."
)


def origin_of_runs(runs: Sequence[StoredRun]) -> Section:
    """Show with what, and how, runs were made."""
    blocks, _ = _versions([(run.name, run) for run in runs], "run")
    for run in runs:
        suffix = f" ({run.name})"
        blocks += [] if run.sites else [_again("run", run.path / CONFIG, suffix)]
        blocks.append(_file(CONFIG, run.config_text, suffix))
    texts = dict.fromkeys(DEPLOYED if run.sites else SIMULATED for run in runs)
    return Section(heading=HEADING, text=tuple(texts), blocks=tuple(blocks))


def origin_of_comparison(compared: StoredComparison) -> Section:
    """Show with what, and how, a comparison or a sweep was made."""
    blocks, mixed = _versions(compared.all_runs(), "runs of")
    command = "sweep" if compared.sweep else "compare"
    blocks += [_again(command, compared.path / PLAN), _file(PLAN, compared.plan.to_toml())]
    return Section(
        heading=HEADING,
        text=(
            "`comparison.toml` is what was asked for; each run folder holds its complete `config.toml`. The same seeds "
            "give the same numbers, but for times.",
            *(["The runs were made by different versions of programs."] if mixed else []),
        ),
        blocks=tuple(blocks),
    )


def _versions(named: Sequence[tuple[str, StoredRun]], heading: str) -> tuple[list[Block], bool]:
    """Return a table of versions, a row for all that have the same, and whether programs differ."""
    results = [(name, run.result) for name, run in named if run.result]
    programs = list(dict.fromkeys(program for _, result in results for program in result.get("versions", {})))
    alike: dict[tuple[str, ...], list[str]] = {}
    for name, result in results:
        versions = [str(result.get("versions", {}).get(program, "")) for program in programs]
        alike.setdefault((*versions, str(result.get("trainer", "")), str(result.get("engine", ""))), []).append(name)
    if not alike:
        return [], False
    all_alike = len(alike) == 1 and len(results) > 1
    table = Table(
        title="Versions",
        columns=(heading, *programs, "trainer", "engine"),
        rows=tuple(("all" if all_alike else ", ".join(dict.fromkeys(names)), *row) for row, names in alike.items()),
    )
    return [table], len({row[:-2] for row in alike}) > 1


def _again(command: str, file: Path, suffix: str = "") -> Code:
    text = f"coterie {command} {shlex.quote(str(file))} --out runs/again"
    return Code(title=f"The command that reruns it{suffix}", text=text)


def _file(name: str, text: str, suffix: str = "") -> Code:
    return Code(title=f"{name}{suffix}", text=text.rstrip("\n"))
