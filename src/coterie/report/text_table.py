"""Tables of texts: for the terminal, as Markdown, CSV and LaTeX."""

from __future__ import annotations

import csv
import io
import re
import textwrap
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from typing import Any

from coterie.errors import one_line

NOT_MEASURED = "not measured"
"""In place of a number that is defined, where nobody gave it."""
WIDTH = 110
"""Letters in a line of prose on the terminal."""
_TEX = {"&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_", "{": r"\{", "}": r"\}"}
_TEX |= {"<": "$<$", ">": "$>$", "≤": r"$\leq$", "≥": r"$\geq$", "≈": r"$\approx$", "→": r"$\to$", "−": "$-$"}
_TEX |= {"×": r"$\times$", "·": r"$\cdot$", "°": r"$^\circ$", "ℓ": r"$\ell$", "Σ": r"$\Sigma$"}
_TEX |= {"α": r"$\alpha$", "β": r"$\beta$", "γ": r"$\gamma$", "δ": r"$\delta$", "ε": r"$\epsilon$", "η": r"$\eta$"}
_TEX |= {"θ": r"$\theta$", "κ": r"$\kappa$", "λ": r"$\lambda$", "μ": r"$\mu$", "π": r"$\pi$", "ρ": r"$\rho$"}
_TEX |= {"σ": r"$\sigma$", "τ": r"$\tau$", "φ": r"$\phi$", "ω": r"$\omega$"}
_HEADS = {"p": "$p$", "+": "$+$"}
"""Of columns that are symbols."""
_TEX |= {"~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "\\": r"\textbackslash{}", "±": r"$\pm$", "–": "--"}


@dataclass(frozen=True)
class TextTable:
    """Columns of texts under a head; the first column is aligned left, the others right, but for those in `left`."""

    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    bold: Collection[tuple[int, int]] = ()
    """Cells that stand out, (row, column)."""
    left: Collection[str] = ()
    """Heads of further columns that are aligned left."""

    def without_empty(self, empty: Collection[str] = ("–",)) -> TextTable:
        """Return it without columns that hold nothing but empty cells; the first stays."""
        return self._at([c for c in range(len(self.head)) if c == 0 or any(row[c] not in empty for row in self.rows)])

    def only(self, columns: Collection[str]) -> TextTable:
        """Return it with some columns only, by their heads; the first stays."""
        return self._at([c for c, name in enumerate(self.head) if c == 0 or name in columns])

    def chosen(self, columns: Sequence[str]) -> TextTable:
        """Return it with these columns, in this order; the first stays."""
        return self._at([0, *(list(self.head).index(name) for name in columns)])

    def _at(self, kept: Sequence[int]) -> TextTable:
        return replace(
            self,
            head=[self.head[c] for c in kept],
            rows=[[row[c] for c in kept] for row in self.rows],
            bold={(r, kept.index(c)) for r, c in self.bold if c in kept},
        )

    def text(self) -> str:
        """Write it for a terminal; cells that stand out have a star, which stands in the gap between columns."""
        marked = [[one_line(cell) for cell in row] for row in (self.head, *self.rows)]
        widths = [max(len(row[c]) for row in marked) for c in range(len(self.head))]
        lines = []
        for r, row in enumerate(marked, -1):
            cells = []
            for c, (text, width) in enumerate(zip(row, widths, strict=True)):
                to_left = c == 0 or self.head[c] in self.left
                padded = text.ljust(width) if to_left else text.rjust(width)
                cells.append(padded + ("*" if (r, c) in self.bold else " " * (c > 0)))
            lines.append((" " + "  ".join(cells)).rstrip())
        return "\n".join([lines[0], " " + "─" * (max(map(len, lines)) - 1), *lines[1:]])

    def markdown(self) -> str:
        r"""Write it as Markdown; cells that stand out are bold.

        >>> print(TextTable(["method", "L"], [["a|b", "93.5"]]).markdown())
        | method | L |
        | --- | ---: |
        | a\|b | 93.5 |
        """
        rule = ["---" if c == 0 or name in self.left else "---:" for c, name in enumerate(self.head)]
        rows = [
            [f"**{t}**" if (r, c) in self.bold else t for c, t in enumerate(row)] for r, row in enumerate(self.rows)
        ]
        lines = [[text.replace("|", "\\|") for text in line] for line in (self.head, rule, *rows)]
        return "\n".join(f"| {' | '.join(line)} |" for line in lines)

    def latex(self) -> str:
        """Write it as a tabular for the package booktabs; cells that stand out are bold."""
        columns = "".join("l" if c == 0 or name in self.left else "r" for c, name in enumerate(self.head))
        rows = [
            [rf"\textbf{{{tex(t)}}}" if (r, c) in self.bold else tex(t) for c, t in enumerate(row)]
            for r, row in enumerate(self.rows)
        ]
        head, *body = [" & ".join(line) + r" \\" for line in ([_HEADS.get(h) or tex(h) for h in self.head], *rows)]
        begin, end = rf"\begin{{tabular}}{{{columns}}}", r"\end{tabular}"
        return "\n".join([begin, r"\toprule", head, r"\midrule", *body, r"\bottomrule", end])


def csv_text(head: Iterable[str], rows: Iterable[Iterable[Any]]) -> str:
    """Write numbers as they are, nothing where there is none."""
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(head)
    writer.writerows(rows)
    return file.getvalue()


def columns(rows: Sequence[Sequence[str]]) -> list[str]:
    """Write rows of texts as lines with columns, without a head; the last text of a row may be of any length.

    >>> columns([["mlp", "two layers"], ["lenet5", "five layers"], ["", "for images"]])
    ['mlp     two layers', 'lenet5  five layers', '        for images']
    """
    widths = [max(map(len, column)) for column in zip_longest(*(row[:-1] for row in rows), fillvalue="")]
    return ["  ".join([*map(str.ljust, row[:-1], widths), row[-1]]) for row in rows]


def printed(above: Sequence[str], table: TextTable, below: Sequence[str] = (), width: int = WIDTH) -> str:
    """Write a table for a terminal with prose above and below it."""
    return document("text", above, [("", table)], below, width)


def document(
    format: str, above: Sequence[str], tables: Iterable[tuple[str, TextTable]], below: Sequence[str], width: int = WIDTH
) -> str:
    """Write tables as text or Markdown, under their headings if they have any, with prose above and below."""
    write, heading = _WRITERS[format]
    if format == "text":
        above, below = [wrapped(above, width)], [wrapped(below, width)]
    parts = [(heading.format(name) if name else "") + write(table) for name, table in tables]
    return "\n\n".join(part for part in (*above, *parts, *below) if part) + "\n"


_WRITERS = {
    "text": (TextTable.text, "{}\n\n"),
    "markdown": (TextTable.markdown, "**{}**\n\n"),
}
"""How a table is written in a format, and its heading above it."""


def wrapped(lines: Iterable[str], width: int = WIDTH) -> str:
    """Break prose into lines of a terminal, a paragraph per text."""
    return "\n".join(textwrap.fill(line, width) for line in lines)


def tex(text: str) -> str:
    """Write a text for LaTeX."""
    return re.sub(r"(?<!\w)-(?=\d)", "$-$", "".join(_TEX.get(letter, letter) for letter in text))


def sentence(text: str) -> str:
    """Return a text with a capital at its beginning and a full stop at its end.

    >>> sentence("as printed")
    'As printed.'
    """
    return text[:1].upper() + text[1:] + "."
