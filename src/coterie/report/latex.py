"""Tables for papers: LaTeX with captions and labels, for the package booktabs."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from coterie.errors import one_line
from coterie.report.text_table import TextTable


@dataclass(frozen=True)
class PaperTable:
    """A table with what stands above it, and the name by which the paper refers to it."""

    table: TextTable
    caption: str
    """In LaTeX."""
    label: str

    def latex(self) -> str:
        """Write it as a floating table."""
        lines = [r"\begin{table}", r"\centering", r"\small", rf"\caption{{{one_line(self.caption)}}}"]
        head = [name if name == "p" else name[:1].upper() + name[1:] for name in self.table.head]
        lines += [rf"\label{{{self.label}}}", replace(self.table, head=head).latex(), r"\end{table}"]
        return "\n".join(lines)


def paper(tables: Sequence[PaperTable], comments: Sequence[str]) -> str:
    """Write tables, and above them as comments what a reader of the numbers must know."""
    lines = [f"% {one_line(line)}" for line in (*comments, r"Needs \usepackage{booktabs}.")]
    return "\n\n".join(["\n".join(lines), *(table.latex() for table in tables)]) + "\n"
