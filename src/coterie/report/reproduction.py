"""Published numbers beside ours: for the terminal, Markdown, CSV and LaTeX, as pictures and as a page."""

from collections.abc import Sequence
from pathlib import Path

from coterie.errors import CoterieError, suggestion
from coterie.report.latex import PaperTable, paper
from coterie.report.picture_files import write
from coterie.report.static import PAINTERS, paint, slug
from coterie.report.text_table import TextTable, csv_text, document, sentence, tex
from coterie.results.charts import Block, Code, Fact, NumberCell, Page, Section, Switch, Table
from coterie.results.formats import TableFormat, TableOptions
from coterie.results.reproductions import NumberPair, Reproduction
from coterie.results.statistics import Spread

GRADES = {
    "A": "A: a target",
    "B": "B: for the trend only, as a setting is not published",
    "C": "C: not a target (from another study, a copy, a bug, or inconsistent)",
}

FEW = 4
"""Charts that stand side by side; of more a control shows one."""


def draw_reproduction(result: Reproduction, folder: Path) -> list[Path]:
    """Draw the charts into a folder, as PNG and SVG."""
    pictures = [chart for chart in result.charts if type(chart) in PAINTERS]
    names = [f"{number:02d}-{slug(chart.title)}" for number, chart in enumerate(pictures, 1)]
    drawn = zip(names, pictures, strict=True)
    return [file for name, chart in drawn for file in write(paint(chart), folder / name, ("png", "svg"))]


def reproduction_text(result: Reproduction, format: TableFormat, options: TableOptions) -> str:
    """Write a reproduction in a format."""
    if format == "csv":
        return _csv(result)
    if format == "latex":
        return _latex(result, options)
    title, *above = _above(result)
    tables = [(heading, _with_columns(table, options.columns)) for heading, table in _tables(result)]
    above, below = [f"### {title}" if format == "markdown" else title, *above], _below(result)
    if options.width and any(len(line) > options.width for _, table in tables for line in table.text().splitlines()):
        tables = [(heading, table.only(_main_columns(result, heading, table))) for heading, table in tables]
        below = ["All columns do not fit into the terminal: the rest is in table.txt, or choose by --columns.", *below]
    return document(format, above, tables, below)


def _latex(result: Reproduction, options: TableOptions) -> str:
    """Write it for a paper: without our other protocols, unless they are asked for, and with its notes below it."""
    title, *above = _above(result)
    label = options.label or f"tab:{result.name}"
    short = [f"Shortened: {'; '.join(result.shortened)}; not comparable with the published numbers."]
    papers = []
    for number, (heading, table) in enumerate(_tables(result), 1):
        lines = [line for line in result.lines if result.wide or line.column == heading]
        caption = " ".join([f"{': '.join(filter(None, (title, heading)))}.", *short * bool(result.shortened)])
        used = [note for note in result.notes() if any(note in line.notes for line in lines)]
        papers.append(
            PaperTable(
                _with_columns(table, options.columns or _main_columns(result, heading, table)),
                options.caption or tex(caption),
                label if number == 1 else f"{label}-{number}",
                tuple(tex(f"[{result.notes()[note]}] {note}.") for note in used),
            )
        )
    return paper(papers, [title, *above, *_below(result)])


def _main_columns(result: Reproduction, heading: str, table: TextTable) -> list[str]:
    """Return the columns of a table but for our other protocols."""
    beside = {key for line in result.lines if line.column == heading for key in line.beside}
    return [name for name in table.head[1:] if result.wide or name not in beside]


def _with_columns(table: TextTable, columns: Sequence[str]) -> TextTable:
    """Return a table with the columns asked for, by default all."""
    if unknown := [name for name in columns if name not in table.head[1:]]:
        raise CoterieError(f"the table has no column '{unknown[0]}': {suggestion(unknown[0], table.head[1:])}")
    return table.chosen(columns) if columns else table


def _csv(result: Reproduction) -> str:
    """Write a line per number, nothing where there is none; notes stand in the last column."""
    beside = list(dict.fromkeys(key for line in result.lines for key in line.beside))
    head = ["name", "column", "row", "quantity", "published", "paper", "paper_std", "ours", "ours_std", "seeds"]
    head += ["seeds_asked", "difference", *beside, "grade", "shortened", "notes"]
    rows = []
    for line in result.lines:
        ours = line.ours
        rows.append(
            [result.name, line.column, line.row, line.quantity, line.published, line.paper, line.paper_spread]
            + [ours and ours.mean, ours and ours.std, ours.n if ours else 0, line.asked, line.difference]
            + [spread.mean if (spread := line.beside.get(key)) else None for key in beside]
            + [line.grade, "; ".join(result.shortened), "; ".join((*line.notes, *filter(None, [line.why])))]
        )
    return csv_text(head, rows)


def _above(result: Reproduction) -> list[str]:
    """Return what stands above the table."""
    measured = result.seeds and any(line.ours for line in result.lines)
    seeds = [f"Seed{'s' if len(result.seeds) > 1 else ''} {', '.join(map(str, result.seeds))}."] if measured else []
    return [f"{result.name}: {result.title}", *_source_lines(result, "SHORTENED"), *seeds]


def _source_lines(result: Reproduction, shortened: str = "Shortened") -> list[str]:
    """Say where it is published, and whether this is all of it."""
    return [
        f"{result.source} (catalogue {result.version}).",
        *[f"{shortened}: {'; '.join(result.shortened)}. Not comparable with the published numbers."]
        * bool(result.shortened),
        *[f"A part of it: {'; '.join(result.part)}."] * bool(result.part),
        *[f"Published: {result.headline}."] * bool(result.headline),
    ]


def _below(result: Reproduction) -> list[str]:
    """Return what stands below the table."""
    notes = [f"[{number}] {note}." for note, number in result.notes().items()]
    missing = [*(f"Skipped: {text}." for text in result.skipped), *(f"Failed: {text}" for text in result.failed)]
    return [*notes, *result.remarks, *[sentence(result.note)] * bool(result.note), *_meanings(result), *missing]


def _meanings(result: Reproduction) -> list[str]:
    """Say what protocols and grades mean."""
    used = {line.grade for line in result.lines if line.published}
    grades = [text for grade, text in GRADES.items() if grade in used]
    return [f"{'; '.join(texts)}." for texts in (result.legend(), grades) if texts]


def _tables(result: Reproduction) -> list[tuple[str, TextTable]]:
    """Return the tables, each under a heading: one as printed, or one for each column of the paper."""
    if not result.lines:
        return []
    if result.wide:
        columns, rows = as_printed(result)
        return [("", TextTable([f"{result.rows_are}: ours (paper)", *columns], rows))]
    headings = dict.fromkeys(line.column for line in result.lines)
    tables = []
    for heading in headings:
        columns, numbers = _numbers(result, [line for line in result.lines if line.column == heading])
        rows = [[cell if isinstance(cell, str) else cell.text for cell in row] for row in numbers]
        tables.append((heading, TextTable(columns, rows)))
    return tables


def _numbers(
    result: Reproduction, lines: Sequence[NumberPair], prefix: str = "", named: bool = False
) -> tuple[list[str], list[tuple[str | NumberCell, ...]]]:
    """Return columns and a row per number; `prefix` is for our other numbers, `named` adds the paper's column."""
    notes, noted = result.notes(), any(line.notes for line in lines)
    beside = dict.fromkeys(key for line in lines for key in line.beside)
    keys = [key for key in beside if any(line.beside.get(key) is not None for line in lines)]
    columns = [result.rows_are, *["column"] * named, "measured", "paper", "ours", "difference"]
    columns += [*(f"{prefix}{key}" for key in keys), "grade", *["notes"] * noted]
    rows: list[tuple[str | NumberCell, ...]] = [
        (
            *(line.row, *[line.column] * named, line.quantity),
            NumberCell(line.published or "–", line.paper),
            NumberCell(ours_text(line), line.ours.mean if line.ours else None),
            NumberCell("–" if line.difference is None else f"{line.difference:+.{line.digits}f}", line.difference),
            *(_beside_cell(line, key) for key in keys),
            *(line.grade if line.published else "–", *[", ".join(str(notes[note]) for note in line.notes)] * noted),
        )
        for line in lines
    ]
    return columns, rows


def _beside_cell(line: NumberPair, key: str) -> NumberCell:
    spread = line.beside.get(key)
    return NumberCell(number_text(spread, digits_of(line, key), line.asked), spread.mean if spread else None)


def as_printed(result: Reproduction) -> tuple[list[str], list[list[str]]]:
    """Return the columns of the paper, and its rows: our numbers, the paper's in brackets, the numbers of notes."""
    columns, notes = list(dict.fromkeys(line.column for line in result.lines)), result.notes()
    cells = {}
    for line in result.lines:
        published = f" ({line.published})" if line.published else ""
        marks = "".join(f" [{notes[note]}]" for note in line.notes)
        cells[line.row, line.column] = ours_text(line) + published + marks
    rows = dict.fromkeys(line.row for line in result.lines)
    return columns, [[row, *(cells.get((row, column), "") for column in columns)] for row in rows]


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


def number_text(number: Spread | None, digits: int, seeds: int = 0) -> str:
    """Write a mean with its spread, and of how many seeds, if more were asked for.

    >>> number_text(Spread(2, 1.5, 0.25), 2, seeds=3)
    '1.50 ± 0.25 (2 of 3)'
    """
    if number is None:
        return "–"
    spread = "" if number.std is None else f" ± {number.std:.{digits}f}"
    return f"{number.mean:.{digits}f}{spread}" + f" ({number.n} of {seeds})" * (number.n < seeds)


def reproduction_page(results: Sequence[Reproduction]) -> Page:
    """Return the page of reproductions."""
    alone = len(results) == 1
    sections = [section for result in results for section in _sections(result, "" if alone else f"{result.name}: ")]
    title = f"{results[0].name}: {results[0].title}" if alone else f"{len(results)} reproductions"
    summary = [text for result in results for text in _summary(result, alone)]
    return Page(
        title=title, summary=tuple(summary), facts=_facts(results[0]) if alone else (), sections=tuple(sections)
    )


def _summary(result: Reproduction, alone: bool) -> list[str]:
    """Say what it is, whether it was shortened, and what it comes to."""
    first, *others = _source_lines(result)
    texts = [first if alone else f"{result.name}: {result.title}. {first}", *others, _beside(result)]
    texts += [f"Skipped: {text}." for text in result.skipped] + [f"Failed: {text}." for text in result.failed]
    return [text for text in texts if text]


def _beside(result: Reproduction) -> str:
    """Say how many published numbers have ours beside them, and how they differ."""
    printed = [line for line in result.lines if line.published]
    compared = [line for line in printed if line.difference is not None]
    if not printed:
        return ""
    text = f"Of {len(printed)} published entries, {len(compared)} have a number of ours to compare them with."
    aims = [difference for line in compared if line.grade == "A" and (difference := line.difference) is not None]
    if not aims or result.shortened:
        return text
    higher, lower = sum(d > 0 for d in aims), sum(d < 0 for d in aims)
    unit = f" {result.unit}" if result.unit else ""
    same = f", {len(aims) - higher - lower} equal" if higher + lower < len(aims) else ""
    return (
        f"{text} Of {len(aims)} that are targets (grade A), ours is higher in {higher} and lower in {lower}{same}; "
        f"differences are from {min(aims):+.4g} to {max(aims):+.4g}{unit}."
    )


def _facts(result: Reproduction) -> tuple[Fact, ...]:
    printed = [line for line in result.lines if line.published]
    seeds, length = ", ".join(map(str, result.seeds)), "shortened" if result.shortened else "as published"
    facts = [
        Fact(name="length", value=length, note="; ".join(result.shortened)),
        Fact(name="published", value=str(len(printed)), note="entries"),
        Fact(name="compared", value=str(sum(line.difference is not None for line in printed)), note="with ours beside"),
    ]
    return (*facts, Fact(name="seeds" if len(result.seeds) > 1 else "seed", value=seeds)) if seeds else tuple(facts)


def _sections(result: Reproduction, prefix: str) -> list[Section]:
    sections = [Section(heading=f"{prefix}Paper and ours", text=_reading(result), blocks=_page_tables(result))]
    if result.charts:
        blocks: tuple[Block, ...] = result.charts
        if len(result.charts) > FEW:
            names = [chart.title.removeprefix(f"{result.title}: ") for chart in result.charts]
            blocks = (Switch(label="Figure", variants=tuple(zip(names, result.charts, strict=True))),)
        sections.append(Section(heading=f"{prefix}Figures", blocks=blocks))
    origin = [("The command that makes it again", result.command), ("The runs behind it", "\n".join(result.runs))]
    text = f"Kind: {result.kind}. Settings and published numbers are those of catalogue {result.version}."
    codes = tuple(Code(title=title, text=code) for title, code in origin if code)
    return [*sections, Section(heading=f"{prefix}How it was made", text=(text,), blocks=codes)]


def _reading(result: Reproduction) -> tuple[str, ...]:
    """Say what columns mean, and what is to be noted."""
    texts = [*_meanings(result), *[sentence(result.note)] * bool(result.note), *result.remarks]
    if not result.lines:
        return (*texts, "Nothing was published as numbers, or none of it could be made: see below.")
    return (f"Difference: ours minus the paper's{f', in {result.unit}' if result.unit else ''}.", *texts)


def _page_tables(result: Reproduction) -> tuple[Block, ...]:
    """Return a table per column, with a line for each published number; of a wide one also that as printed."""
    blocks: list[Block] = []
    if result.wide and result.lines:
        heads, rows = as_printed(result)
        title = "As printed: ours, and the paper's in brackets"
        blocks.append(Table(title=title, columns=(result.rows_are, *heads), rows=tuple(map(tuple, rows))))
        columns, numbers = _numbers(result, result.lines, "ours, ", named=True)
        blocks.append(Table(title="Every number", columns=tuple(columns), rows=tuple(numbers)))
    else:
        for heading in dict.fromkeys(line.column for line in result.lines):
            columns, numbers = _numbers(result, [line for line in result.lines if line.column == heading], "ours, ")
            blocks.append(Table(title=heading or result.title, columns=tuple(columns), rows=tuple(numbers)))
    if notes := tuple((number, note) for note, number in result.notes().items()):
        blocks.append(Table(title="Notes", columns=("number", "note"), rows=notes))
    return tuple(blocks)
