"""``coterie cluster``: the groups of a method, without training."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from coterie.cli.config_flags import configuration, with_config_flags
from coterie.cli.interrupts import explain_interrupt
from coterie.cli.options import ConfigFile, Overwrite, Quiet, Set
from coterie.cli.progress import ConsoleProgress


@with_config_flags()
def cluster(
    config: ConfigFile = None,
    set: Set = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the groups as JSON.")] = False,
    overwrite: Overwrite = False,
    quiet: Quiet = False,
    **flags: Any,
) -> None:
    """Form the groups of a method without training, and show them; the flags are those of 'coterie run'.

    CONFIG: A TOML file, as 'coterie run --print-config' writes it; flags override it.

    With --out, pictures are written into that folder: the proximities, the tree with the cut, and the number of
    groups against the threshold, as PNG and SVG.
    """
    from coterie.run.cluster import DEFAULT, form_groups

    checked = configuration(config, set, flags, {"algorithm": {"name": DEFAULT}})
    with explain_interrupt():
        groups = form_groups(checked, ConsoleProgress(quiet))
    pictures = [] if checked.run.out is None else groups.save(Path(checked.run.out), overwrite)
    if as_json:
        typer.echo(json.dumps(groups.to_json()))
    elif not quiet:
        typer.echo(groups.report())
        if groups.ari is not None:
            typer.echo(f"Agreement with the true groups (ARI): {groups.ari:.3f}")
        typer.echo(f"Sent by clients: {groups.up_bytes / 1e6:.2f} MB")
    for client, why in groups.missing.items():
        typer.echo(f"coterie: client {client} {why}: it is in no group", err=True)
    for client, group in groups.uncompared.items():
        typer.echo(
            f"coterie: client {client} has too few samples of each label to be compared: it joins the largest group, "
            f"{group}",
            err=True,
        )
    if checked.run.out is not None and not quiet and not as_json:
        png_files = ", ".join(str(path) for path in pictures if path.suffix == ".png")
        typer.echo(f"Pictures: {png_files or 'none, since no tree of merges led to these groups'}")
