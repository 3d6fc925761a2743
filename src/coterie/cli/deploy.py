"""``coterie deploy``: a federation of real machines, on Flower."""

from pathlib import Path
from typing import Annotated

import typer

from coterie.cli.options import command_group
from coterie.errors import Stopped, one_line

deploy = command_group("Run a federation on real machines, with Flower.")


@deploy.command(short_help="Write a Flower app: what the sites agree on, and a site's file.")
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
    typer.echo(
        f"Next: 'coterie deploy try {folder}' runs it on this machine, with the digits divided among three sites."
    )
    typer.echo(
        "With your own data: fill in [samples] of federation.toml, and a copy of site.toml in a folder for each site; "
        f"then try 'coterie deploy try {folder} --site site-1/site.toml --site site-2/site.toml'."
    )


@deploy.command(short_help="See whether a site's data fit, and what would leave it.")
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


@deploy.command(short_help="Print the identity that other sites list as their peer.")
def identity(site: Annotated[Path, typer.Argument(metavar="SITE", hidden=True)]) -> None:
    """Print the identity by which other sites know this one in secure sums; it is made if there is none yet.

    Send it to them by a way that the server has no hand in, for 'peers' in their site.toml.

    SITE: The site's file, site.toml.
    """
    from coterie.deploy.terms import read_site
    from coterie.engine.flower.identity import identity_secret, secret_of
    from coterie.secure.signatures import identity_of

    typer.echo(identity_of(identity_secret(secret_of(Path(read_site(site).state)))))


@deploy.command(short_help="Take part as a site.")
def join(
    site: Annotated[Path, typer.Argument(metavar="SITE", hidden=True)],
    superlink: Annotated[str, typer.Option(help="Where the server is.", metavar="HOST:PORT")],
    root_certificates: Annotated[
        Path | None, typer.Option(help="Certificate of the authority that signed the server's.")
    ] = None,
    key: Annotated[Path | None, typer.Option(help="This site's private key, whose public half is registered.")] = None,
    insecure: Annotated[bool, typer.Option("--insecure", help="Without encryption: for one machine only.")] = False,
) -> None:
    """Take part as a site: start its SuperNode, and say why if the server refuses it. Ctrl-C ends it.

    SITE: The site's file, site.toml.
    """
    from coterie.deploy.programs import join as run
    from coterie.deploy.terms import read_site

    read_site(site)
    run(site, superlink, certificates=root_certificates, key=key, insecure=insecure, say=typer.echo)


@deploy.command("try", short_help="Run server and sites on this machine, as a trial.")
def try_out(
    folder: Annotated[Path, typer.Argument(metavar="DIR", hidden=True)],
    sites: Annotated[int, typer.Option(help="How many sites share scikit-learn's digits.")] = 3,
    site: Annotated[
        list[Path] | None, typer.Option(help="Instead: the site.toml of a site with your own data; once per site.")
    ] = None,
    rounds: Annotated[int, typer.Option(help="Rounds of the trial.", min=1)] = 2,
    minutes: Annotated[float, typer.Option(help="Time limit.", min=0.1)] = 15.0,
    out: Annotated[Path | None, typer.Option(help="Where it writes; by default beside the app, DIR-trial.")] = None,
) -> None:
    """Try a federation on this machine: start server and sites with certificates and keys, run, show, stop all.

    DIR: The folder of the app; one that is not there is written first.
    """
    from coterie.cli.run import show
    from coterie.deploy.trial import try_out as run

    try:
        result = run(
            folder,
            out,
            site or [],
            count=sites,
            rounds=rounds,
            minutes=minutes,
            say=lambda line: typer.echo(one_line(line)),
        )
    except KeyboardInterrupt:
        raise Stopped("interrupted; all that the trial has started is stopped") from None
    show(result)
