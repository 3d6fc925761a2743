"""``coterie reproduce``: list the papers' tables and figures, or reproduce one."""

from __future__ import annotations

import shutil
import sys
import textwrap
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import click
import typer

from coterie.cli import designs
from coterie.cli.completion import Names
from coterie.cli.options import Jobs, Quiet
from coterie.errors import CoterieError, counted

if TYPE_CHECKING:
    from coterie.reproduce.catalogue import Catalogue, Reproducible
    from coterie.reproduce.request import ReproductionRequest

Format = Literal["text", "markdown", "md", "csv", "latex"]


def _entries(ctx: click.Context) -> Catalogue:
    """Return the tables and figures there are, for shells to offer."""
    from coterie.reproduce.catalogue import catalogue

    return catalogue()


OwnBook = Annotated[
    Path | None, typer.Option("--catalogue", help="A catalogue of your own, a TOML file.", metavar="FILE")
]


def reproduce(
    name: Annotated[str | None, typer.Argument(hidden=True, click_type=Names(_entries))] = None,
    rounds_scale: Annotated[
        float,
        typer.Option("--rounds-scale", help="Share of the published rounds to run, for instance 0.1.", metavar="X"),
    ] = 1.0,
    seeds: Annotated[
        str | None, typer.Option("--seeds", help="By default as many as published.", metavar="0,1,2")
    ] = None,
    datasets: Annotated[
        str | None, typer.Option("--datasets", help="Only these data sets of the table.", metavar="NAME,NAME")
    ] = None,
    algorithms: Annotated[
        str | None, typer.Option("--algorithms", help="Only these methods of the table.", metavar="NAME,NAME")
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", help="Folder of all reproductions [runs/reproduce].", metavar="FOLDER")
    ] = None,
    format: Annotated[Format, typer.Option("--format", help="Format of the printed table.")] = "text",
    columns: designs.Columns = None,
    caption: designs.Caption = None,
    label: designs.Label = None,
    jobs: Jobs = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would run, and how long it takes.")] = False,
    catalogue: OwnBook = None,
    quiet: Quiet = False,
) -> None:
    """List the papers' tables and figures, or reproduce one, with the published numbers beside ours.

    NAME: A table or figure, for instance pacfl-table2; without it, all are listed.

    The same command continues after any interruption; finished runs are not run again, and are shared by all tables.
    """
    from coterie.cli.interrupts import explain_interrupt
    from coterie.cli.progress import ConsoleBatchProgress
    from coterie.reproduce.catalogue import catalogue as shipped
    from coterie.reproduce.catalogue import read_own
    from coterie.reproduce.reproducing import PLACE, find_entry
    from coterie.reproduce.reproducing import reproduce as make
    from coterie.reproduce.request import ReproductionRequest
    from coterie.results.reproductions import error_files
    from coterie.run.values import parse_seeds

    if name is None:
        typer.echo(listing(read_own(catalogue) if catalogue else shipped()))
        return
    options = designs.table_options(format, columns, caption, label)
    if format == "text" and sys.stdout.isatty() and not options.columns:
        options = replace(options, width=shutil.get_terminal_size().columns)
    seed_numbers = None if seeds is None else tuple(parse_seeds(seeds))
    request = ReproductionRequest(rounds_scale, seed_numbers, _names(datasets), _names(algorithms))
    item = find_entry(name, catalogue)
    if dry_run:
        typer.echo(plan(item, request, out or PLACE))
        return
    with explain_interrupt():
        result = make(name, request, out, jobs, ConsoleBatchProgress(quiet), catalogue)
    if not quiet:
        typer.echo(result.report("markdown" if format == "md" else format, options), nl=False)
        if format == "text":
            typer.echo(_files((out or PLACE) / request.checked(item).folder_name(item), len(result.charts)))
    if result.failed:
        raise CoterieError(_failures(result.failed, error_files(out or PLACE)))


def _files(folder: Path, figures: int) -> str:
    """Say where what was made is."""
    from coterie.results.reproductions import FILE

    drawn = f", {counted(figures, 'figure')}" if figures else ""
    return f"\nFiles: {folder} ({FILE}, tables{drawn})"


def _failures(failed: tuple[str, ...], traces: object) -> str:
    first = "; ".join(failed[:3]) + ("; ..." if len(failed) > 3 else "")
    return f"some runs failed ({first}): tracebacks are in {traces}; the same command tries them again"


def listing(catalogue: Catalogue) -> str:
    """Return two lines per table and figure: name, kind, time and data; what it shows, and its other names."""
    from coterie.report.text_table import columns
    from coterie.reproduce.estimate import duration, minutes
    from coterie.reproduce.request import ReproductionRequest

    rows: list[list[str]] = []
    source = ""
    for name, item in catalogue.items():
        entry = item.entry
        if item.book.source != source:
            source = item.book.source
            rows += [[""], [source]] if rows else [[source]]
        if entry.kind == "cannot":
            rows += [[f"  {name}", f"cannot be reproduced: {entry.title}"], ["", entry.reason]]
        elif entry.same_as:
            rows.append([f"  {name}", f"the same as {entry.same_as}: {entry.title}"])
        else:
            time, data = duration(minutes(item, here=True)), _data(item, ReproductionRequest())
            also = f" [also {', '.join(entry.also)}]" if entry.also else ""
            rows += [[f"  {name}", entry.kind, time, data], ["", f"{entry.title}{also}"]]
    lines = [
        *columns(rows),
        "",
        "Times are rough, at full length on this machine's cores, with the data that are here; (-) marks others, which "
        "'coterie data get NAME' or --dry-run helps to get.",
        "'coterie reproduce NAME' makes one; --dry-run says what would run; --rounds-scale, --seeds, --datasets "
        "and --algorithms shorten it.",
    ]
    indent = max(map(len, catalogue)) + 4
    return "\n".join(_wrapped(line, indent) for line in lines)


def _wrapped(line: str, indent: int) -> str:
    """Fold a line of the list at a terminal's width; elsewhere lines stay whole, so that they can be searched."""
    columns = shutil.get_terminal_size().columns
    if not sys.stdout.isatty() or len(line) <= columns or columns < 2 * indent:
        return line
    start = len(line) - len(line.lstrip())
    return textwrap.fill(
        line.strip(), columns, initial_indent=" " * start, subsequent_indent=" " * (indent if start else 0),
        break_on_hyphens=False,
    )  # fmt: skip


def plan(item: Reproducible, request: ReproductionRequest, place: Path) -> str:
    """Say what would run, beside what is finished in the folder of all reproductions."""
    from coterie.reproduce.estimate import TRAINS, duration, minutes
    from coterie.reproduce.request import how_to_get, not_here, skipped
    from coterie.results.run_folder import RunFolder

    request = request.checked(item)
    cells = request.cells(item, place)
    runs = {run for cell in cells for run in request.runs(item, cell, place)} if item.entry.kind in TRAINS else set()
    finished = sum(RunFolder(run).finished for run in runs)
    numbers = counted(len(cells), "number") + (f" of {counted(len(runs), 'run')}" if runs else ", no federated runs")
    numbers += f" ({finished} of them finished)" if finished else ""
    missing, time_needed = not_here(item.entry.needs), minutes(item, request, here=True, place=place)
    lines = [
        f"{item.name}: {item.entry.title}",
        f"  SHORTENED: {'; '.join(request.shortened(item))}" if request.shortened(item) else "",
        f"  a part of it: {'; '.join(request.narrowed())}" if request.narrowed() else "",
        f"  {numbers}, of {len(list(item.cells()))} in all",
        "  time: nothing can be made without the data" if time_needed is None or missing
        else "  time: none: all runs are finished" if runs and finished == len(runs)
        else f"  time: about {duration(time_needed)} on this machine's cores, if they are free",
        f"  data: {_data(item, request)}",
        *(f"  left out: {text}" for text in skipped(item, request, place)),
        f"  needed: {how_to_get(missing)}" if missing else "",
        *(f"  {text}" for text in request.without_effect(item)),
    ]  # fmt: skip
    return "\n".join(line for line in lines if line)


def _data(item: Reproducible, request: ReproductionRequest) -> str:
    """Name the data sets; those that are not here are marked."""
    from coterie.reproduce.request import data_of, not_here

    named = data_of(item, request)
    absent = not_here(named)
    return ", ".join(f"{name} (-)" if name in absent else name for name in named) or "no data"


def _names(text: str | None) -> tuple[str, ...] | None:
    from coterie.run.values import split_names

    return None if text is None else tuple(split_names(text))
