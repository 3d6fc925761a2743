"""``coterie report``: a page to look at, and to send to a colleague."""

from pathlib import Path
from typing import Annotated

import typer


def report(
    paths: Annotated[list[Path], typer.Argument(metavar="PATH...", hidden=True)],
    out: Annotated[Path, typer.Option(help="The file; report.html by default.", show_default=False)] = Path(
        "report.html"
    ),
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
    from coterie.report.static import check_formats, save
    from coterie.run.values import split_names

    kinds = check_formats(split_names(formats))
    if out.is_dir():
        raise CoterieError(f"'{out}' is a folder: name a file, for instance --out {out / 'report.html'}")
    page = make_page(paths)
    make_folder(out.parent)
    write_whole(out, render(page).encode(errors="replace"), "nothing")
    typer.echo(f"Page: {out}")
    if figures is not None:
        files = save(page, figures, kinds)
        typer.echo(f"Figures: {len(files)} files in {figures}")
