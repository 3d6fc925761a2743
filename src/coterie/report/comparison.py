"""Comparisons as tables: for the terminal, Markdown, CSV and LaTeX."""

from typing import Any

from coterie.report.text_table import TextTable, csv_text, wrapped
from coterie.results.comparison_table import ComparisonRow, ComparisonTable, Reached
from coterie.results.formats import TableFormat
from coterie.results.protocols import COMPARED, brief
from coterie.results.statistics import Difference, Spread

LEGEND = (
    "Accuracy in %, mean ± standard deviation over seeds (n - 1). "
    + "; ".join(brief(COMPARED.values()))
    + "; –: not defined. ARI: agreement of groups with the true ones. MB: megabytes to and from clients in training. "
    "Seconds: of a run beside others."
)
TARGET = (
    "Rounds and megabytes to a target: at the first evaluation that reached it, mean over the seeds that did (how many "
    "of them, where not all)."
)
RULE = (
    "{mark}: the highest mean of those with every seed, and distinguishable from each of the others: paired t test, "
    "p < 0.05 divided by the number of others (Bonferroni)."
)
DIFFERENCE = (
    "Differences to {baseline} in percentage points, paired by seed, with 95 % t intervals of the mean, each for "
    "itself (not corrected for several comparisons)."
)


def comparison_text(table: ComparisonTable, format: TableFormat) -> str:
    """Write a comparison in a format."""
    if format == "csv":
        return _csv(table)
    tables = _tables(table)
    if format == "text":
        prose = wrapped([*table.notes, *_legend(table, "*")], 100)
        return "\n\n".join([table.title, *(part.text() for part in tables), prose]) + "\n"
    legend = _legend(table, "bold")
    if format == "markdown":
        return "\n\n".join([table.title, *(part.markdown() for part in tables), *table.notes, *legend]) + "\n"
    remarks = [f"% {line}" for line in (table.title, *table.notes, *legend)]
    head = "\n".join([*remarks, "% Needs \\usepackage{booktabs}."])
    return "\n\n".join([head, *(part.latex() for part in tables)]) + "\n"


def _csv(table: ComparisonTable) -> str:
    """Write a line per row with the numbers as they are: accuracies as fractions, nothing where undefined."""
    lines = [_flat(row, table) for row in table.rows]
    return csv_text(lines[0], (line.values() for line in lines))


def _tables(table: ComparisonTable) -> list[TextTable]:
    """Return the tables of a comparison, without columns that have no content."""
    tables = [_main(table)]
    if table.rows[0].reached:
        tables.append(_targets(table))
    if len(table.rows) > 1:
        tables.append(_differences(table))
    return [part for part in (part.without_empty() for part in tables) if len(part.head) > 1]


def _main(table: ComparisonTable) -> TextTable:
    seeds = len(table.seeds)
    return TextTable(
        [table.what, *COMPARED.values(), "groups", "ARI", "MB", "seconds"],
        [
            [
                row.label,
                *(accuracy_text(row.accuracy[protocol], seeds) for protocol in COMPARED),
                *(plain_text(row.groups), plain_text(row.ari, 2)),
                *(mean_text(row.megabytes, 2), mean_text(row.seconds, 1)),
            ]
            for row in table.rows
        ],
        bold={
            (r, c)
            for r, row in enumerate(table.rows)
            for c, protocol in enumerate(COMPARED, 1)
            if table.best(protocol) == row.label
        },
    )


def _targets(table: ComparisonTable) -> TextTable:
    heads = [f"{what} to {reached.target}" for reached in table.rows[0].reached for what in ("rounds", "MB")]
    rows = [[row.label, *(text for reached in row.reached for text in reached_texts(reached))] for row in table.rows]
    return TextTable([table.what, *heads], rows)


def _differences(table: ComparisonTable) -> TextTable:
    others = {row.label: row.differences for row in table.rows if row.differences is not None}
    return TextTable(
        [f"minus {table.baseline}", *COMPARED.values()],
        [[label, *(difference_text(of[p], len(table.seeds)) for p in COMPARED)] for label, of in others.items()],
    )


def _legend(table: ComparisonTable, mark: str) -> list[str]:
    lines = [LEGEND]
    if table.rows[0].reached:
        lines.append(TARGET)
    if any(table.best(protocol) for protocol in COMPARED):
        lines.append(RULE.format(mark=mark))
    if len(table.rows) > 1 and len(table.seeds) > 1:
        lines.append(DIFFERENCE.format(baseline=table.baseline))
    return lines


def accuracy_text(spread: Spread | None, seeds: int) -> str:
    """Write an accuracy in %, with its spread, and how many seeds it is of where not all."""
    if spread is None:
        return "–"
    text = f"{100 * spread.mean:.2f}" + ("" if spread.std is None else f" ± {100 * spread.std:.2f}")
    return text if spread.n == seeds else f"{text} ({spread.n} of {seeds})"


def plain_text(spread: Spread | None, digits: int = 1) -> str:
    """Write a number that may be the same in all seeds."""
    if spread is None:
        return "–"
    if not spread.std:
        return f"{spread.mean:g}" if digits == 1 and spread.mean == int(spread.mean) else f"{spread.mean:.{digits}f}"
    return f"{spread.mean:.{digits}f} ± {spread.std:.{digits}f}"


def mean_text(spread: Spread | None, digits: int) -> str:
    """Write a mean."""
    return "–" if spread is None else f"{spread.mean:.{digits}f}"


def reached_texts(reached: Reached) -> tuple[str, str]:
    """Write rounds and megabytes until a target was reached, and by how many seeds where not by all."""

    def text(value: float | None, digits: int) -> str:
        if not reached.seeds or value is None:
            return "never" if reached.seeds else "–"
        return f"{value:.{digits}f}" + ("" if reached.n == reached.seeds else f" ({reached.n} of {reached.seeds})")

    return text(reached.rounds, 1), text(reached.megabytes, 2)


def difference_text(difference: Difference | None, seeds: int) -> str:
    """Write a difference in percentage points, with its interval."""
    if difference is None:
        return "–"
    text = f"{100 * difference.mean:+.2f}"
    if difference.low is not None and difference.high is not None:
        text += f" [{100 * difference.low:+.2f}, {100 * difference.high:+.2f}]"
    return text if difference.n == seeds else f"{text} ({difference.n} of {seeds})"


def _flat(row: ComparisonRow, table: ComparisonTable) -> dict[str, Any]:
    """Return a row's numbers under names of their own."""
    flat: dict[str, Any] = {"method": row.label, "runs": row.runs}
    for protocol in COMPARED:
        accuracy, gain = row.accuracy[protocol], row.differences and row.differences[protocol]
        flat |= {
            f"{protocol}_n": accuracy.n if accuracy else 0,
            f"{protocol}_mean": accuracy and accuracy.mean,
            f"{protocol}_std": accuracy and accuracy.std,
            f"{protocol}_best": table.best(protocol) == row.label,
            f"{protocol}_difference": gain and gain.mean,
            f"{protocol}_low": gain and gain.low,
            f"{protocol}_high": gain and gain.high,
        }
    for name, numbers in (("groups", row.groups), ("ari", row.ari), ("megabytes", row.megabytes)):
        flat |= {f"{name}_mean": numbers and numbers.mean, f"{name}_std": numbers and numbers.std}
    flat["seconds_mean"] = row.seconds and row.seconds.mean
    for reached in row.reached:
        flat |= {
            f"reached_{reached.target}_n": reached.n,
            f"rounds_to_{reached.target}": reached.rounds,
            f"megabytes_to_{reached.target}": reached.megabytes,
        }
    return flat
