"""Tables as small pieces of HTML, for notebooks."""

from collections.abc import Sequence
from html import escape

from coterie.errors import one_line
from coterie.report.text_table import TextTable


def html(title: str, tables: Sequence[TextTable], notes: Sequence[str] = ()) -> str:
    """Return tables as one piece of HTML, which needs nothing else and bears any background.

    >>> html("<b>", [TextTable(["a"], [["1 < 2"]])])
    '<div><div><b>&lt;b&gt;</b></div><table><tr><th ...>a</th></tr><tr><td ...>1 &lt; 2</td></tr></table></div>'
    """
    below = "".join(f'<div style="opacity:0.75">{_text(note)}</div>' for note in notes)
    return f"<div><div><b>{_text(title)}</b></div>{''.join(map(_table, tables))}{below}</div>"


def _table(table: TextTable) -> str:
    sides = ["left" if c == 0 or name in table.left else "right" for c, name in enumerate(table.head)]
    head = "".join(_cell("th", name, side) for name, side in zip(table.head, sides, strict=True))
    rows = [
        "".join(
            _cell("td", f"<b>{_text(cell)}</b>" if (r, c) in table.bold else cell, side, (r, c) in table.bold)
            for c, (cell, side) in enumerate(zip(row, sides, strict=True))
        )
        for r, row in enumerate(table.rows)
    ]
    return f"<table>{''.join(f'<tr>{row}</tr>' for row in (head, *rows))}</table>"


def _cell(tag: str, content: str, side: str, is_html: bool = False) -> str:
    style = "text-align:left" if side == "left" else "text-align:right;white-space:nowrap"  # numbers stay together
    return f'<{tag} style="{style}">{content if is_html else _text(content)}</{tag}>'


def _text(text: str) -> str:
    return escape(one_line(text))
