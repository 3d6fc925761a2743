"""``coterie predict``: labels from a trained model."""

from pathlib import Path
from typing import Annotated

import typer

from coterie.cli.options import Group, Overwrite, Plugins, RunArgument, Trust, WhoseModel


def predict(
    folder: RunArgument,
    inputs: Annotated[Path, typer.Argument(hidden=True)],
    group: Group = None,
    client: WhoseModel = None,
    resize: Annotated[
        bool,
        typer.Option("--resize", help="Crop images to the middle square and scale them to the size of training."),
    ] = False,
    out: Annotated[Path | None, typer.Option(help="Write the predictions to this .csv or .npz file.")] = None,
    overwrite: Overwrite = False,
    plugin: Plugins = None,
    trust: Trust = False,
) -> None:
    """Label samples with a trained model.

    RUN: Run folder.

    INPUTS: A .npz file with the inputs as 'x', and perhaps labels as 'y'; a table (CSV, Parquet) with the columns that
    the run was trained on; an image; or a folder of images.
    """
    from coterie.run.export import predict as predict_labels

    made = predict_labels(
        folder,
        inputs,
        client,
        out,
        group=group,
        resize=resize,
        overwrite=overwrite,
        plugins=plugin or (),
        trust=trust,
    )
    if out is None:
        typer.echo("\n".join(made.lines()))
    typer.echo(made.summary, err=True)
