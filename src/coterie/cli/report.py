"""``coterie report``: a page to look at, and to send to a colleague."""

from pathlib import Path
from typing import Annotated

import typer

from coterie.cli.options import Plot, picture_file


def report(
    paths: Annotated[list[Path], typer.Argument(metavar="PATH...", hidden=True)],
    out: Annotated[Path, typer.Option(help="The file; report.html by default.", show_default=False)] = Path(
        "report.html"
    ),
    plot: Plot = None,
    figure: Annotated[
        str | None,
        typer.Option(help="Which chart --plot draws, by its name in --figures.", metavar="NAME"),
    ] = None,
    figures: Annotated[Path | None, typer.Option(help="Also write every chart into this folder.")] = None,
    formats: Annotated[
        str, typer.Option(help="Formats of the charts in --figures; png,svg,pdf by default.", show_default=False)
    ] = "png,svg,pdf",
) -> None:
    """Make one HTML file of runs, a comparison, a sweep or a reproduction; it opens offline.

    PATH...: Run folders: with one of 'solo' on the same data and seed among them, the page says who gains and loses; or
    the folder of a comparison or sweep; or folders of reproductions.
    """
    from coterie.errors import CoterieError
    from coterie.files import make_folder, write_whole
    from coterie.report.folders import make_page
    from coterie.report.page import render
    from coterie.report.static import check_formats, save, save_one

    if figure is not None and plot is None:
        raise CoterieError(f"--figure says which chart --plot draws: add --plot {figure}.pdf")
    kinds = check_formats([kind.strip() for kind in formats.split(",") if kind.strip()])
    if out.is_dir():
        raise CoterieError(f"'{out}' is a folder: name a file, for instance --out {out / 'report.html'}")
    drawn = picture_file(plot)
    page = make_page(paths)
    named = None if drawn is None else save_one(page, drawn, figure)
    make_folder(out.parent)
    write_whole(out, render(page).encode(errors="replace"), "nothing")
    typer.echo(f"Page: {out}")
    if drawn is not None:
        typer.echo(f"Plot: {drawn} ({named})")
    if figures is not None:
        files = save(page, figures, kinds)
        typer.echo(f"Figures: {len(files)} files in {figures}")
