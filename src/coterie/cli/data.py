"""``coterie data``: get a data set, or see what a file is."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from coterie.cli.completion import Names
from coterie.cli.options import command_group
from coterie.data import Dataset
from coterie.data.catalogue import CATALOGUE, where
from coterie.data.downloads import Bar
from coterie.data.downloads import get as fetch
from coterie.data.folder import places
from coterie.data.readers.formats import recognise
from coterie.errors import one_line

data = command_group("Get data sets, and check files.")


@data.command()
def get(
    name: Annotated[str, typer.Argument(hidden=True, click_type=Names(lambda _: CATALOGUE))],
    folder: Annotated[
        Path | None,
        typer.Option(help="Parent folder to download into; by default COTERIE_DATA or the cache."),
    ] = None,
    base_url: Annotated[
        str | None, typer.Option(help="Fetch its files from this address instead of the usual ones.", metavar="URL")
    ] = None,
) -> None:
    """Download a data set; files that are there already are kept.

    NAME: A data set by name; 'coterie datasets' lists them.
    """
    place = folder.expanduser() if folder else None
    for part, path in fetch(name, place, base_url, _bar).items():
        typer.echo(f"{part} is in {path} (licence: {CATALOGUE[part].licence})")
    if place is not None and place.absolute() != places()[0].absolute():
        typer.echo(f"set COTERIE_DATA={place.absolute()} to use it by name")


@data.command()
def check(
    path: Annotated[Path, typer.Argument(hidden=True)],
) -> None:
    """Say what a file or folder is, and whether it can be used as a data set.

    PATH: A file or folder, or the name of a data set.
    """
    name = str(path) if not path.exists() and str(path) in CATALOGUE else None
    source = recognise(where(name) if name else path.expanduser())
    typer.echo(f"{one_line(str(source.files.place))}\n  {source.summary}")
    for line in _described(source.read(name)):
        typer.echo(f"  {one_line(line)}")
    typer.echo(f"It fits: coterie run --dataset {name or source.files.place}")


def _described(dataset: Dataset) -> list[str]:
    """Say how many samples there are, and of what shape."""
    train, test = dataset.train, dataset.test
    samples = f"{len(train):,} samples to train on, " + (f"{len(test):,} to test on" if test else "none to test on")
    shape = " x ".join(map(str, dataset.shape))
    if dataset.normalisation is not None:
        seen = dataset.normalisation(train.x[:1]).shape[1:]
        shape += f", which networks see as {' x '.join(map(str, seen))}" if seen != dataset.shape else ""
    lines = [samples, f"inputs of {shape} ({train.x.dtype}), {dataset.classes} classes"]
    if dataset.users is not None:
        lines.append(f"made by {len(set(dataset.users.tolist())):,} users")
    return lines


def _bar(address: str) -> Bar | None:
    """Return a progress bar on a terminal; elsewhere say what is fetched."""
    if not sys.stderr.isatty():
        typer.echo(f"fetching {address}", err=True)
        return None
    return _RichBar(address)


class _RichBar:
    """Rich's progress bar, with the methods that pooch calls."""

    def __init__(self, address: str) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

        columns = (TextColumn("{task.description}"), BarColumn(24), DownloadColumn(), TimeRemainingColumn())
        self._bars = Progress(*columns, console=Console(stderr=True))
        self._task = self._bars.add_task(address.rpartition("/")[2], total=None)
        self._bars.start()

    @property
    def total(self) -> int:
        return int(self._bars.tasks[0].total or 0)

    @total.setter
    def total(self, value: int) -> None:
        self._bars.update(self._task, total=value or None)

    def update(self, count: int) -> None:
        self._bars.update(self._task, advance=count)

    def reset(self) -> None:
        self._bars.update(self._task, completed=0)

    def close(self) -> None:
        self._bars.stop()
