"""Tables for papers: LaTeX with captions, labels and notes, for the package booktabs."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from coterie.errors import one_line
from coterie.report.text_table import TextTable

LETTERS = 100
"""Of a line of small letters, between the margins of a page with one column."""


@dataclass(frozen=True)
class PaperTable:
    """A table with what stands above it, and the name by which the paper refers to it."""

    table: TextTable
    caption: str
    """In LaTeX."""
    label: str
    notes: tuple[str, ...] = ()
    """What stands below it, in LaTeX."""

    @property
    def is_wide(self) -> bool:
        """Whether it has to be made smaller to fit between the margins."""
        lines = [self.table.head, *self.table.rows]
        return sum(max(map(len, column)) + 2 for column in zip(*lines, strict=True)) > LETTERS

    def latex(self) -> str:
        """Write it as a floating table."""
        lines = [r"\begin{table}", r"\centering", r"\small", rf"\caption{{{one_line(self.caption)}}}"]
        head = [name if name == "p" else name[:1].upper() + name[1:] for name in self.table.head]
        table = replace(self.table, head=head).latex()
        lines += [
            rf"\label{{{self.label}}}",
            "\n".join([r"\resizebox{\linewidth}{!}{%", f"{table}}}"]) if self.is_wide else table,
        ]
        if self.notes:
            below = "\\par\n".join(map(one_line, self.notes))
            lines += [r"\par\smallskip", rf"\parbox{{\linewidth}}{{\footnotesize\raggedright {below}}}"]
        return "\n".join([*lines, r"\end{table}"])


def paper(tables: Sequence[PaperTable], comments: Sequence[str]) -> str:
    """Write tables, and above them as comments what a reader of the numbers must know."""
    packages = "booktabs,graphicx" if any(table.is_wide for table in tables) else "booktabs"
    lines = [f"% {one_line(line)}" for line in (*comments, rf"Needs \usepackage{{{packages}}}.")]
    return "\n\n".join(["\n".join(lines), *(table.latex() for table in tables)]) + "\n"
