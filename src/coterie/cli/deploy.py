"""``coterie deploy``: a federation of real machines, on Flower."""

from pathlib import Path
from typing import Annotated

import typer

from coterie.cli.options import command_group
from coterie.errors import one_line

deploy = command_group("Run a federation on real machines, with Flower.")


@deploy.command()
def init(
    folder: Annotated[Path, typer.Argument(metavar="DIR", hidden=True)],
    name: Annotated[str | None, typer.Option(help="Name of the federation; by default the folder's.")] = None,
) -> None:
    """Write a ready Flower app: what the sites agree on, a site's own file, and the two apps.

    DIR: A new folder.
    """
    from coterie.deploy.app_folder import init as write

    for file in write(folder, name):
        typer.echo(file)
    typer.echo("Next: fill in federation.toml and each site's site.toml; docs/deploy.md says how to start them.")


@deploy.command()
def check(
    folder: Annotated[Path, typer.Argument(metavar="DIR", hidden=True)],
    site: Annotated[Path | None, typer.Option(help="The site's file; by default site.toml in DIR.")] = None,
) -> None:
    """Tell a site, before it joins, whether its data fit and what would leave it.

    DIR: The folder of the app.
    """
    from coterie.deploy.preview import check as inspect

    for line in inspect(folder, site):
        typer.echo(one_line(line))
