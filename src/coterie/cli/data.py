"""``coterie data``: get a data set, or see what a file is."""

import json
import re
import shlex
import sys
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import numpy.typing as npt
import typer

from coterie.cli.completion import Names
from coterie.cli.options import command_group
from coterie.data import DATASETS, Dataset
from coterie.data.catalogue import CATALOGUE, where
from coterie.data.downloads import Bar
from coterie.data.downloads import get as fetch
from coterie.data.folder import places
from coterie.data.loading import read_pooled
from coterie.data.readers.formats import Recognised, recognise
from coterie.data.readers.tables import dataset_of, read_tables
from coterie.data.tables.rows import ReadingOptions
from coterie.data.tables.summary import could_be_clients, described, suggested
from coterie.errors import CoterieError, one_line
from coterie.registry import same_name
from coterie.run.values import parse_choice, parse_value

SHOWN = 20
"""Classes that are listed one by one."""

data = command_group("Check files of yours; download public data sets.")


@data.command(short_help="Download a public data set.")
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
    for part, path in fetch(same_name(name, CATALOGUE), place, base_url, _bar).items():
        typer.echo(f"{part} is in {path} (licence: {CATALOGUE[part].licence})")
    if place is not None and place.absolute() != places()[0].absolute():
        typer.echo(f"set COTERIE_DATA={place.absolute()} to use it by name")


@data.command(short_help="See what a file or folder holds, and how to run it.")
def check(
    path: Annotated[str, typer.Argument(hidden=True)],
) -> None:
    """Say what a file or folder is, and whether it can be used as a data set.

    PATH: A file or folder, or the name of a data set; options stand behind it as behind --dataset, photos:size=32.
    """
    chosen = {"name": path} if Path(path).exists() else parse_choice(path)
    place, options = str(chosen.pop("name")), chosen
    named = same_name(place, CATALOGUE)
    name = named if not Path(place).exists() and named in CATALOGUE else None
    source = recognise(where(name) if name else Path(place).expanduser())
    typer.echo(f"{one_line(str(source.files.place))}\n  {source.summary}")
    if source.format == "table":
        _check_table(source, options)
        return
    dataset = read_pooled(name, options) if name and name in DATASETS else source.read(name, options)
    for line in _described(dataset):
        typer.echo(f"  {one_line(line)}")
    for warning in _warnings(dataset):
        typer.echo(f"coterie: {one_line(warning)}", err=True)
    given = path.removeprefix(place)
    by_user = " --partition by-user" if dataset.users is not None and name is None else ""
    chosen_data = shlex.quote(f"{name or source.files.place}{given}")
    typer.echo(f"It fits: coterie run --dataset {chosen_data}{by_user}{_metric(dataset)}")


def _check_table(source: Recognised, options: dict[str, Any]) -> None:
    """Say which columns a table has, what it would be as a data set, and by which options."""
    place, tables = str(source.files.place), read_tables(source.files)
    given = ReadingOptions(**source.check(options))
    chosen = suggested(tables[0], given, place)
    for line in described(tables[0], chosen, place):
        typer.echo(f"  {one_line(line)}")
    if chosen.label is None:
        raise CoterieError(
            f"{place}: no column could be a label: a few texts or whole numbers, each in several rows, or numbers with "
            "fractions"
        )
    for line in could_be_clients(tables[0], chosen, place):
        typer.echo(f"  {one_line(line)}")
    dataset = dataset_of(source.files, None, chosen, tables=tables)
    for line in (*_described(dataset), *dataset.notes):
        typer.echo(f"  {one_line(line)}")
    changed = {key: value for key, value in vars(chosen).items() if value != vars(ReadingOptions())[key]}
    written = ",".join(f"{key}={_written(value)}" for key, value in changed.items())
    typer.echo(f"It fits: coterie run --dataset {shlex.quote(f'{place}:{written}')}{_metric(dataset)}")


def _metric(dataset: Dataset) -> str:
    """Return what says that numbers are to be predicted, where they are."""
    return " --metric mae" if dataset.of_numbers else ""


def _written(value: Any) -> str:
    """Return the value of an option as it is written behind a name: lists with + between, quotes where needed."""
    plain = "+".join(map(str, value)) if isinstance(value, list) else str(value)
    parts = value if isinstance(value, list) else [value]
    safe = all(not isinstance(part, str) or re.fullmatch(r"[\w.-]+( [\w.-]+)*", part) for part in parts)
    return plain if safe and str(parse_value(plain)) == plain else json.dumps(value, ensure_ascii=False)


def _described(dataset: Dataset) -> list[str]:
    """Say how many samples there are, of what shape, and of which classes."""
    train, test = dataset.train, dataset.test
    samples = f"{len(train):,} samples to train on, " + (f"{len(test):,} to test on" if test else "none to test on")
    shape = " x ".join(map(str, dataset.shape))
    if dataset.normalisation is not None:
        seen = dataset.normalisation(train.x[:1]).shape[1:]
        shape += f", which networks see as {' x '.join(map(str, seen))}" if seen != dataset.shape else ""
    users = [] if dataset.users is None else [f"made by {len(set(dataset.users.tolist())):,} users"]
    if dataset.of_numbers:
        low, mean, high, deviation = train.y.min(), train.y.mean(), train.y.max(), train.y.std()
        told = f"regression target: {low:.6g} to {high:.6g}, mean {mean:.6g}, standard deviation {deviation:.6g}"
        return [samples, f"inputs of {shape} ({train.x.dtype})", told, *users]
    lines = [samples, f"inputs of {shape} ({train.x.dtype}), {dataset.classes} classes"]
    counts = _class_counts(dataset)
    listed = ", ".join(f"{class_name(dataset, label)}: {counts[label]:,}" for label in range(dataset.classes)[:SHOWN])
    more = f", ... (from {counts.min():,} to {counts.max():,})" if dataset.classes > SHOWN else ""
    lines.append(f"training samples by class: {listed}{more}")
    return [*lines, *users]


def _warnings(dataset: Dataset) -> list[str]:
    """Say which classes no sample has."""
    if dataset.of_numbers:
        return []
    empty = [class_name(dataset, int(label)) for label in np.flatnonzero(_class_counts(dataset) == 0)]
    if not empty:
        return []
    named = ", ".join(empty[:SHOWN]) + (f" and {len(empty) - SHOWN} more" if len(empty) > SHOWN else "")
    return [f"no training sample is of class {named}: number the classes without gaps, or add samples of it"]


def _class_counts(dataset: Dataset) -> npt.NDArray[np.int64]:
    return np.bincount(dataset.train.y, minlength=dataset.classes)


def class_name(dataset: Dataset, label: int) -> str:
    """Return the name of a class; its number where it has none."""
    return dataset.class_names[label] if dataset.class_names else str(label)


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
