"""``coterie resume``: go on after any interruption."""

from typing import Annotated

import typer

from coterie.cli.designs import execute
from coterie.cli.interrupts import explain_interrupt
from coterie.cli.options import Plugins, Quiet, RunArgument, Trust
from coterie.cli.progress import ConsoleProgress
from coterie.cli.run import end_with, show
from coterie.compare.design import Design
from coterie.errors import CoterieError
from coterie.results.comparison_folder import ComparisonFolder
from coterie.results.run_folder import RunFolder
from coterie.run.plugins import Permission


def resume(
    folder: RunArgument,
    rounds: Annotated[
        int | None,
        typer.Option(
            help="Continue to this round, even if the run is finished: the numbers are those of a run that was started "
            "with this many."
        ),
    ] = None,
    admit: Annotated[
        list[str] | None,
        typer.Option(
            help="Data of clients that join after training, a file or folder: one client, one for each user "
            "in it, or one for each .npz file of a folder. The method places them; they fine-tune what they receive.",
            metavar="DATA",
        ),
    ] = None,
    plugin: Plugins = None,
    trust: Trust = False,
    quiet: Quiet = False,
) -> None:
    """Continue a run or a comparison after any interruption; give a finished run more rounds or more clients.

    RUN: Run folder, or the folder of a comparison or sweep.
    """
    permission = Permission(tuple(plugin or ()), trust)
    comparison = ComparisonFolder(folder)
    if comparison.exists:
        if rounds is not None or admit:
            raise CoterieError(
                f"'{folder}' is a comparison, whose runs are alike: --rounds and --admit are for a single run; compare "
                "again with them, and another --out"
            )
        design = Design.read(comparison.plan_file).permitted(permission, comparison.plan_file)
        execute(design, str(folder), quiet=quiet)
        return
    from coterie.run import runner
    from coterie.run.result import Result

    finished = RunFolder.open(folder).finished and not admit and rounds in (None, Result.load(folder).rounds)
    with explain_interrupt():
        result = runner.resume(folder, ConsoleProgress(quiet), permission, rounds, admit or ())
    if finished and not quiet:
        typer.echo(f"{folder} is finished; nothing to do.")
    elif not quiet:
        show(result)
    if not finished:
        end_with(result.divergence)
