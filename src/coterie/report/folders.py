"""From folders to a page: a builder per kind of folder."""

from collections.abc import Callable, Sequence
from pathlib import Path

from coterie.bounded import read_start
from coterie.errors import CoterieError
from coterie.files import make_folder, write_new
from coterie.report.page import MARK, render
from coterie.report.pages.comparison import comparison_page
from coterie.report.pages.run import run_page
from coterie.report.reproduction import reproduction_page
from coterie.results.charts import Page
from coterie.results.comparison_folder import DATA, PLAN
from coterie.results.comparisons import read_comparison
from coterie.results.folder_hints import inside, like_it
from coterie.results.formats import PAGE
from coterie.results.reproductions import read_reproduction, reproduction_files
from coterie.results.run_folder import CONFIG, RunFolder
from coterie.results.runs import read_runs


def _comparison(paths: Sequence[Path]) -> Page:
    if len(paths) > 1:
        raise CoterieError("a page shows one comparison or sweep: make a page for each")
    return comparison_page(read_comparison(paths[0]))


def _reproductions(paths: Sequence[Path]) -> Page:
    return reproduction_page([read_reproduction(file) for path in paths for file in reproduction_files(path)])


KINDS: dict[str, tuple[Callable[[Path], bool], Callable[[Sequence[Path]], Page]]] = {
    "a run": (lambda path: RunFolder(path).exists, lambda paths: run_page(read_runs(paths))),
    "a comparison or sweep": (lambda path: (path / PLAN).is_file() or (path / DATA).is_file(), _comparison),
    "a reproduction": (lambda path: bool(reproduction_files(path)), _reproductions),
}
"""How each kind of folder is recognised, the first that does takes it, and who makes the page of some of them."""


def write_page(page: Page, paths: Sequence[Path], out: Path | None = None, overwrite: bool = False) -> Path:
    """Write the page of some folders, by default into the one that it shows; return the file.

    An earlier page is replaced; a file of somebody else only with `overwrite`.
    """
    if out is None and len(paths) > 1:
        raise CoterieError(
            "a page of several folders belongs to none of them: say where to, for instance --out all.html"
        )
    file = paths[0] / PAGE if out is None else out
    if file.is_dir():
        raise CoterieError(f"'{file}' is a folder: name a file, for instance --out {file / PAGE}")
    make_folder(file.parent)
    write_new(file, render(page).encode(errors="replace"), overwrite or _is_page(file), "nothing")
    return file


def _is_page(file: Path) -> bool:
    """Say whether a file is a page that Coterie made, which can be made again."""
    return (
        file.is_file() and not file.is_symlink() and MARK.encode() in read_start(file, min(file.stat().st_size, 4096))
    )


def make_page(paths: Sequence[Path]) -> Page:
    """Return the page of one folder, or of several of one kind."""
    if not paths:
        raise CoterieError("say which folders the page is to show: coterie report RUN...")
    kinds = {path: _kind(path) for path in paths}
    if len({*kinds.values()}) > 1:
        listed = ", ".join(f"'{path}' is {kind}" for path, kind in kinds.items())
        raise CoterieError(f"a page shows folders of one kind, but {listed}: make a page for each")
    return KINDS[kinds[paths[0]]][1]([*kinds])


def _kind(path: Path) -> str:
    if not path.exists():
        raise CoterieError(f"'{path}' does not exist: name a run folder{like_it(path)}")
    for kind, (recognises, _) in KINDS.items():
        if recognises(path):
            return kind
    wrong = "is a file" if path.is_file() else f"has no {CONFIG}"
    meant = inside(path, CONFIG, PLAN) or f": name {', or '.join(KINDS)}, as --out made it"
    raise CoterieError(f"'{path}' {wrong}{meant}")
