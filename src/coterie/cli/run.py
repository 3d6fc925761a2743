"""``coterie run``: one method on one data set."""

from typing import Annotated, Any

import typer

from coterie.cli.config_flags import configuration, with_config_flags
from coterie.cli.interrupts import explain_interrupt
from coterie.cli.options import ConfigFile, Plot, Quiet, Set, picture_file
from coterie.cli.progress import ConsoleProgress
from coterie.run.config import to_toml
from coterie.run.result import Result

DIVERGED = 3
"""The exit code of a run whose numbers say nothing, since training diverged at most clients."""


@with_config_flags()
def run(
    config: ConfigFile = None,
    set: Set = None,
    print_config: Annotated[
        bool, typer.Option("--print-config", help="Write the full configuration; run nothing.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what would run, with an estimate of time, memory and megabytes.")
    ] = False,
    plot: Plot = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the run that --out holds.")] = False,
    quiet: Quiet = False,
    **flags: Any,
) -> None:
    """Run a federation: one method on one data set.

    Try:  coterie run --algorithm pacfl --dataset digits-rotated

    CONFIG: A TOML file, as --print-config writes it; flags override it.
    """
    drawn = picture_file(plot, overwrite)
    checked = configuration(config, set, flags)
    if print_config:
        typer.echo(to_toml(checked))
        return
    if dry_run:
        from coterie.run.dry_run import estimate

        typer.echo(estimate(checked).text())
        return
    from coterie.run.runner import start

    with explain_interrupt():
        result = start(checked, overwrite=overwrite, progress=ConsoleProgress(quiet))
    if not quiet:
        show(result)
    if drawn is not None:
        from coterie.report.figures import accuracy_plot
        from coterie.results.formats import data_title

        accuracy_plot(
            {result.algorithm: result.history}, f"{data_title(result.data)}, seed {result.seed}", drawn, result.metric
        )
        if not quiet:
            typer.echo(f"Plot: {drawn}")
    end_with(result.divergence)


def show(result: Result) -> None:
    """Print the table of a result, and where its files are."""
    from coterie.report.tables import result_table

    try:
        typer.echo(result.report())
    except OSError as error:  # the run is done: a picture that can't be drawn takes nothing from it
        typer.echo(result_table([result.to_json()]))
        typer.echo(f"coterie: the picture '{error.filename}' can't be written: {error.strerror}", err=True)
    typer.echo(f"Run folder: {result.folder}")


def end_with(divergence: str | None) -> None:
    """Where training diverged at most clients, say so in the last line, and end with a code of its own."""
    if divergence is not None:
        typer.echo(f"coterie: {divergence}", err=True)
        raise typer.Exit(DIVERGED)
