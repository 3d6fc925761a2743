"""What ``coterie compare`` and ``coterie sweep`` share: running a design of many runs, and reading one from a file."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from coterie.cli.config_flags import lay_over
from coterie.cli.interrupts import explain_interrupt
from coterie.cli.progress import ConsoleBatchProgress
from coterie.cli.run import end_with
from coterie.compare.design import Design
from coterie.compare.make_design import parse_variation
from coterie.errors import CoterieError, counted
from coterie.results.comparison_table import heading_of
from coterie.results.formats import AS_IT_IS, TableFormat, TableOptions
from coterie.results.protocols import ComparedProtocol
from coterie.results.run_folder import unused
from coterie.run.values import parse_seeds, split_list

SHOWN = 3
"""Failures that the last line names."""

Seeds = Annotated[str | None, typer.Option("--seeds", help="One run of each per seed [0-2].", metavar="0-4,7")]
Baseline = Annotated[
    str | None, typer.Option("--baseline", help="Method that the others are compared with; by default the first.")
]
By = Annotated[
    ComparedProtocol | None,
    typer.Option("--protocol", help="Protocol for pictures, tuning and a plain --target [L].", case_sensitive=False),
]
As = Annotated[TableFormat, typer.Option("--format", help="Format of the printed table.")]
Columns = Annotated[
    str | None,
    typer.Option("--columns", help="Columns of the printed table, for instance L,C,groups.", metavar="NAME,NAME"),
]
Caption = Annotated[
    str | None, typer.Option("--caption", help="Caption of the LaTeX table, instead of ours.", metavar="TEXT")
]
Label = Annotated[
    str | None, typer.Option("--label", help="Label of the LaTeX table, for references.", metavar="tab:NAME")
]
PValues = Annotated[bool, typer.Option("--p-values", help="Columns of p values in the LaTeX table.")]
PrintConfig = Annotated[bool, typer.Option("--print-config", help="Write what would be compared; run nothing.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Say what would run, with an estimate of the time.")]


def execute(
    design: Design,
    out: str | None,
    jobs: int | None = None,
    format: TableFormat = "text",
    print_config: bool = False,
    dry_run: bool = False,
    quiet: bool = False,
    trust: bool = False,
    options: TableOptions = AS_IT_IS,
    plot: Path | None = None,
) -> None:
    """Run a design and print its table; at the end say which runs failed."""
    for name in options.columns:
        heading_of(name)  # refuses an unknown one before anything is run
    if print_config:
        typer.echo(design.to_toml())
        return
    if dry_run:
        _print_estimate(design, jobs)
        return
    from coterie.compare.batch import run_design

    first = design.config(next(iter(design.cells)), design.seeds[0])
    folder = Path(out or unused(f"{design.kind}-{Path(first.data.name).stem}"))
    with explain_interrupt():
        comparison = run_design(design, folder, jobs=jobs, progress=ConsoleBatchProgress(quiet), trust=trust)
    if not quiet:
        typer.echo(comparison.table().report(format, options), nl=False)
        if format == "text":
            typer.echo(f"Folder: {folder}")
    if plot is not None:
        _draw(design, folder, plot, quiet)
    if comparison.failed:
        raise CoterieError(_failures(design, comparison.failed, folder))
    results = [result for by_seed in comparison.results.values() for result in by_seed.values()]
    if all(result.divergence for result in results):
        end_with(f"training diverged at most clients in all {len(results)} runs: most often --lr is too high")


def table_options(
    format: str, columns: str | None, caption: str | None, label: str | None, p_values: bool = False
) -> TableOptions:
    """Read how the table is to be written, before anything is run."""
    for_latex = {"--caption": caption is not None, "--label": label is not None, "--p-values": p_values}
    if format != "latex" and any(for_latex.values()):
        flag = next(flag for flag, given in for_latex.items() if given)
        raise CoterieError(f"{flag} is for LaTeX: add --format latex, or leave it out")
    if format == "csv" and columns is not None:
        raise CoterieError("--columns is not for CSV, which has all of them: leave it out, or take another --format")
    return TableOptions(tuple(split_list(columns)) if columns else (), caption, label, p_values)


def stored_design(
    file: Path,
    seeds: str | None,
    baseline: str | None,
    protocol: ComparedProtocol | None,
    settings: list[str] | None,
    flags: Any,
    **settled: object,
) -> Design:
    """Take a design from a file; flags change its base, but not what it has settled."""
    if superfluous := [f"--{name.replace('_', '-')}" for name, value in settled.items() if value not in (None, [])]:
        raise CoterieError(f"'{file}' says already what to compare: leave out {' and '.join(superfluous)}")
    design = Design.read(file)
    base = {section: dict(table) for section, table in design.base.items()}
    lay_over(base, settings, flags)
    return design.changed(base, parse_seeds(seeds) if seeds else None, baseline, protocol)


def read_variations(texts: list[str] | None, flag: str) -> dict[str, list[Any]]:
    """Read what a flag that may be repeated says: keys, and the values of each."""
    variations: dict[str, list[Any]] = {}
    for text in texts or []:
        key, values = parse_variation(text, flag)
        if key in variations:
            raise CoterieError(f"{flag} names {key} twice: write {flag} {key}=one,two")
        variations[key] = values
    return variations


def _draw(design: Design, folder: Path, plot: Path, quiet: bool) -> None:
    """Draw the metric under the protocol, over rounds or over the values of a sweep; else the page's first figure."""
    from coterie.report.folders import make_page
    from coterie.report.static import figures, save_one

    page = make_page([folder])
    over = {"compare": "rounds", "sweep": "the-values"}[design.kind]
    wanted = f"-over-{over}-{design.protocol.lower()}"  # behind the metric
    name = save_one(page, plot, next((name for name in figures(page) if name.endswith(wanted)), None))
    if not quiet:
        typer.echo(f"Plot: {plot} ({name})", err=True)


def _failures(design: Design, failed: Mapping[tuple[str, int], str], folder: Path) -> str:
    named = "; ".join(f"{label}, seed {seed}: {why}" for (label, seed), why in [*failed.items()][:SHOWN])
    more = f"; and {len(failed) - SHOWN} more" if len(failed) > SHOWN else ""
    return (
        f"{len(failed)} of {len(design.cells) * len(design.seeds)} runs failed ({named}{more}): tracebacks are in "
        f"files named *.error.txt under {folder}; the same command tries them again"
    )


def _print_estimate(design: Design, jobs: int | None) -> None:
    """Say how many runs there would be, and about how long they would take."""
    from coterie.run.dry_run import estimate

    jobs, total = jobs or os.cpu_count() or 1, 0.0
    typer.echo("Would run")
    for label, changes in design.cells.items():
        tries = len(design.tuning.tries(changes)) * len(design.tuning.seeds)
        config = design.config(label, design.seeds[0], more={"engine.workers": 1})
        seconds = estimate(config).seconds
        total += seconds * (len(design.seeds) + tries)
        tuning = f" and {tries} to choose settings" if tries else ""
        typer.echo(f"  {label}: {counted(len(design.seeds), 'run')}{tuning}, each about {_minutes(seconds)}")
    typer.echo(f"  in all about {_minutes(total / jobs)}, {jobs} at a time")


def _minutes(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s"
