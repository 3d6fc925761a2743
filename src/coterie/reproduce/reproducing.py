"""Reproducing a table or figure: run or compute it, put the published numbers beside it, and write it down."""

import os
import shlex
from pathlib import Path

from coterie.compare.jobs import BatchProgress
from coterie.errors import CoterieError
from coterie.files import make_folder
from coterie.reproduce.catalogue import Reproducible, catalogue, read_own
from coterie.reproduce.computed import KINDS as COMPUTED
from coterie.reproduce.computed import ROWS, WIDE
from coterie.reproduce.findings import ReproductionSession
from coterie.reproduce.request import ReproductionRequest, how_to_get, missing, skipped
from coterie.reproduce.trained import KINDS as TRAINED
from coterie.reproduce.trained import train
from coterie.results.comparison_folder import ComparisonFolder
from coterie.results.reproductions import Reproduction, check_own
from coterie.results.run_folder import RunFolder

PLACE = Path("runs/reproduce")


def reproduce(
    name: str,
    request: ReproductionRequest,
    out: str | os.PathLike[str] | None = None,
    jobs: int | None = None,
    progress: BatchProgress | None = None,
    book: str | os.PathLike[str] | None = None,
) -> Reproduction:
    """Run or compute what is asked for of a table or figure; see `coterie.reproduce`."""
    if jobs is not None and jobs < 1:
        raise CoterieError(f"jobs = {jobs} is not valid: at least one run is made at a time")
    item = find_entry(name, book)
    request = request.checked(item)
    check_data(item, request, Path(out or PLACE))
    place = checked_place(Path(out or PLACE))
    folder = place / request.folder_name(item)
    check_own(folder)
    session = ReproductionSession(request, place, progress or BatchProgress(), jobs)
    try:
        findings = train(item, session) if item.entry.kind in TRAINED else COMPUTED[item.entry.kind](item, session)
    except KeyboardInterrupt:
        raise KeyboardInterrupt("the same command goes on; finished runs are not run again") from None
    entry = item.entry
    reproduction = Reproduction(
        name=item.name,
        title=entry.title,
        source=item.book.source,
        version=str(item.book.version),
        kind=entry.kind,
        unit=entry.unit,
        seeds=request.seeds_of(item),
        lines=tuple(findings.lines),
        shortened=tuple(request.shortened(item)),
        part=tuple(request.narrowed()),
        skipped=tuple(skipped(item, request, place)),
        headline=entry.headline,
        note=entry.note,
        remarks=(*findings.remarks, *request.without_effect(item)),
        failed=tuple(findings.failed),
        charts=tuple(findings.charts),
        command=command(item.name, request, out, book),
        wide=entry.kind in WIDE or entry.kind == "statistics",
        rows_are="setting" if entry.kind == "sweep" else "row" if entry.kind in ROWS else "method",
        runs=tuple(findings.runs),
        validation=float(entry.settings.get("evaluation", {}).get("validation", 0.0)),
    )
    reproduction.save(folder)
    return reproduction


def find_entry(name: str, book: str | os.PathLike[str] | None = None) -> Reproducible:
    """Find a table or figure that can be reproduced."""
    item = (catalogue() if book is None else read_own(Path(book))).resolved(name)
    if item.entry.kind == "cannot":
        raise CoterieError(f"{item.name} cannot be reproduced: {item.entry.reason}")
    if item.entry.kind not in (*TRAINED, *COMPUTED):
        kinds = ", ".join((*TRAINED, *COMPUTED))
        raise CoterieError(f"{item.name} is of unknown kind '{item.entry.kind}': there are {kinds}")
    return item


def check_data(item: Reproducible, request: ReproductionRequest, place: Path) -> None:
    """Refuse if none of the data are here, and nothing can be shown of runs that are finished."""
    columns = [column for column in item.columns() if request.wants(item, column)]
    absent = [missing(item, column) for column in columns]
    if all(absent) and not any(request.is_finished(item, cell, place) for cell in request.asked(item)):
        named = any(column.data or column.options.get("dataset") for column in columns)
        error = f"none of the data of {item.name} are here" if named else f"{item.name} needs data"
        raise CoterieError(f"{error}: {how_to_get(list(dict.fromkeys(name for names in absent for name in names)))}")


def checked_place(path: Path) -> Path:
    """Make the folder of all reproductions, if it is not there."""
    if path.exists() and not path.is_dir():
        raise CoterieError(f"'{path}' is a file: choose another --out")
    if RunFolder(path).exists or ComparisonFolder(path).exists:
        raise CoterieError(f"'{path}' holds a run or a comparison: choose another --out")
    make_folder(path)
    return path


def command(
    table: str, request: ReproductionRequest, out: str | os.PathLike[str] | None, book: str | os.PathLike[str] | None
) -> str:
    """Return the command that makes it again."""
    parts = ["coterie", "reproduce", table]
    parts += ["--rounds-scale", f"{request.rounds_scale:g}"] * (request.rounds_scale < 1)
    for name in ("seeds", "datasets", "algorithms"):
        value = getattr(request, name)
        parts += [f"--{name}", ",".join(map(str, value))] if value is not None else []
    parts += ["--out", str(out)] if out else []
    parts += ["--catalogue", str(book)] if book else []
    return shlex.join(parts)
