"""The page of a reproduction, or of several: published numbers beside ours, and the charts that were made."""

from collections.abc import Sequence
from typing import Any

from coterie.report.reproduction import (
    GRADES,
    as_printed,
    digits_of,
    note_numbers,
    number_text,
    ours_text,
    signed_text,
)
from coterie.report.text_table import sentence
from coterie.results.charts import Block, Code, Fact, Page, Section, Switch, Table, Told
from coterie.results.reproductions import NumberPair, Reproduction
from coterie.results.statistics import Spread

FEW = 4
"""Charts that stand side by side; of more a control shows one."""


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
    what = f"{made.source} (catalogue {made.version})."
    texts = [what if alone else f"{made.name}: {made.title}. {what}"]
    if made.shortened:
        texts.append(f"Shortened: {'; '.join(made.shortened)}. Not comparable with the published numbers.")
    if made.part:
        texts.append(f"A part of it: {'; '.join(made.part)}.")
    if made.headline:
        texts.append(f"Published: {made.headline}.")
    texts += [
        _beside(made),
        *(f"Skipped: {text}." for text in made.skipped),
        *(f"Failed: {text}." for text in made.failed),
    ]
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
    sections = [Section(heading=f"{prefix}Paper and ours", text=_reading(made), blocks=_tables(made))]
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
    protocols = made.legend()
    grades = [GRADES[grade] for grade in GRADES if any(line.grade == grade and line.published for line in made.lines)]
    texts = [
        f"Difference: ours minus the paper's{f', in {made.unit}' if made.unit else ''}." if made.lines else "",
        f"{'; '.join(protocols)}." if protocols else "",
        f"{'; '.join(grades)}." if grades else "",
        made.note and sentence(made.note),
        *made.remarks,
    ]
    if not made.lines:
        texts.append("Nothing was published as numbers, or none of it could be made: see below.")
    return tuple(text for text in texts if text)


def _tables(made: Reproduction) -> tuple[Block, ...]:
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
    made: Reproduction, lines: Sequence[NumberPair], title: str, numbered: dict[str, int], named: bool = False
) -> Table:
    beside = dict.fromkeys(key for line in lines for key in line.beside)
    keys = [key for key in beside if any(line.beside.get(key) for line in lines)]
    noted = any(line.notes for line in lines)
    head = (*((made.rows_are, "column") if named else (made.rows_are,)), "measured", "paper", "ours", "difference")
    rows: list[tuple[Any, ...]] = []
    for line in lines:
        rows.append(
            (
                *((line.row, line.column) if named else (line.row,)),
                line.quantity,
                Told(line.published or "–", line.paper),
                Told(ours_text(line), None if line.ours is None else line.ours.mean),
                Told(signed_text(line.difference, line.digits), line.difference),
                line.grade if line.published else "–",
                *([note_numbers(line, numbered)] if noted else []),
                *(_other(line.beside.get(key), digits_of(line, key), line.asked) for key in keys),
            )
        )
    columns = (*head, "grade", *(["notes"] if noted else []), *(f"ours, {key}" for key in keys))
    return Table(title=title, columns=columns, rows=tuple(rows))


def _other(number: Spread | None, digits: int, asked: int) -> Told:
    return Told(number_text(number, digits, asked), None if number is None else number.mean)


def _how(made: Reproduction, prefix: str) -> Section:
    blocks: list[Block] = [Code(title="The command that makes it again", text=made.command)] if made.command else []
    if made.runs:
        blocks.append(Code(title="The runs behind it", text="\n".join(made.runs)))
    return Section(
        heading=f"{prefix}How it was made",
        text=(f"Kind: {made.kind}. Settings and published numbers are those of catalogue {made.version}.",),
        blocks=tuple(blocks),
    )
