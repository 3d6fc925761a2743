"""Texts, and tables of texts, the first line of each the head: for the terminal, as Markdown, as LaTeX."""

from __future__ import annotations

import re
from collections.abc import Sequence

Grid = Sequence[Sequence[str]]

_TEX = {"&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_", "{": r"\{", "}": r"\}"}
_TEX |= {"~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "\\": r"\textbackslash{}", "±": r"$\pm$", "–": "--"}
_TEX |= {"\0": r"\textbf{", "\1": "}"}


def aligned(grid: Grid) -> str:
    """Return columns side by side, the first to the left; a line under the head."""
    widths = [max(len(line[c].rstrip("*")) for line in grid) for c in range(len(grid[0]))]
    lines = []
    for line in grid:
        cells = [line[0].ljust(widths[0])]
        # a mark stands in the gap between columns
        cells += [
            text.rjust(width + text.count("*")).ljust(width + 1)
            for text, width in zip(line[1:], widths[1:], strict=True)
        ]
        lines.append((" " + "  ".join(cells)).rstrip())
    return "\n".join([lines[0], " " + "─" * (max(map(len, lines)) - 1), *lines[1:]])


def markdown(grid: Grid) -> str:
    r"""Return a table of Markdown, all columns but the first to the right.

    >>> print(markdown([["method", "L"], ["a|b", "93.5"]]))
    | method | L |
    | --- | ---: |
    | a\|b | 93.5 |
    """
    head, *body = grid
    rule = ["---", *["---:"] * (len(head) - 1)]
    lines = [[cell.replace("|", "\\|") for cell in line] for line in (head, rule, *body)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def latex(grid: Grid) -> str:
    """Return a tabular for the package booktabs."""
    first, *body = [" & ".join(map(tex, line)) + r" \\" for line in grid]
    columns = "l" + "r" * (len(grid[0]) - 1)
    begin, end = rf"\begin{{tabular}}{{{columns}}}", r"\end{tabular}"
    return "\n".join([begin, r"\toprule", first, r"\midrule", *body, r"\bottomrule", end])


def tex(text: str) -> str:
    r"""Write a text for LaTeX; what stands between the marks \0 and \1 is bold."""
    return re.sub(r"(?<!\w)-(?=\d)", "$-$", "".join(_TEX.get(letter, letter) for letter in text))


def sentence(text: str) -> str:
    """Return a text with a capital at its beginning and a full stop at its end.

    >>> sentence("as printed")
    'As printed.'
    """
    return text[:1].upper() + text[1:] + "."
