"""``coterie resume``: go on after any interruption."""

import typer

from coterie.cli.designs import execute
from coterie.cli.interrupts import explain_interrupt
from coterie.cli.options import Plugins, Quiet, RunArgument, Trust
from coterie.cli.progress import ConsoleProgress
from coterie.cli.run import end_with, show
from coterie.compare.design import Design
from coterie.results.comparison_folder import ComparisonFolder
from coterie.results.run_folder import RunFolder
from coterie.run.plugins import Permission


def resume(folder: RunArgument, plugin: Plugins = None, trust: Trust = False, quiet: Quiet = False) -> None:
    """Go on with a run, or a comparison, after any interruption.

    RUN: Run folder, or the folder of a comparison or sweep.
    """
    permission = Permission(tuple(plugin or ()), trust)
    comparison = ComparisonFolder(folder)
    if comparison.exists:
        design = Design.read(comparison.plan_file).permitted(permission, comparison.plan_file)
        execute(design, str(folder), quiet=quiet)
        return
    from coterie.run import runner

    finished = RunFolder.open(folder).finished
    with explain_interrupt():
        result = runner.resume(folder, ConsoleProgress(quiet), permission)
    if finished and not quiet:
        typer.echo(f"{folder} is finished; nothing to do.")
    elif not quiet:
        show(result)
    if not finished:
        end_with(result.divergence)
