"""A published table beside ours: for the terminal, Markdown, CSV and LaTeX, and as pictures."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from coterie.report.text_table import TextTable, csv_text, sentence, wrapped
from coterie.results.charts import Block, Page, Section
from coterie.results.formats import TableFormat
from coterie.results.reproductions import NumberPair, Reproduction
from coterie.results.statistics import Spread

GRADES = {
    "A": "A: a target",
    "B": "B: for the trend only, as a setting is not published",
    "C": "C: not a target (from another study, a copy, a bug, or inconsistent)",
}


def draw_reproduction(made: Reproduction, folder: Path) -> list[Path]:
    """Draw the charts into a folder, as PNG and SVG."""
    if not made.charts:
        return []
    from coterie.report.static import save

    blocks: tuple[Block, ...] = made.charts
    section = Section(heading=made.title, blocks=blocks)
    page = Page(title=f"{made.name}: {made.title}", summary=_above(made), sections=(section,))
    return save(page, folder, ("png", "svg"))


def reproduction_text(made: Reproduction, format: TableFormat) -> str:
    """Write a reproduction in a format."""
    if format == "csv":
        return _csv(made)
    above, tables, below = _above(made), _tables(made), _below(made)
    if format == "text":
        parts = [f"{head}\n\n{table.text()}" if head else table.text() for head, table in tables]
        return "\n\n".join(part for part in (wrapped(above), *parts, wrapped(below)) if part) + "\n"
    if format == "markdown":
        parts = [f"### {above[0]}", *above[1:]]
        for head, table in tables:
            parts += [f"**{head}**"] * bool(head) + [table.markdown()]
        return "\n\n".join([*parts, *below]) + "\n"
    remarks = "\n".join(f"% {line}" for line in (*above, *below, "Needs \\usepackage{booktabs}."))
    parts = [f"% {head}\n{table.latex()}" if head else table.latex() for head, table in tables]
    return "\n\n".join([remarks, *parts]) + "\n"


def _csv(made: Reproduction) -> str:
    """Write a line per number, nothing where there is none; notes stand in the last column."""
    beside = list(dict.fromkeys(key for line in made.lines for key in line.beside))
    head = ["name", "column", "row", "quantity", "published", "paper", "paper_std", "ours", "ours_std", "seeds"]
    head += ["seeds_asked", "difference", *beside, "grade", "shortened", "notes"]
    rows = []
    for line in made.lines:
        ours = line.ours
        rows.append(
            [made.name, line.column, line.row, line.quantity, line.published, line.paper, line.paper_spread]
            + [ours and ours.mean, ours and ours.std, ours.n if ours else 0, line.asked, line.difference]
            + [spread.mean if (spread := line.beside.get(key)) else None for key in beside]
            + [line.grade, "; ".join(made.shortened), "; ".join((*line.notes, *filter(None, [line.why])))]
        )
    return csv_text(head, rows)


def _above(made: Reproduction) -> tuple[str, ...]:
    """Return what stands above the table."""
    seeds = f"Seed{'s' if len(made.seeds) > 1 else ''} {', '.join(map(str, made.seeds))}." if made.seeds else ""
    lines = [
        f"{made.name}: {made.title}",
        f"{made.source} (catalogue {made.version}).",
        f"SHORTENED: {'; '.join(made.shortened)}. Not comparable with the published numbers." * bool(made.shortened),
        f"A part of it: {'; '.join(made.part)}." * bool(made.part),
        f"Published: {made.headline}." * bool(made.headline),
        seeds if any(line.ours for line in made.lines) else "",
    ]
    return tuple(line for line in lines if line)


def _below(made: Reproduction) -> list[str]:
    """Return what stands below the table."""
    grades = [GRADES[grade] for grade in GRADES if any(line.grade == grade for line in made.lines)]
    protocols = made.legend()
    lines = [f"[{number}] {note}." for note, number in made.notes().items()]
    lines += [*made.remarks]
    lines += [sentence(made.note)] * bool(made.note)
    lines += [f"{'; '.join(protocols)}."] * bool(protocols)
    lines += [f"{'; '.join(grades)}."] * (bool(grades) and any(line.published for line in made.lines))
    lines += [f"Skipped: {text}." for text in made.skipped]
    return lines + [f"Failed: {text}" for text in made.failed]


def _tables(made: Reproduction) -> list[tuple[str, TextTable]]:
    """Return the tables, each under a heading: one as printed, or one for each column of the paper."""
    if not made.lines:
        return []
    if made.wide:
        return [("", _as_printed(made))]
    columns = dict.fromkeys(line.column for line in made.lines)
    return [(column, _table(made, [line for line in made.lines if line.column == column])) for column in columns]


def _table(made: Reproduction, lines: Sequence[NumberPair]) -> TextTable:
    """Return a table of one column of the paper: a row per number."""
    notes = made.notes()
    keys = dict.fromkeys(key for line in lines for key in line.beside)
    beside = [key for key in keys if any(line.beside.get(key) is not None for line in lines)]
    noted = ["notes"] * any(line.notes for line in lines)
    rows = [
        [line.row, line.quantity, line.published or "–", ours_text(line), signed_text(line.difference, line.digits)]
        + [number_text(line.beside.get(key), digits_of(line, key), line.asked) for key in beside]
        + [line.grade if line.published else "–", *([note_numbers(line, notes)] if noted else [])]
        for line in lines
    ]
    return TextTable([made.rows_are, "measured", "paper", "ours", "difference", *beside, "grade", *noted], rows)


def _as_printed(made: Reproduction) -> TextTable:
    """Return the table as it is printed: ours, and the paper's in brackets."""
    columns, rows = as_printed(made)
    return TextTable([f"{made.rows_are}: ours (paper)", *columns], rows)


def as_printed(made: Reproduction) -> tuple[list[str], list[list[str]]]:
    """Return the columns of the paper, and its rows with our numbers, the paper's in brackets."""
    columns = list(dict.fromkeys(line.column for line in made.lines))
    cells = {(line.row, line.column): both_text(line, made.notes()) for line in made.lines}
    rows = dict.fromkeys(line.row for line in made.lines)
    return columns, [[row, *(cells.get((row, column), "") for column in columns)] for row in rows]


def note_numbers(line: NumberPair, notes: Mapping[str, int]) -> str:
    """Write the numbers of a line's notes."""
    return ", ".join(str(notes[note]) for note in line.notes)


def both_text(line: NumberPair, notes: Mapping[str, int]) -> str:
    """Write our number, the published one in brackets, and the numbers of its notes."""
    marks = "".join(f" [{notes[note]}]" for note in line.notes)
    return ours_text(line) + (f" ({line.published})" if line.published else "") + marks


def ours_text(line: NumberPair) -> str:
    """Write our number, or why there is none."""
    if line.why:
        return line.why if len(line.why) < 16 else "failed"
    if line.ours is None:
        return "--" if line.reached == 0 else "–"
    return number_text(line.ours, line.digits, max(line.asked, line.tried))


def digits_of(line: NumberPair, name: str) -> int:
    """Return the digits of a number beside ours; groups of one seed are a whole number."""
    spread = line.beside.get(name)
    return line.digits if name != "groups" else 0 if spread is not None and spread.std is None else 1


def number_text(number: Spread | None, digits: int, asked: int = 0) -> str:
    """Write a mean with its spread, and of how many seeds, if more were asked for.

    >>> number_text(Spread(2, 1.5, 0.25), 2, asked=3)
    '1.50 ± 0.25 (2 of 3)'
    """
    if number is None:
        return "–"
    spread = "" if number.std is None else f" ± {number.std:.{digits}f}"
    return f"{number.mean:.{digits}f}{spread}" + f" ({number.n} of {asked})" * (number.n < asked)


def signed_text(value: float | None, digits: int) -> str:
    """Write a difference."""
    return "–" if value is None else f"{value:+.{digits}f}"
