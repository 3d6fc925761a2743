"""Published numbers beside ours: for the terminal, Markdown, CSV and LaTeX, as pictures and as a page."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from coterie.report import static
from coterie.report.text_table import TextTable, csv_text, sentence, wrapped
from coterie.results.charts import Block, Code, Fact, Page, Section, Switch, Table, Told
from coterie.results.formats import TableFormat
from coterie.results.reproductions import NumberPair, Reproduction
from coterie.results.statistics import Spread

GRADES = {
    "A": "A: a target",
    "B": "B: for the trend only, as a setting is not published",
    "C": "C: not a target (from another study, a copy, a bug, or inconsistent)",
}

FEW = 4
"""Charts that stand side by side; of more a control shows one."""


def draw_reproduction(made: Reproduction, folder: Path) -> list[Path]:
    """Draw the charts into a folder, as PNG and SVG."""
    section = Section(heading=made.title, blocks=made.charts)
    return static.save(Page(title=made.title, summary=(), sections=(section,)), folder, ("png", "svg"))


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


def _above(made: Reproduction) -> list[str]:
    """Return what stands above the table."""
    measured = made.seeds and any(line.ours for line in made.lines)
    seeds = [f"Seed{'s' if len(made.seeds) > 1 else ''} {', '.join(map(str, made.seeds))}."] if measured else []
    return [f"{made.name}: {made.title}", *_made(made, "SHORTENED"), *seeds]


def _made(made: Reproduction, shortened: str = "Shortened") -> list[str]:
    """Say where it is published, and whether this is all of it."""
    return [
        f"{made.source} (catalogue {made.version}).",
        *[f"{shortened}: {'; '.join(made.shortened)}. Not comparable with the published numbers."]
        * bool(made.shortened),
        *[f"A part of it: {'; '.join(made.part)}."] * bool(made.part),
        *[f"Published: {made.headline}."] * bool(made.headline),
    ]


def _below(made: Reproduction) -> list[str]:
    """Return what stands below the table."""
    notes = [f"[{number}] {note}." for note, number in made.notes().items()]
    lost = [*(f"Skipped: {text}." for text in made.skipped), *(f"Failed: {text}" for text in made.failed)]
    return [*notes, *made.remarks, *[sentence(made.note)] * bool(made.note), *_meanings(made), *lost]


def _meanings(made: Reproduction) -> list[str]:
    """Say what protocols and grades mean."""
    given = {line.grade for line in made.lines if line.published}
    grades = [text for grade, text in GRADES.items() if grade in given]
    return [f"{'; '.join(texts)}." for texts in (made.legend(), grades) if texts]


def _tables(made: Reproduction) -> list[tuple[str, TextTable]]:
    """Return the tables, each under a heading: one as printed, or one for each column of the paper."""
    if not made.lines:
        return []
    if made.wide:
        columns, rows = as_printed(made)
        return [("", TextTable([f"{made.rows_are}: ours (paper)", *columns], rows))]
    headings = dict.fromkeys(line.column for line in made.lines)
    return [(column, _table(made, [line for line in made.lines if line.column == column])) for column in headings]


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


def reproduction_page(all_made: Sequence[Reproduction]) -> Page:
    """Return the page of reproductions."""
    alone = len(all_made) == 1
    sections = [section for made in all_made for section in _sections(made, "" if alone else f"{made.name}: ")]
    title = f"{all_made[0].name}: {all_made[0].title}" if alone else f"{len(all_made)} reproductions"
    summary = [text for made in all_made for text in _summary(made, alone)]
    return Page(
        title=title, summary=tuple(summary), facts=_facts(all_made[0]) if alone else (), sections=tuple(sections)
    )


def _summary(made: Reproduction, alone: bool) -> list[str]:
    """Say what it is, whether it was shortened, and what it comes to."""
    first, *others = _made(made)
    texts = [first if alone else f"{made.name}: {made.title}. {first}", *others, _beside(made)]
    texts += [f"Skipped: {text}." for text in made.skipped] + [f"Failed: {text}." for text in made.failed]
    return [text for text in texts if text]


def _beside(made: Reproduction) -> str:
    """Say how many published numbers have ours beside them, and how they differ."""
    printed = [line for line in made.lines if line.published]
    both = [line for line in printed if line.difference is not None]
    if not printed:
        return ""
    text = f"Of {len(printed)} published entries, {len(both)} have a number of ours to compare them with."
    aims = [difference for line in both if line.grade == "A" and (difference := line.difference) is not None]
    if not aims or made.shortened:
        return text
    higher, lower = sum(d > 0 for d in aims), sum(d < 0 for d in aims)
    unit = f" {made.unit}" if made.unit else ""
    same = f", {len(aims) - higher - lower} equal" if higher + lower < len(aims) else ""
    return (
        f"{text} Of {len(aims)} that are targets (grade A), ours is higher in {higher} and lower in {lower}{same}; "
        f"differences are from {min(aims):+.4g} to {max(aims):+.4g}{unit}."
    )


def _facts(made: Reproduction) -> tuple[Fact, ...]:
    printed = [line for line in made.lines if line.published]
    seeds = ", ".join(map(str, made.seeds))
    facts = [
        Fact(name="length", value="shortened" if made.shortened else "as published", note="; ".join(made.shortened)),
        Fact(name="published", value=str(len(printed)), note="entries"),
        Fact(name="compared", value=str(sum(line.difference is not None for line in printed)), note="with ours beside"),
    ]
    return (*facts, Fact(name="seeds" if len(made.seeds) > 1 else "seed", value=seeds)) if seeds else tuple(facts)


def _sections(made: Reproduction, prefix: str) -> list[Section]:
    sections = [Section(heading=f"{prefix}Paper and ours", text=_reading(made), blocks=_page_tables(made))]
    if made.charts:
        blocks: tuple[Block, ...] = made.charts
        if len(made.charts) > FEW:
            names = [chart.title.removeprefix(f"{made.title}: ") for chart in made.charts]
            blocks = (Switch(label="Figure", variants=tuple(zip(names, made.charts, strict=True))),)
        sections.append(Section(heading=f"{prefix}Figures", blocks=blocks))
    sections.append(_how(made, prefix))
    return sections


def _reading(made: Reproduction) -> tuple[str, ...]:
    """Say what columns mean, and what is to be noted."""
    unit, note = f", in {made.unit}" if made.unit else "", [sentence(made.note)] * bool(made.note)
    if not made.lines:
        nothing = "Nothing was published as numbers, or none of it could be made: see below."
        return (*_meanings(made), *note, *made.remarks, nothing)
    return (f"Difference: ours minus the paper's{unit}.", *_meanings(made), *note, *made.remarks)


def _page_tables(made: Reproduction) -> tuple[Block, ...]:
    """Return a table per column, with a line for each published number; of a wide one also that as printed."""
    numbered = made.notes()
    blocks: list[Block] = []
    columns = list(dict.fromkeys(line.column for line in made.lines))
    if made.wide and made.lines:
        heads, rows = as_printed(made)
        title = "As printed: ours, and the paper's in brackets"
        blocks.append(Table(title=title, columns=(made.rows_are, *heads), rows=tuple(map(tuple, rows))))
        blocks.append(_listed(made, made.lines, "Every number", numbered, named=True))
    else:
        for column in columns:
            lines = [line for line in made.lines if line.column == column]
            blocks.append(_listed(made, lines, column or made.title, numbered))
    if numbered:
        notes = tuple((number, note) for note, number in numbered.items())
        blocks.append(Table(title="Notes", columns=("number", "note"), rows=notes))
    return tuple(blocks)


def _listed(
    made: Reproduction, lines: Sequence[NumberPair], title: str, numbered: Mapping[str, int], named: bool = False
) -> Table:
    beside = dict.fromkeys(key for line in lines for key in line.beside)
    keys = [key for key in beside if any(line.beside.get(key) for line in lines)]
    noted = any(line.notes for line in lines)
    columns = [made.rows_are, *["column"] * named, "measured", "paper", "ours", "difference", "grade"]
    columns += [*["notes"] * noted, *(f"ours, {key}" for key in keys)]
    rows: list[tuple[Any, ...]] = []
    for line in lines:
        others = [(line.beside.get(key), digits_of(line, key)) for key in keys]
        rows.append(
            (
                *(line.row, *[line.column] * named, line.quantity),
                Told(line.published or "–", line.paper),
                Told(ours_text(line), line.ours.mean if line.ours else None),
                Told(signed_text(line.difference, line.digits), line.difference),
                *(line.grade if line.published else "–", *[note_numbers(line, numbered)] * noted),
                *(Told(number_text(of, digits, line.asked), of.mean if of else None) for of, digits in others),
            )
        )
    return Table(title=title, columns=tuple(columns), rows=tuple(rows))


def _how(made: Reproduction, prefix: str) -> Section:
    blocks: list[Block] = [Code(title="The command that makes it again", text=made.command)] if made.command else []
    if made.runs:
        blocks.append(Code(title="The runs behind it", text="\n".join(made.runs)))
    return Section(
        heading=f"{prefix}How it was made",
        text=(f"Kind: {made.kind}. Settings and published numbers are those of catalogue {made.version}.",),
        blocks=tuple(blocks),
    )
