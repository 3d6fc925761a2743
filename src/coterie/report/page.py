"""A page as one HTML file that needs nothing else: no network, and for its texts and tables no JavaScript."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from html import escape
from importlib import resources
from itertools import count

from coterie.report.alternatives import as_table
from coterie.report.static import COLOURS
from coterie.results.charts import Block, Chart, Code, Fact, NumberCell, Page, Section, Switch, Table, plain

NUMBER = ' class="number"'
"""Of cells in columns of numbers."""
LONG = 24
"""Cells with more letters than this are not squeezed to a word per line."""
SCRIPTS = ("axes.js", "painters.js", "page.js")
"""They draw the charts as SVG, without any library, and share one scope."""
MARK = '<meta name="generator" content="Coterie">'
"""By which a page is known to be one of ours."""
FOLDED = 12
"""Code of more lines than this is shown when it is asked for."""


def render(page: Page) -> str:
    """Return a page as HTML. Whatever names and texts hold, they are shown as they are and never executed."""
    on_dark = {"#000000": "#f2f2f2"}  # black becomes white, the other colours stay
    colours = (f"--c{slot}:light-dark({colour},{on_dark.get(colour, colour)});" for slot, colour in enumerate(COLOURS))
    style = _asset("page.css") + ":root{" + "".join(colours) + "}\n"
    script = '"use strict";\n(() => {\n' + "".join(_asset(name) for name in SCRIPTS) + "})();\n"
    charts: list[Chart] = []
    names = count(1)
    body = "".join(_section(number, section, charts, names) for number, section in enumerate(page.sections, 1))
    links = "".join(f'<li><a href="#s{i}">{escape(s.heading)}</a></li>' for i, s in enumerate(page.sections, 1))
    policy = (
        f"default-src 'none'; style-src '{_digest(style)}'; script-src '{_digest(script)}'; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{escape(policy)}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f'<meta name="color-scheme" content="light dark">\n{MARK}\n<link rel="icon" href="data:,">\n'
        f"<title>{escape(page.title)}</title>\n<style>{style}</style>\n</head>\n<body>\n"
        f'<a class="skip" href="#content">Skip to the content</a>\n<header><h1>{escape(page.title)}</h1></header>\n'
        f'<main id="content" tabindex="-1">\n<div class="summary">{_paragraphs(page.summary)}</div>\n'
        f"{_facts(page.facts)}"
        "<noscript><p>JavaScript is off: the charts are not drawn. Their numbers are in the tables below them.</p>"
        "</noscript>\n"
        f'<nav aria-label="Sections"><ul>{links}</ul></nav>\n{body}</main>\n'
        "<footer><p>Made by Coterie. This file needs no network.</p></footer>\n"
        f'<script type="application/json" id="charts">{_data(charts)}</script>\n<script>{script}</script>\n'
        "</body>\n</html>\n"
    )


def _asset(name: str) -> str:
    return resources.files("coterie.report").joinpath(name).read_text(encoding="utf-8")


def _digest(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _data(charts: list[Chart]) -> str:
    """Return charts as JSON inside HTML: nothing in it can end the element that it stands in."""
    text = json.dumps(plain(charts), allow_nan=False, separators=(",", ":"))
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


def _paragraphs(texts: tuple[str, ...]) -> str:
    return "".join(f"<p>{_inline(text)}</p>" for text in texts)


def _inline(text: str) -> str:
    return re.sub("`([^`]+)`", r"<code>\1</code>", escape(text))


def _facts(facts: tuple[Fact, ...]) -> str:
    cards = "".join(
        f"<div><dt>{escape(fact.name)}</dt><dd>{escape(fact.value)}"
        + (f"<small>{escape(fact.note)}</small>" if fact.note else "")
        + "</dd></div>"
        for fact in facts
    )
    return f'<dl class="facts">{cards}</dl>\n' if facts else ""


def _section(number: int, section: Section, charts: list[Chart], names: count[int]) -> str:
    blocks = "".join(_block(block, charts, names) for block in section.blocks)
    return (
        f'<section id="s{number}" aria-labelledby="h{number}">\n<h2 id="h{number}">{escape(section.heading)}</h2>\n'
        f'{_paragraphs(section.text)}\n<div class="blocks">{blocks}</div></section>\n'
    )


def _block(block: Block, charts: list[Chart], names: count[int]) -> str:
    if not isinstance(block, Switch):
        return _chart(block, charts)
    group = f"v{next(names)}"
    radios = "".join(
        f'<label><input type="radio" name="{group}" value="{place}"{" checked" if place == 0 else ""}>'
        f"<span>{escape(name)}</span></label>"
        for place, (name, _) in enumerate(block.variants)
    )
    variants = "".join(
        f'<div class="variant"><p class="which">{escape(name)}</p>{_chart(chart, charts)}</div>'
        for name, chart in block.variants
    )
    return (
        f'<div class="switch"><fieldset class="choice"><legend>{escape(block.label)}</legend>{radios}</fieldset>'
        f"{variants}</div>\n"
    )


def _chart(chart: Chart, charts: list[Chart]) -> str:
    head = f"<figcaption><h3>{escape(chart.title)}</h3></figcaption>" if chart.title else ""
    note = f'<p class="note">{_inline(chart.note)}</p>' if chart.note else ""
    if isinstance(chart, Table):
        return f'<figure class="block wide">{head}{_table(chart)}{note}</figure>\n'
    if isinstance(chart, Code):
        text = f'<pre tabindex="0">{escape(chart.text)}</pre>'
        lines = chart.text.count("\n") + 1
        if lines > FOLDED:
            text = f"<details><summary>Show the {lines} lines</summary>{text}</details>"
        return f'<figure class="block wide">{head}{text}{note}</figure>\n'
    charts.append(chart)
    table = f"<details><summary>The numbers, as a table</summary>{_table(as_table(chart))}</details>"
    plot = f'<div class="plot" data-chart="{len(charts) - 1}"></div>'
    return f'<figure class="block chart">{head}{plot}{note}{table}</figure>\n'


def _table(table: Table) -> str:
    numeric = [
        any(isinstance(row[c], (int, float, NumberCell)) for row in table.rows)
        and not any(isinstance(row[c], str) for row in table.rows)
        for c in range(len(table.columns))
    ]
    heads = "".join(
        f'<th scope="col"{NUMBER * is_number}>{escape(name)}</th>'
        for name, is_number in zip(table.columns, numeric, strict=True)
    )
    rows = "".join(
        "<tr>" + "".join(_cell(table, r, c, numeric[c]) for c in range(len(row))) + "</tr>"
        for r, row in enumerate(table.rows)
    )
    label = escape(table.title or "Table")
    return (
        f'<div class="scroll" tabindex="0" role="region" aria-label="{label}"><table><thead><tr>{heads}</tr></thead>'
        f"<tbody>{rows}</tbody></table></div>"
    )


def _cell(table: Table, row: int, column: int, is_number: bool) -> str:
    cell = table.rows[row][column]
    content = plain(cell.number if isinstance(cell, NumberCell) else cell)
    text = cell.text if isinstance(cell, NumberCell) else cell_text(content, table.digits)
    sort = f' data-value="{content!r}"' if isinstance(content, (int, float)) else ""
    bold = (row, column) in table.bold
    inner = f"<strong>{escape(text)}</strong>" if bold else escape(text)
    if content is None:
        inner = f'<span class="none">{inner}</span>'
    kind = NUMBER if is_number else ' class="long"' if len(text) > LONG else ""
    return f"<td{kind}{sort}>{inner}</td>"


def cell_text(content: str | float | None, digits: int) -> str:
    """Return a cell of a table as text.

    >>> cell_text(93.456, 1), cell_text(7.0, 1), cell_text(7, 1), cell_text(None, 1), cell_text(float("nan"), 1)
    ('93.5', '7.0', '7', 'not measured', 'not measured')
    """
    content = plain(content)
    if content is None:
        return "not measured"
    return f"{content:.{digits}f}" if isinstance(content, float) else str(content)
