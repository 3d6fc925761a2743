"""``coterie export``: a model as a file."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from coterie.cli.options import Group, Overwrite, Plugins, RunArgument, Trust, WhoseModel


def export(
    folder: RunArgument,
    group: Group = None,
    client: WhoseModel = None,
    format: Annotated[
        Literal["safetensors", "onnx"] | None,
        typer.Option(help="File format; by default as --out ends, or safetensors.", case_sensitive=False),
    ] = None,
    compact: Annotated[
        bool, typer.Option("--compact", help="Remove dead channels and units: a smaller network with the same outputs.")
    ] = False,
    out: Annotated[
        Path | None, typer.Option(help="The file; by default named after the group or client, in the run folder.")
    ] = None,
    overwrite: Overwrite = False,
    plugin: Plugins = None,
    trust: Trust = False,
) -> None:
    """Save a trained model as a file, to use without Coterie.

    RUN: Run folder.
    """
    from coterie.run.export import export as write

    _, summary = write(
        folder,
        out,
        client=client,
        group=group,
        format=format,
        smaller=compact,
        overwrite=overwrite,
        plugins=plugin or (),
        trust=trust,
    )
    typer.echo(summary)
