"""A published table beside ours: for the terminal, Markdown, CSV and LaTeX, as JSON, and as pictures."""

from __future__ import annotations

import csv
import io
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, Literal

from coterie.report.grids import aligned, latex, markdown, sentence
from coterie.results.charts import Block, Chart, Page, Section, plain
from coterie.results.protocols import brief
from coterie.results.statistics import Spread

Format = Literal["text", "markdown", "md", "csv", "latex"]
SUFFIXES: dict[Format, str] = {"text": "txt", "markdown": "md", "csv": "csv", "latex": "tex"}
GRADES = {
    "A": "A: a target",
    "B": "B: for the trend only, as a setting is not published",
    "C": "C: not a target (from another study, a copy, a bug, or inconsistent)",
}


@dataclass(frozen=True)
class Line:
    """One published number, and ours."""

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
    lines: tuple[Line, ...]
    shortened: tuple[str, ...] = ()
    """How it is less than the published one; empty: it is not."""
    part: tuple[str, ...] = ()
    """Which part of it was asked for; empty: all."""
    skipped: tuple[str, ...] = ()
    """What was left out for want of data, and how to get them."""
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
        own = {f.name: getattr(self, f.name) for f in fields(self) if f.name not in ("lines", "charts")}
        lines = [{**asdict(line), "difference": line.difference} for line in self.lines]
        return {"what": "reproduction", **own, "lines": lines, "charts": [plain(chart) for chart in self.charts]}

    def page(self) -> Page:
        """Return the charts as a page."""
        blocks: tuple[Block, ...] = self.charts
        return Page(title=f"{self.name}: {self.title}", summary=self._facts(), sections=(
            Section(heading=self.title, blocks=blocks),
        ))  # fmt: skip

    def draw(self, folder: Path) -> list[Path]:
        """Draw the charts into a folder, as PNG and SVG."""
        if not self.charts:
            return []
        from coterie.report.static import save

        return save(self.page(), folder, ("png", "svg"))

    def render(self, format: Format) -> str:
        """Return it in a format by name."""
        how = {"text": self.text, "markdown": self.markdown, "md": self.markdown, "csv": self.csv, "latex": self.latex}
        return how[format]()

    def text(self) -> str:
        """Return it for a terminal."""
        grids = [f"{head}\n\n{aligned(grid)}" if head else aligned(grid) for head, grid in self._grids()]
        facts = "\n".join(textwrap.fill(line, 110) for line in self._facts())
        ends = "\n".join(textwrap.fill(line, 110) for line in self._ends())
        return "\n\n".join(part for part in (facts, *grids, ends) if part) + "\n"

    def markdown(self) -> str:
        """Return it as Markdown."""
        title, *facts = self._facts()
        parts = [f"### {title}", *facts]
        for head, grid in self._grids():
            parts += [f"**{head}**"] if head else []
            parts.append(markdown(grid))
        return "\n\n".join([*parts, *self._ends()]) + "\n"

    def latex(self) -> str:
        """Return it as LaTeX, for the package booktabs."""
        remarks = "\n".join(f"% {line}" for line in (*self._facts(), *self._ends(), "Needs \\usepackage{booktabs}."))
        tables = [f"% {head}\n{latex(grid)}" if head else latex(grid) for head, grid in self._grids()]
        return "\n\n".join([remarks, *tables]) + "\n"

    def csv(self) -> str:
        """Return a line per number, nothing where there is none; notes stand in the last column."""
        beside = list(dict.fromkeys(key for line in self.lines for key in line.beside))
        head = ["name", "column", "row", "quantity", "published", "paper", "paper_std", "ours", "ours_std", "seeds"]
        head += ["seeds_asked", "difference", *beside, "grade", "shortened", "notes"]
        file = io.StringIO()
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(head)
        for line in self.lines:
            ours = line.ours
            writer.writerow(
                [self.name, line.column, line.row, line.quantity, line.published, line.paper, line.paper_spread]
                + [ours and ours.mean, ours and ours.std, ours.n if ours else 0, line.asked, line.difference]
                + [found.mean if (found := line.beside.get(key)) else None for key in beside]
                + [line.grade, "; ".join(self.shortened), "; ".join((*line.notes, *filter(None, [line.why])))]
            )
        return file.getvalue()

    def _facts(self) -> tuple[str, ...]:
        """What stands above the table."""
        seeds = f"Seed{'s' if len(self.seeds) > 1 else ''} {', '.join(map(str, self.seeds))}." if self.seeds else ""
        said = [
            f"{self.name}: {self.title}",
            f"{self.source} (catalogue {self.version}).",
            f"SHORTENED: {'; '.join(self.shortened)}. Not comparable with the published numbers."
            * bool(self.shortened),
            f"A part of it: {'; '.join(self.part)}." * bool(self.part),
            f"Published: {self.headline}." * bool(self.headline),
            seeds if any(line.ours for line in self.lines) else "",
        ]
        return tuple(line for line in said if line)

    def _ends(self) -> list[str]:
        """What stands below the table."""
        notes = self.notes()
        grades = [GRADES[grade] for grade in GRADES if any(line.grade == grade for line in self.lines)]
        protocols = self.legend()
        lines = [f"[{number}] {note}." for note, number in notes.items()]
        lines += [*self.remarks]
        lines += [sentence(self.note)] * bool(self.note)
        lines += [f"{'; '.join(protocols)}."] * bool(protocols)
        lines += [f"{'; '.join(grades)}."] * (bool(grades) and any(line.published for line in self.lines))
        lines += [f"Skipped: {text}." for text in self.skipped]
        return lines + [f"Failed: {text}" for text in self.failed]

    def legend(self) -> list[str]:
        """Say what its protocols mean, and on which samples they were measured."""
        told = brief(self.measured())
        if not told or not self.validation:
            return told
        told = [text.replace("the whole test set", "all held-out samples") for text in told]
        return [*told, f"all on {self.validation:.0%} of the training samples, held out, not on test samples"]

    def measured(self) -> set[str]:
        """Return what stands in its columns: protocols, and other quantities."""
        own = {line.quantity.removeprefix("newcomers ") for line in self.lines}
        return own | {key for line in self.lines for key in line.beside}

    def notes(self) -> dict[str, int]:
        """Number the notes of all lines."""
        texts = dict.fromkeys(note for line in self.lines for note in line.notes)
        return {text: number for number, text in enumerate(texts, 1)}

    def _grids(self) -> list[tuple[str, list[list[str]]]]:
        if not self.lines:
            return []
        if self.wide:
            return [("", self._wide())]
        columns = dict.fromkeys(line.column for line in self.lines)
        return [(column, self._grid([line for line in self.lines if line.column == column])) for column in columns]

    def _grid(self, lines: Sequence[Line]) -> list[list[str]]:
        """Return a table of one column: a line per row."""
        notes = self.notes()
        beside = [key for key in dict.fromkeys(k for line in lines for k in line.beside) if _any(lines, key)]
        grid = [[self.rows_are, "measured", "paper", "ours", "difference", *beside, "grade", "notes"]]
        for line in lines:
            grid.append(
                [line.row, line.quantity, line.published or "–", ours_text(line)]
                + [signed_text(line.difference, line.digits)]
                + [number_text(line.beside.get(k), digits_of(line, k), line.asked) for k in beside]
                + [line.grade if line.published else "–", ", ".join(str(notes[note]) for note in line.notes)]
            )
        return _filled(grid)

    def _wide(self) -> list[list[str]]:
        """Return the table as it is printed: ours, and the paper's in brackets."""
        columns = list(dict.fromkeys(line.column for line in self.lines))
        rows = dict.fromkeys(line.row for line in self.lines)
        known = {(line.row, line.column): line for line in self.lines}
        grid = [[f"{self.rows_are}: ours (paper)", *columns]]
        for row in rows:
            found = [known.get((row, column)) for column in columns]
            grid.append([row, *("" if line is None else both_text(line, self.notes()) for line in found)])
        return grid


def _any(lines: Sequence[Line], key: str) -> bool:
    return any(line.beside.get(key) is not None for line in lines)


def _filled(grid: list[list[str]]) -> list[list[str]]:
    """Leave out columns without any content, but for those that a reader looks for."""
    kept = [c for c, head in enumerate(grid[0]) if head not in ("notes",) or any(line[c] for line in grid[1:])]
    return [[line[c] for c in kept] for line in grid]


def both_text(line: Line, notes: Mapping[str, int]) -> str:
    """Write our number, the published one in brackets, and the numbers of its notes."""
    marks = "".join(f" [{notes[note]}]" for note in line.notes)
    return ours_text(line) + (f" ({line.published})" if line.published else "") + marks


def ours_text(line: Line) -> str:
    """Write our number, or why there is none."""
    if line.why:
        return line.why if len(line.why) < 16 else "failed"
    if line.ours is None:
        return "--" if line.reached == 0 else "–"
    return number_text(line.ours, line.digits, max(line.asked, line.tried))


def digits_of(line: Line, name: str) -> int:
    """Return the digits of a number beside ours; groups of one seed are a whole number."""
    found = line.beside.get(name)
    return line.digits if name != "groups" else 0 if found is not None and found.std is None else 1


def number_text(found: Spread | None, digits: int, asked: int = 0) -> str:
    """Write a mean with its spread, and of how many seeds, if more were asked for.

    >>> number_text(Spread(2, 1.5, 0.25), 2, asked=3)
    '1.50 ± 0.25 (2 of 3)'
    """
    if found is None:
        return "–"
    spread = "" if found.std is None else f" ± {found.std:.{digits}f}"
    return f"{found.mean:.{digits}f}{spread}" + f" ({found.n} of {asked})" * (found.n < asked)


def signed_text(value: float | None, digits: int) -> str:
    """Write a difference."""
    return "–" if value is None else f"{value:+.{digits}f}"
