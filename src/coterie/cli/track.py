"""``coterie track``: finished runs in TensorBoard, MLflow or Weights & Biases."""

from pathlib import Path
from typing import Annotated, Literal

import typer


def track(
    paths: Annotated[list[Path], typer.Argument(metavar="RUN...", hidden=True)],
    to: Annotated[
        Literal["tensorboard", "mlflow", "wandb"],
        typer.Option("--to", help="Which tracker; its package is an extra, coterie[mlflow] and so on."),
    ],
    folder: Annotated[
        Path | None,
        typer.Option(help="Where to write, for instance one store for all runs; by default each run's own folder."),
    ] = None,
) -> None:
    """Log finished runs to a tracker: settings, every row of metrics.jsonl, and the final accuracies.

    RUN...: Run folders, or folders of comparisons or sweeps, of which all runs are tracked together. What the tracker
    already has of a run is replaced. Nothing is sent over a network: W&B runs are offline.
    """
    from coterie.tracking import track_folders

    names = track_folders(paths, to, folder)
    typer.echo(f"Tracked by {to}: {', '.join(names[:5])}" + (f" and {len(names) - 5} more" if len(names) > 5 else ""))
