"""``coterie layers``: how alike clients' models are, layer by layer."""

from pathlib import Path
from typing import Annotated

import typer

from coterie.cli.options import Overwrite, Plugins, Quiet, Trust
from coterie.cli.studies import AsJson, check_out, show


def layers(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN...", hidden=True)],
    layers: Annotated[
        str | None, typer.Option(help="Some layers, for instance conv1,fc1; by default all with parameters.")
    ] = None,
    inputs: Annotated[int, typer.Option(help="How many test samples the models are given.")] = 500,
    out: Annotated[Path | None, typer.Option(help="Write numbers and pictures into this folder.")] = None,
    overwrite: Overwrite = False,
    as_json: AsJson = False,
    plugin: Plugins = None,
    trust: Trust = False,
    quiet: Quiet = False,
) -> None:
    """Show how similar clients' models are, layer by layer, on the same test samples.

    RUN...: Run folders, for instance of one data set under several partitions.
    """
    from coterie.cli.interrupts import explain_interrupt
    from coterie.cli.progress import ConsoleProgress
    from coterie.studies.layers import NUMBERS, study

    check_out(out, NUMBERS, overwrite)
    with explain_interrupt():
        comparison = study(
            runs, layers=layers, inputs=inputs, progress=ConsoleProgress(quiet), plugins=plugin or (), trust=trust
        )
    show(comparison, out, as_json, quiet, overwrite)
