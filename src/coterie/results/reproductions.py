"""The folder of a reproduction: ``reproduction.json``, the tables and the pictures; beside it the runs behind it."""

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from coterie.arguments import checked
from coterie.bounded import LARGEST_JSON, parse_json, read_bytes
from coterie.errors import CoterieError, one_line, what_is_wanted
from coterie.files import make_folder, remove, write_whole
from coterie.results.chart_checks import MOST_DIGITS, error_in_chart
from coterie.results.charts import Chart, chart_of, plain
from coterie.results.comparison_folder import slug
from coterie.results.formats import (
    AS_IT_IS,
    REPRODUCTION_FORMAT,
    TABLE_FILES,
    TableFormat,
    TableOptions,
    error_in_format,
    table_format,
)
from coterie.results.protocols import brief
from coterie.results.run_folder import RunFolder
from coterie.results.schema import cleaned
from coterie.results.statistics import Spread

FILE, WHAT, RUNS = "reproduction.json", "reproduction", "runs"
PREFIXES = {
    "group mean ": "group mean: over the true groups, each with equal weight",
    "unadapted ": "unadapted: without the step by which clients adapt a model before they use it",
}
"""What the first words of quantities mean."""


@dataclass(frozen=True)
class NumberPair:
    """A published number, and ours."""

    column: str
    row: str
    quantity: str
    """What was measured: a protocol, or in words."""
    published: str
    """As printed; empty if nothing was."""
    paper: float | None
    paper_spread: float | None
    ours: Spread | None
    """Over seeds; None if it was not measured, or is not defined."""
    beside: Mapping[str, Spread | None] = field(default_factory=dict)
    """Other protocols, and what else was seen."""
    grade: str = "A"
    notes: tuple[str, ...] = ()
    why: str = ""
    """Why there is no number of ours."""
    reached: int | None = None
    """Of a target: so many of the seeds that were tried reached it."""
    tried: int = 0
    asked: int = 0
    """Seeds that were asked for; a number of fewer says so."""
    digits: int = 2

    @property
    def difference(self) -> float | None:
        """Ours minus the paper's."""
        return None if self.ours is None or self.paper is None else self.ours.mean - self.paper


@dataclass(frozen=True)
class Reproduction:
    """A table or figure that was reproduced."""

    name: str
    title: str
    source: str
    version: str
    kind: str
    unit: str
    seeds: tuple[int, ...]
    lines: tuple[NumberPair, ...]
    shortened: tuple[str, ...] = ()
    """How it is less than the published one; empty: it is not."""
    part: tuple[str, ...] = ()
    """Which part of it was asked for; empty: all."""
    skipped: tuple[str, ...] = ()
    """What was left out because its data are not here, and how to get them."""
    headline: str = ""
    note: str = ""
    remarks: tuple[str, ...] = ()
    """What is seen in our numbers."""
    failed: tuple[str, ...] = ()
    charts: tuple[Chart, ...] = ()
    command: str = ""
    wide: bool = False
    """Whether rows and columns are shown as printed, a cell holding ours and the paper's."""
    rows_are: str = "method"
    runs: tuple[str, ...] = ()
    """The folders of the runs behind it."""
    validation: float = 0.0
    """The share of the training samples on which accuracies were measured; 0: on test samples."""

    def to_json(self) -> dict[str, Any]:
        """Return all of it as plain data."""
        content = {f.name: getattr(self, f.name) for f in fields(self) if f.name not in ("lines", "charts")}
        lines = [{**asdict(line), "difference": line.difference} for line in self.lines]
        charts = [plain(chart) for chart in self.charts]
        return {"what": WHAT, "format": REPRODUCTION_FORMAT, **content, "lines": lines, "charts": charts}

    @checked
    def report(self, format: TableFormat = "text", options: TableOptions = AS_IT_IS) -> str:
        """Write it as text, Markdown, CSV or LaTeX."""
        from coterie.report.reproduction import reproduction_text

        return reproduction_text(self, table_format(format), options)

    def save(self, folder: Path) -> None:
        """Write numbers, tables and pictures into a folder, made if it is not there; pictures of an earlier time go."""
        from coterie.report.reproduction import draw_reproduction

        make_folder(folder, flush=False)
        for old in [*folder.glob("*.png"), *folder.glob("*.svg")]:
            remove(old)
        write_whole(folder / FILE, (json.dumps(self.to_json(), indent=1, ensure_ascii=False) + "\n").encode())
        for format, name in TABLE_FILES.items():
            write_whole(folder / name, self.report(format).encode())
        draw_reproduction(self, folder)

    def legend(self) -> list[str]:
        """Say what its protocols mean, and on which samples they were measured."""
        measured = self.measured()
        meanings = brief({name.removeprefix("group mean ").removeprefix("unadapted ") for name in measured})
        meanings += [text for prefix, text in PREFIXES.items() if any(prefix in name for name in measured)]
        if not meanings or not self.validation:
            return meanings
        meanings = [text.replace("the whole test set", "all held-out samples") for text in meanings]
        return [*meanings, f"all on {self.validation:.0%} of the training samples, held out, not on test samples"]

    def measured(self) -> set[str]:
        """Return what stands in its columns: protocols, and other quantities."""
        quantities = {line.quantity.removeprefix("newcomers ") for line in self.lines}
        return quantities | {key for line in self.lines for key, number in line.beside.items() if number is not None}

    def notes(self) -> dict[str, int]:
        """Number the notes of all lines."""
        texts = dict.fromkeys(note for line in self.lines for note in line.notes)
        return {text: number for number, text in enumerate(texts, 1)}


def check_own(folder: Path) -> None:
    """Refuse the folder of a reproduction if something else is in it, which might be written over."""
    if folder.exists() and not (folder / FILE).is_file() and (not folder.is_dir() or any(folder.iterdir())):
        raise CoterieError(f"'{folder}' is there already, and is not a reproduction: choose another --out")


def reproduction_files(path: Path) -> list[Path]:
    """Return the files of the reproductions in a folder: its own, or those of the folders in it."""
    return [path / FILE] if (path / FILE).is_file() else sorted(path.glob(f"*/{FILE}"))


def run_path(place: Path, tables: Mapping[str, Any], seed: int) -> Path:
    """Return the folder of a run behind reproductions in a folder: tables with the same settings share it."""
    counted = {section: table for section, table in tables.items() if section != "engine"}
    mark = hashlib.sha256(json.dumps(counted, sort_keys=True).encode()).hexdigest()[:10]
    name = f"{tables.get('algorithm', {}).get('name', 'fedavg')}-{Path(str(tables['data']['name'])).stem}"
    return place / RUNS / f"{slug(name)}-{mark}" / f"seed-{seed}"


def error_files(place: Path) -> Path:
    """Return the pattern of the files that say why runs behind reproductions failed."""
    return RunFolder(place / RUNS / "*" / "*").error_file


def read_reproduction(file: Path) -> Reproduction:
    """Read one; numbers that are not finite are left out, and it says so."""
    from pydantic import TypeAdapter, ValidationError

    again = "remove it, then run 'coterie reproduce' again; finished runs are kept"
    try:
        content = cleaned(parse_json(read_bytes(file, LARGEST_JSON)))
        if not isinstance(content, dict) or content.get("what") != WHAT:
            raise CoterieError(f"'{file}' is not of a reproduction: {again}")
        if error := error_in_format(content, REPRODUCTION_FORMAT):
            raise CoterieError(f"'{file}' {error}")
        names = {field.name for field in fields(Reproduction)} - {"charts"}
        charts = tuple(chart_of(chart) for chart in content["charts"])
        if problem := next((f"{c.title}: {text}" for c in charts if (text := error_in_chart(c))), None):
            raise ValueError(f"charts: {problem}")
        reproduction: Reproduction = TypeAdapter(Reproduction).validate_python(
            {k: v for k, v in content.items() if k in names}
        )
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise CoterieError(f"'{file}' is damaged ({where}: {what_is_wanted([first])}): {again}") from None
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise CoterieError(f"'{file}' is damaged ({one_line(str(error))}): {again}") from None
    if any(not 0 <= line.digits <= MOST_DIGITS for line in reproduction.lines):
        raise CoterieError(f"'{file}' is damaged (lines: digits should be 0 to {MOST_DIGITS}): {again}")
    return _finite(replace(reproduction, charts=charts))


def _finite(reproduction: Reproduction) -> Reproduction:
    """Leave out numbers that are none, and say so."""

    def good(spread: Spread | None) -> bool:
        return spread is None or (math.isfinite(spread.mean) and (spread.std is None or math.isfinite(spread.std)))

    odd = [line for line in reproduction.lines if not (good(line.ours) and all(map(good, line.beside.values())))]
    lines = [
        replace(
            line,
            ours=line.ours if good(line.ours) else None,
            why=line.why if good(line.ours) else "no number",
            beside={key: spread if good(spread) else None for key, spread in line.beside.items()},
        )
        for line in reproduction.lines
    ]
    missing = [f"No number was measured for {line.column}, {line.row}: it is left out" for line in odd]
    return replace(reproduction, lines=tuple(lines), failed=(*reproduction.failed, *missing))
