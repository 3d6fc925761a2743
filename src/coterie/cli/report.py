"""``coterie report``: a page to look at, and to send to a colleague."""

from pathlib import Path
from typing import Annotated

import typer

from coterie.cli.options import Overwrite, Plot, picture_file
from coterie.errors import counted


def report(
    paths: Annotated[list[Path], typer.Argument(metavar="PATH...", hidden=True)],
    out: Annotated[
        Path | None, typer.Option(help="The file; by default report.html in the folder, if there is one.")
    ] = None,
    plot: Plot = None,
    figure: Annotated[
        str | None,
        typer.Option(help="Which chart --plot draws, by its name in --figures.", metavar="NAME"),
    ] = None,
    figures: Annotated[Path | None, typer.Option(help="Also write every chart into this folder.")] = None,
    formats: Annotated[
        str, typer.Option(help="Formats of the charts in --figures; png,svg,pdf by default.", show_default=False)
    ] = "png,svg,pdf",
    overwrite: Overwrite = False,
) -> None:
    """Make one HTML file of runs, a comparison, a sweep or a reproduction; it opens offline.

    PATH...: Run folders: with one of 'solo' on the same data and seed among them, the page says who gains and loses; or
    the folder of a comparison or sweep; or folders of reproductions.
    """
    from coterie.errors import CoterieError
    from coterie.report.folders import make_page, write_page
    from coterie.report.picture_files import check_formats
    from coterie.report.static import save, save_one
    from coterie.run.values import split_names

    if figure is not None and plot is None:
        raise CoterieError(f"--figure says which chart --plot draws: add --plot {figure}.pdf")
    kinds, drawn = check_formats(split_names(formats)), picture_file(plot, overwrite)
    page = make_page(paths)
    files = [] if figures is None else save(page, figures, kinds, overwrite)
    named = None if drawn is None else save_one(page, drawn, figure)
    typer.echo(f"Page: {write_page(page, paths, out, overwrite)}")
    if drawn is not None:
        typer.echo(f"Plot: {drawn} ({named})")
    if figures is not None:
        typer.echo(f"Figures: {counted(len(files), 'file')} in {figures}")
