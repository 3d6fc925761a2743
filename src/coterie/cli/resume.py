"""``coterie resume``: go on after any interruption."""

import typer

from coterie.cli.options import Quiet, RunArgument


def resume(folder: RunArgument, quiet: Quiet = False) -> None:
    """Go on with a run, or a comparison, after any interruption.

    RUN: Run folder, or the folder of a comparison or sweep.
    """
    from coterie.results.comparison_folder import ComparisonFolder

    if ComparisonFolder(folder).exists:
        from coterie.cli.designs import resume_design

        resume_design(folder, quiet)
        return
    from coterie.cli.interrupts import explain_interrupt
    from coterie.cli.progress import make_progress
    from coterie.cli.run import show
    from coterie.results.run_folder import RunFolder
    from coterie.run.runner import resume as go_on

    finished = RunFolder.open(folder).finished
    with explain_interrupt():
        result = go_on(folder, make_progress(quiet))
    if quiet:
        return
    if finished:
        typer.echo(f"{folder} is finished; nothing to do.")
    else:
        show(result)
