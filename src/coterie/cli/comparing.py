"""``coterie compare`` and ``coterie sweep``: every key of the configuration is a flag here too."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from coterie.cli.running import add_command, going_on, lay_over
from coterie.compare.design import Design, Protocol, comparing, parse_seeds, parse_variation, sweeping
from coterie.errors import CoterieError
from coterie.report.comparison import Format
from coterie.results.run_folder import unused
from coterie.run.toml import read_toml

if TYPE_CHECKING:
    from coterie.compare.comparison import Comparison

SHOWN = 3
"""Failures that the last line names."""

Configuration = Annotated[Path | None, typer.Argument(hidden=True)]
Set = Annotated[
    list[str] | None, typer.Option("--set", help="Any key, for instance algorithm.p=5.", metavar="SECTION.KEY=VALUE")
]
Seeds = Annotated[str | None, typer.Option("--seeds", help="One run of each per seed [0,1,2].", metavar="0,1,2")]
Baseline = Annotated[
    str | None, typer.Option("--baseline", help="Differences are taken to this one; by default the first.")
]
By = Annotated[Protocol | None, typer.Option("--protocol", help="What --tune and a plain --target mean [L].")]
Jobs = Annotated[int | None, typer.Option("--jobs", help="Runs at a time; by default one per core.", min=1)]
As = Annotated[Format, typer.Option("--format", help="Of the table that is printed.")]
PrintConfig = Annotated[bool, typer.Option("--print-config", help="Write what would be compared; run nothing.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Say what would run, with an estimate of the time.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but errors.")]


def compare(
    config: Configuration = None,
    algorithms: Annotated[
        str | None,
        typer.Option(
            "--algorithms",
            help="Methods, each with its own options and settings: fedavg,ifca:groups=4,lr=0.05,pacfl.",
            metavar="NAME,NAME",
        ),
    ] = None,
    seeds: Seeds = None,
    baseline: Baseline = None,
    protocol: By = None,
    tune: Annotated[
        list[str] | None,
        typer.Option(
            "--tune",
            help="Choose a setting for each method, on part of the clients' training samples. May be repeated.",
            metavar="lr=0.1,0.01",
        ),
    ] = None,
    tune_seeds: Annotated[
        str | None, typer.Option("--tune-seeds", help="Seeds to choose on; by default the first.", metavar="0")
    ] = None,
    tune_share: Annotated[
        float | None,
        typer.Option("--tune-share", help="Share of the training samples to choose on [0.2].", metavar="X"),
    ] = None,
    jobs: Jobs = None,
    format: As = "text",
    set: Set = None,
    print_config: PrintConfig = False,
    dry_run: DryRun = False,
    quiet: Quiet = False,
    **flags: Any,
) -> None:
    """Compare methods over seeds: same data, same initial models, same cohorts.

    CONFIG: A TOML file as for 'coterie run', with [methods.NAME] for settings of one method; or a comparison.toml.

    The same command, or 'coterie resume FOLDER', goes on after any interruption; finished runs are not run again.
    """
    if config is not None and "comparison" in read_toml(config):
        settled = {"algorithms": algorithms, "tune": tune, "tune_seeds": tune_seeds, "tune_share": tune_share}
        design = _stored(config, seeds, baseline, protocol, set or [], flags, **settled)
    else:
        tables = {} if config is None else read_toml(config)
        methods = tables.pop("methods", {})
        if not isinstance(methods, dict) or not all(isinstance(table, dict) for table in methods.values()):
            raise CoterieError(f"[methods] of {config} should hold a table for each method, like [methods.pacfl]")
        lay_over(tables, set or [], flags)
        if algorithms is None:
            raise CoterieError("name the methods to compare, for instance --algorithms fedavg,pacfl")
        design = comparing(
            tables,
            algorithms,
            _seeds(seeds),
            methods=methods,
            baseline=baseline,
            protocol=protocol or "L",
            tune=_variations(tune or [], "--tune"),
            tune_seeds=parse_seeds(tune_seeds) if tune_seeds else (),
            tune_share=0.2 if tune_share is None else tune_share,
        )
    _go(design, flags, jobs, format, print_config, dry_run, quiet)


def sweep(
    config: Configuration = None,
    vary: Annotated[
        list[str] | None,
        typer.Option(
            "--vary", help="A key and its values; repeated, all combinations are run.", metavar="SECTION.KEY=X,Y"
        ),
    ] = None,
    seeds: Seeds = None,
    baseline: Baseline = None,
    protocol: By = None,
    jobs: Jobs = None,
    format: As = "text",
    set: Set = None,
    print_config: PrintConfig = False,
    dry_run: DryRun = False,
    quiet: Quiet = False,
    **flags: Any,
) -> None:
    """Run one method with several values of some settings, over seeds.

    CONFIG: A TOML file as for 'coterie run'; or a comparison.toml.

    The same command, or 'coterie resume FOLDER', goes on after any interruption; finished runs are not run again.
    """
    if config is not None and "comparison" in read_toml(config):
        design = _stored(config, seeds, baseline, protocol, set or [], flags, vary=vary)
    else:
        tables = {} if config is None else read_toml(config)
        lay_over(tables, set or [], flags)
        if not vary:
            raise CoterieError("name what to vary, for instance --vary grouping.threshold=2,4,8")
        values = _variations(vary, "--vary")
        design = sweeping(tables, values, _seeds(seeds), baseline=baseline, protocol=protocol or "L")
    _go(design, flags, jobs, format, print_config, dry_run, quiet)


def go_on(folder: Path, quiet: bool) -> None:
    """Go on with a comparison that was interrupted."""
    from coterie.compare.comparison import FILE

    _go(Design.read(folder / FILE), {"out": str(folder)}, None, "text", False, False, quiet)


def add_comparing_commands(app: typer.Typer) -> None:
    """Enter `compare` and `sweep` with a flag for every key of the configuration that they leave open."""
    add_command(app, compare, without=("algorithm.name", "run.seed"))
    add_command(app, sweep, without=("run.seed",))


def _go(
    design: Design, flags: dict[str, Any], jobs: int | None, format: Format, printing: bool, dry: bool, quiet: bool
) -> None:
    """Run a design and print its table; at the end say which runs failed."""
    if printing:
        typer.echo(design.to_toml())
        return
    if dry:
        _say_estimate(design, jobs)
        return
    from coterie.cli.batch_progress import make_batch_progress
    from coterie.compare.comparison import run_design

    first = design.config(next(iter(design.cells)), design.seeds[0])
    out = Path(flags.get("out") or unused(f"{design.kind}-{Path(first.data.name).stem}"))
    with going_on():
        comparison = run_design(design, out, jobs=jobs, progress=make_batch_progress(quiet))
    if not quiet:
        typer.echo(comparison.table().render(format), nl=False)
        if format == "text":
            typer.echo(f"Folder: {out}")
    if comparison.failed:
        raise CoterieError(_failures(comparison))


def _failures(comparison: Comparison) -> str:
    failed, design = comparison.failed, comparison.design
    named = "; ".join(f"{label}, seed {seed}: {why}" for (label, seed), why in [*failed.items()][:SHOWN])
    more = f"; and {len(failed) - SHOWN} more" if len(failed) > SHOWN else ""
    return (
        f"{len(failed)} of {len(design.cells) * len(design.seeds)} runs failed ({named}{more}): tracebacks are in "
        f"files named *.error.txt under {comparison.folder}; the same command tries them again"
    )


def _stored(
    file: Path,
    seeds: str | None,
    baseline: str | None,
    protocol: Protocol | None,
    settings: list[str],
    flags: Any,
    **settled: object,
) -> Design:
    """Take a design from a file; flags change its base, but not what it has settled."""
    if given := [f"--{name.replace('_', '-')}" for name, value in settled.items() if value not in (None, [])]:
        raise CoterieError(f"'{file}' says already what to compare: leave out {' and '.join(given)}")
    design = Design.read(file)
    base = {section: dict(table) for section, table in design.base.items()}
    lay_over(base, settings, flags)
    return design.changed(base, parse_seeds(seeds) if seeds else None, baseline, protocol)


def _seeds(text: str | None) -> list[int]:
    return parse_seeds("0,1,2" if text is None else text)


def _variations(texts: list[str], flag: str) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = {}
    for text in texts:
        key, values = parse_variation(text, flag)
        if key in found:
            raise CoterieError(f"{flag} names {key} twice: write {flag} {key}=one,two")
        found[key] = values
    return found


def _say_estimate(design: Design, jobs: int | None) -> None:
    """Say how many runs there would be and how long they would take, as far as that is known already."""
    import os

    from coterie.run.dry_run import estimate

    jobs, total = jobs or os.cpu_count() or 1, 0.0
    typer.echo("Would run")
    for label, changes in design.cells.items():
        tries = len(design.tuning.tries(changes)) * len(design.tuning.seeds)
        config = design.config(label, design.seeds[0], more={"engine.workers": 1})
        each = estimate(config).seconds
        total += each * (len(design.seeds) + tries)
        tuning = f" and {tries} to choose settings" if tries else ""
        typer.echo(f"  {label}: {len(design.seeds)} runs{tuning}, each about {_minutes(each)}")
    typer.echo(f"  in all about {_minutes(total / jobs)}, {jobs} at a time")


def _minutes(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s"
