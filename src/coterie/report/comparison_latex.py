"""A comparison as tables for a paper: methods as they are called, and bold only where it is significant."""

from dataclasses import replace

from coterie.report.comparison import comparison_tables, notes_and_legend
from coterie.report.latex import PaperTable, paper
from coterie.report.text_table import TextTable, tex
from coterie.results.comparison_table import ComparisonTable
from coterie.results.display_names import display_name
from coterie.results.formats import TableOptions
from coterie.results.metrics import capital
from coterie.results.protocols import COMPARED, brief

BOLD = (
    "Bold: the {best} mean, and those not significantly different from it (paired t test, p < 0.05 with Bonferroni's "
    "correction)."
)
P_VALUES = "p: of the two-sided paired t test against the {best} mean of the column to its left, not corrected."
FINE_PRINT = (
    "Bonferroni's correction: p < 0.05 divided by the number of others. Methods that miss a seed are not bold, and "
    "nothing is where none is significantly {worse} than the {best}."
)
SMALLEST_P = 0.001
"""Below it the number says nothing more."""


def comparison_latex(table: ComparisonTable, options: TableOptions) -> str:
    """Write a comparison for a paper; with chosen columns it is one table."""
    whole = replace(table, rows=tuple(replace(row, label=_shown(table, row.label)) for row in table.rows))
    whole = replace(whole, baseline=_shown(table, table.baseline))
    tables = comparison_tables(whole, _bold(table), options.columns, narrow=True)
    if not tables:  # nothing was measured
        return paper([], [table.title, *notes_and_legend(table, [])])
    if options.p_values:
        tables[0] = _with_p_values(tables[0], table)
    said = [BOLD] * bool(tables[0].bold) + [P_VALUES] * options.p_values
    shown = table.scale
    said, fine = [text.format(best=shown.best) for text in said], FINE_PRINT.format(best=shown.best, worse=shown.worse)
    first = options.caption or tex(_caption(table, tables[0], said))
    captions = [first, *(tex(_other(table, part)) for part in tables[1:])]
    label = options.label or f"tab:{'comparison' if table.noun == 'method' else 'sweep'}"
    labels = [label, *(f"{label}-{number}" for number in range(2, len(tables) + 1))]
    papers = [
        PaperTable(replace(part, head=[table.noun, *part.head[1:]]), caption, name)
        for part, caption, name in zip(tables, captions, labels, strict=True)
    ]
    return paper(papers, [table.title, *notes_and_legend(table, [*said, fine])])


def _shown(table: ComparisonTable, label: str) -> str:
    """Return what a row is called: settings of a sweep as they are."""
    return display_name(label) if table.noun == "method" else label


def _bold(table: ComparisonTable) -> set[tuple[int, int]]:
    """Return the cells of the best and of those not significantly different, where anyone is."""
    cells = set()
    for column, protocol in enumerate(COMPARED, 1):
        first = table.leaders[protocol]
        measured = [row.label for row in table.rows if row.accuracy[protocol] is not None]
        if first is None or len(table.seeds) < 2 or len(first.rivals) == len(measured) - 1:
            continue
        for number, row in enumerate(table.rows):
            spread = row.accuracy[protocol]
            if row.label in (first.label, *first.rivals) and spread is not None and spread.n == len(table.seeds):
                cells.add((number, column))
    return cells


def _with_p_values(part: TextTable, table: ComparisonTable) -> TextTable:
    """Return a table with a column of p values beside each accuracy that has them."""
    protocols = {symbol: protocol for protocol, symbol in COMPARED.items()}
    head, rows, places = [part.head[0]], [[row[0]] for row in part.rows], {}
    for column, name in enumerate(part.head[1:], 1):
        places[column] = len(head)
        head.append(name)
        for new, old in zip(rows, part.rows, strict=True):
            new.append(old[column])
        first = table.leaders[protocols[name]] if name in protocols else None
        if first is not None and len(table.seeds) > 1:
            head.append("p")
            for new, row in zip(rows, table.rows, strict=True):
                new.append(_p_text(first.p.get(row.label)) if row.label != first.label else "")
    return replace(part, head=head, rows=rows, bold={(row, places[column]) for row, column in part.bold})


def _p_text(p: float | None) -> str:
    if p is None:
        return "–"
    return f"<{SMALLEST_P}" if p < SMALLEST_P else f"{p:.3f}"


def _caption(table: ComparisonTable, part: TextTable, said: list[str]) -> str:
    """Say what the numbers are."""
    accuracies = [symbol for symbol in COMPARED.values() if symbol in part.head]
    over = f"over {len(table.seeds)} seeds" if len(table.seeds) > 1 else f"of one seed ({table.seeds[0]})"
    spread = "mean ± standard deviation " if len(table.seeds) > 1 else ""
    return " ".join(
        [f"{_title(table)}.", f"{table.scale.heading}, {spread}{over}; {'; '.join(brief(accuracies))}.", *said]
    )


def _other(table: ComparisonTable, part: TextTable) -> str:
    """Say what a further table holds, by its head."""
    corner, *columns = part.head
    if corner.startswith("minus "):
        differences = f"Differences to {corner.removeprefix('minus ')} in {table.scale.difference}, paired by seed"
        return f"{_title(table)}. {differences}, with 95 % t intervals of the mean."
    return f"{_title(table)}: {', '.join(columns)}."


def _title(table: ComparisonTable) -> str:
    """Return the title as a sentence begins; the name of a file stays as it is."""
    return table.title if "." in table.title.partition(",")[0] else capital(table.title)
