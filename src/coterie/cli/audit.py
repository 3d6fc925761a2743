"""``coterie audit``: what a server could learn from what clients sent."""

from pathlib import Path
from typing import Annotated

import typer

from coterie.audit import CLIENTS, CONFIDENCE
from coterie.cli.designs import As
from coterie.cli.options import Overwrite, Plugins, Quiet, Trust, picture_file
from coterie.cli.studies import AsJson, check_out

DISPROVED = 4
"""The exit code where an attack disproves what a run claims."""


def audit(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN...", hidden=True)],
    clients: Annotated[int, typer.Option(help="How many clients are attacked at most, drawn by the seed.")] = CLIENTS,
    confidence: Annotated[float, typer.Option(help="By which bounds of ε are shown.")] = CONFIDENCE,
    format: As = "text",
    out: Annotated[Path | None, typer.Option(help="Write numbers and a picture into this folder.")] = None,
    plot: Annotated[
        Path | None, typer.Option(help="Draw the attacks into this file: .pdf, .svg or .png.", metavar="FILE")
    ] = None,
    overwrite: Overwrite = False,
    as_json: AsJson = False,
    plugin: Plugins = None,
    trust: Trust = False,
    quiet: Quiet = False,
) -> None:
    """Attack what clients sent, as a server could, and compare with the privacy that the run claims.

    RUN...: Run folders of simulations; the data set is read again. With a private run and one without, both are in the
    table.

    Ends with code 4 where an attack disproves a claim.
    """
    import json

    from coterie.audit.auditing import audit_runs
    from coterie.audit.findings import NUMBERS
    from coterie.cli.interrupts import explain_interrupt
    from coterie.cli.progress import ConsoleProgress
    from coterie.run.plugins import Permission

    drawn = picture_file(plot, overwrite)
    check_out(out, NUMBERS, overwrite)
    with explain_interrupt():
        found = audit_runs(
            runs,
            clients=clients,
            confidence=confidence,
            permission=Permission(tuple(plugin or ()), trust),
            progress=ConsoleProgress(quiet),
        )
    if as_json:
        typer.echo(json.dumps(found.to_json()))
    elif not quiet:
        typer.echo(found.report(format), nl=False)
    if drawn is not None:
        from coterie.report.audit import audit_chart
        from coterie.report.picture_files import write_picture
        from coterie.report.static import paint

        write_picture(paint(audit_chart(found.to_json())), drawn)
    written = found.save(out, overwrite) if out is not None else []
    if (written or drawn) and not (quiet or as_json):
        typer.echo(f"Written: {', '.join(str(path) for path in [*written, *([drawn] if drawn else [])])}")
    for line in found.broken:
        typer.echo(f"coterie: {line}", err=True)
    if found.broken:
        raise typer.Exit(DISPROVED)
