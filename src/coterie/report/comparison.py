"""Comparisons as tables: for the terminal, Markdown, CSV and LaTeX, and on pages."""

import shlex
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from itertools import product
from typing import Any

from coterie.report.html_tables import html
from coterie.report.pages.clients import worst_over_seeds
from coterie.report.pages.curves import switch
from coterie.report.text_table import NOT_MEASURED, TextTable, csv_text, document
from coterie.results.charts import Bars, Chart, NumberCell, Section, Series, Table, values
from coterie.results.comparison_folder import values_text
from coterie.results.comparison_table import COLUMNS, Column, ComparisonRow, ComparisonTable, Reached, heading_of
from coterie.results.comparisons import StoredComparison
from coterie.results.events import not_measured
from coterie.results.formats import TableFormat
from coterie.results.metrics import ACCURACY
from coterie.results.protocols import COMPARED, brief
from coterie.results.statistics import Difference, Spread

TARGET = (
    "Rounds and megabytes to a target: at the first evaluation that reached it, mean over the seeds that did (how many "
    "of them, where not all)."
)
RULE = (
    "{mark}: the {best} mean of those with every seed, and significantly better than each of the others: paired t "
    "test, p < 0.05 divided by the number of others (Bonferroni)."
)
DIFFERENCE = (
    "Differences to {baseline} in {unit}, paired by seed, with 95 % t intervals of the mean, each for "
    "itself (not corrected for several comparisons)."
)

HEADINGS = [column.heading for column in COLUMNS]
"""Of the columns beside accuracies."""
Labelled = list[tuple[str, list[NumberCell]]]
"""Rows of a table, each with its label."""


def comparison_text(table: ComparisonTable, format: TableFormat, columns: Sequence[str] = ()) -> str:
    """Write a comparison as text, Markdown or CSV."""
    if format == "csv":  # numbers as they are: accuracies as fractions, nothing where undefined
        lines = [_flat(row, table) for row in table.rows]
        return csv_text(lines[0], (line.values() for line in lines))
    best = [_rule(table, "*" if format == "text" else "bold")] * any(map(table.best, COMPARED))
    tables = [("", part) for part in comparison_tables(table, _best(table), columns)]
    return document(format, [table.title], tables, notes_and_legend(table, best), 100)


def comparison_html(table: ComparisonTable) -> str:
    """Write a comparison for a notebook."""
    best = [_rule(table, "bold")] * any(map(table.best, COMPARED))
    return html(table.title, comparison_tables(table, _best(table)), notes_and_legend(table, best))


def comparison_tables(
    table: ComparisonTable, bold: Collection[tuple[int, int]], chosen: Sequence[str] = (), narrow: bool = False
) -> list[TextTable]:
    """Return the tables of a comparison, without columns that have no content; of `chosen` columns one.

    If they must be `narrow`, accuracies by group stand in a table of their own, too.
    """
    columns, cells = [*COMPARED.values(), *HEADINGS], [(row.label, _cells(row, table)) for row in table.rows]
    whole = replace(_text_table(table.noun, columns, cells), bold=bold)
    if chosen:
        return [whole.chosen([heading_of(name) for name in chosen])]
    apart = [column.heading for column in COLUMNS if column.apart or (narrow and column.accuracy)]
    tables = [whole.only([name for name in columns if name not in apart]), whole.only(apart)]
    if table.rows[0].reached:
        tables.append(_text_table(table.noun, *_targets(table)))
    if len(table.rows) > 1:
        columns, rows = [*COMPARED.values()], _differences(table, [*COMPARED])
        tables.append(_text_table(f"minus {table.baseline}", columns, rows))
    return [part for part in (part.without_empty() for part in tables) if len(part.head) > 1]


def _text_table(corner: str, columns: Sequence[str], rows: Labelled) -> TextTable:
    return TextTable([corner, *columns], [[label, *(cell.text for cell in cells)] for label, cells in rows])


def _rule(table: ComparisonTable, mark: str) -> str:
    """Say what it means that a number is marked."""
    return RULE.format(mark=mark, best=table.scale.best)


def _cells(row: ComparisonRow, table: ComparisonTable) -> list[NumberCell]:
    """Return the means of a row: accuracies, and `COLUMNS`."""
    factor = table.scale.factor
    return [
        *(_cell(row.accuracy[protocol], _accuracy_of(row, protocol, table), factor) for protocol in COMPARED),
        *(
            _cell(spread, _number_text(spread, column, table), factor if column.accuracy else 1)
            for column, spread in _numbers(row)
        ),
    ]


def _cell(number: Spread | Difference | None, text: str, factor: float = 1) -> NumberCell:
    return NumberCell(text, None if number is None else factor * number.mean)


def _best(table: ComparisonTable) -> list[tuple[int, int]]:
    """Return the cells of those who are significantly the best, (row, column)."""
    best = [table.best(protocol) for protocol in COMPARED]
    return [(r, c) for r, row in enumerate(table.rows) for c, label in enumerate(best, 1) if label == row.label]


def _targets(table: ComparisonTable) -> tuple[list[str], Labelled]:
    """Return columns and rows of when targets were reached."""
    columns = [f"{quantity} to {reached.target}" for reached in table.rows[0].reached for quantity in ("rounds", "MB")]
    return columns, [(row.label, [cell for reached in row.reached for cell in _reached(reached)]) for row in table.rows]


def _differences(table: ComparisonTable, protocols: Sequence[str]) -> Labelled:
    """Return the differences to the baseline, by label."""
    return [
        (row.label, [_cell(row.differences[p], difference_text(row.differences[p], table)) for p in protocols])
        for row in table.rows
        if row.differences is not None
    ]


def notes_and_legend(table: ComparisonTable, marked: Sequence[str]) -> list[str]:
    """Return what a reader must know; `marked` says what it means that a number is marked."""
    lines = [*table.notes, _legend(table)]
    if table.rows[0].reached:
        lines.append(TARGET)
    lines += marked
    if len(table.rows) > 1 and len(table.seeds) > 1:
        lines.append(DIFFERENCE.format(baseline=table.baseline, unit=table.scale.difference))
    return lines


def _legend(table: ComparisonTable) -> str:
    """Say what the columns mean that have a number in any row."""
    numbers = dict.fromkeys(column for row in table.rows for column, spread in _numbers(row) if spread is not None)
    protocols = [symbol for key, symbol in COMPARED.items() if any(row.accuracy[key] for row in table.rows)]
    told = "; ".join([*brief(protocols), "–: not defined"])
    return f"{table.scale.heading}, mean ± standard deviation over seeds (n - 1). {told}. " + " ".join(
        column.legend for column in COLUMNS if column in numbers and column.legend
    )


def _accuracy_of(row: ComparisonRow, protocol: str, table: ComparisonTable) -> str:
    """Write an accuracy; where there is none, whether that is because of the method or of what went wrong."""
    missing = row.accuracy[protocol] is None and (not row.runs or protocol in not_measured(row.accuracy))
    return NOT_MEASURED if missing else accuracy_text(row.accuracy[protocol], table)


def accuracy_text(spread: Spread | None, table: ComparisonTable) -> str:
    """Write an accuracy, with its spread, and how many seeds it is of where not all."""
    if spread is None:
        return "–"
    shown, seeds = table.scale, len(table.seeds)
    text = shown.written(spread.mean) + ("" if spread.std is None else f" ± {shown.written(spread.std)}")
    return text if spread.n == seeds else f"{text} ({spread.n} of {seeds})"


def _numbers(row: ComparisonRow) -> list[tuple[Column, Spread | None]]:
    return [(column, getattr(row, column.key)) for column in COLUMNS]


def _number_text(spread: Spread | None, column: Column, table: ComparisonTable) -> str:
    """Write a mean, with its spread where the column has one and seeds differ; of whole numbers without a point."""
    if column.accuracy:
        return accuracy_text(spread, table)
    if spread is None:
        return "–"
    mean = f"{spread.mean:.{column.digits}f}"
    if not column.with_spread:
        return mean
    if spread.std:
        return f"{mean} ± {spread.std:.{column.digits}f}"
    return f"{spread.mean:g}" if column.digits == 1 and spread.mean == int(spread.mean) else mean


def _reached(reached: Reached) -> list[NumberCell]:
    """Return rounds and megabytes until a target was reached, and by how many seeds where not by all."""

    def text(value: float | None, digits: int) -> str:
        if not reached.seeds or value is None:
            return "never" if reached.seeds else "–"
        return f"{value:.{digits}f}" + ("" if reached.n == reached.seeds else f" ({reached.n} of {reached.seeds})")

    return [NumberCell(text(number, k), number) for number, k in ((reached.rounds, 1), (reached.megabytes, 2))]


def difference_text(difference: Difference | None, table: ComparisonTable) -> str:
    """Write a difference in percentage points, or in the unit of an error, with its interval."""
    if difference is None:
        return "–"
    shown, seeds = table.scale, len(table.seeds)
    text = shown.shown(shown.factor * difference.mean, sign="+")
    if difference.low is not None and difference.high is not None:
        low, high = (shown.shown(shown.factor * end, sign="+") for end in (difference.low, difference.high))
        text += f" [{low}, {high}]"
    return text if difference.n == seeds else f"{text} ({difference.n} of {seeds})"


def _flat(row: ComparisonRow, table: ComparisonTable) -> dict[str, Any]:
    """Return a row's numbers under names of their own."""
    named = {} if table.metric == ACCURACY else {"metric": table.metric}
    flat: dict[str, Any] = {"method": row.label, "runs": row.runs, **named}
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
    for column, spread in _numbers(row):
        flat |= {f"{column.key}_{name}": spread and getattr(spread, name) for name in column.in_csv}
    for reached in row.reached:
        flat |= {
            f"reached_{reached.target}_n": reached.n,
            f"rounds_to_{reached.target}": reached.rounds,
            f"megabytes_to_{reached.target}": reached.megabytes,
        }
    return flat


def main_table(compared: StoredComparison) -> Section:
    """Show means over seeds, and when targets were reached."""
    table, seeds, place = compared.table, len(compared.table.seeds), len(COMPARED)
    shown, headings = table.scale, [f"{c.heading}{table.scale.unit}" if c.accuracy else c.heading for c in COLUMNS]
    rows: list[tuple[str | NumberCell, ...]] = []
    for row in table.rows:
        low, cells, factor = worst_over_seeds([*compared.runs[row.label].values()]), _cells(row, table), shown.factor
        worst = _cell(low, accuracy_text(low and Spread(low.n, low.mean / factor, low.std and low.std / factor), table))
        rows.append((row.label, *cells[:place], worst, *cells[place:]))
    bold = tuple(_best(table))
    note = [
        _legend(table),
        f"Worst tenth: the mean of the clients with the {'highest' if shown.is_error else 'lowest'} L, in each seed.",
    ]
    main = Table(
        title="Mean ± standard deviation over seeds" if seeds > 1 else "One seed",
        columns=(table.noun, *(f"{name}{shown.unit}" for name in (*COMPARED.values(), "worst tenth, L")), *headings),
        rows=tuple(rows),
        bold=bold,
        note=" ".join(note + [_rule(table, "Bold")] * bool(bold)),
    )
    columns, aims = _targets(table)
    title = "Rounds and megabytes to a target"
    reached = _page_table(title, table.noun, columns, aims, f"{TARGET} –: the protocol is not defined.")
    return Section(heading="The table", blocks=(main.without_empty(), *[reached] * bool(columns)))


def _page_table(title: str, corner: str, columns: Sequence[str], rows: Labelled, note: str) -> Table:
    lines: list[tuple[str | NumberCell, ...]] = [(label, *cells) for label, cells in rows]
    return Table(title=title, columns=(corner, *columns), rows=tuple(lines), note=note)


def differences_section(compared: StoredComparison) -> Section | None:
    """Show paired differences to the baseline, with their intervals."""
    table = compared.table
    if len(table.rows) < 2:
        return None
    by_protocol: dict[str, dict[str, Difference]] = {}
    for row, protocol in product(table.rows, COMPARED):
        if row.differences is not None and (difference := row.differences[protocol]) is not None:
            by_protocol.setdefault(protocol, {})[row.label] = difference
    heading, texts = "Differences to the baseline", list[str]()
    measured = [p for p in COMPARED if any(row.accuracy[p] is not None for row in table.rows)]
    lacking = [COMPARED[protocol] for protocol in measured if protocol not in by_protocol]
    if lacking:
        texts.append(
            f"Under {', '.join(lacking)} there are no differences: {table.baseline} and another {table.noun} have "
            "no numbers of the same seed."
        )
    if len(table.seeds) == 1:
        texts.append("One seed only: there are no intervals, and a difference may be chance.")
    if not by_protocol:
        return Section(heading=heading, text=tuple(texts)) if texts else None
    variants = [(COMPARED[p], _difference_bars(table, COMPARED[p], by_label)) for p, by_label in by_protocol.items()]
    title, names = (
        f"Minus {table.baseline}, in {table.scale.difference}",
        [COMPARED[protocol] for protocol in by_protocol],
    )
    note = DIFFERENCE.format(baseline=table.baseline, unit=table.scale.difference) if len(table.seeds) > 1 else ""
    grid = _page_table(title, table.noun, names, _differences(table, [*by_protocol]), note)
    return Section(heading=heading, text=tuple(texts), blocks=(*switch("Protocol", variants), grid))


def _difference_bars(table: ComparisonTable, name: str, by_label: Mapping[str, Difference]) -> Chart:
    factor = table.scale.factor
    low, high = (values((getattr(each, end) for each in by_label.values()), factor) for end in ("low", "high"))
    whiskers = any(number is not None for number in low)
    return Bars(
        title=f"{name} minus {name} of {table.baseline}",
        x_label=table.noun,
        y_label=table.scale.difference,
        categories=tuple(by_label),
        series=(
            Series(
                name=f"minus {table.baseline}",
                y=values((difference.mean for difference in by_label.values()), factor),
                low=low if whiskers else (),
                high=high if whiskers else (),
            ),
        ),
        note="Whiskers: the 95 % interval of the mean. Where it holds 0, the two are not significantly different."
        if whiskers
        else "There is no interval: it needs at least two seeds with different differences.",
    )


def choices(compared: StoredComparison) -> Section | None:
    """Show which settings were chosen on validation samples."""
    if not compared.chosen:
        return None
    shown = compared.table.scale
    return Section(
        heading="Settings chosen on validation samples",
        text=tuple(f"{text}." for text in compared.chosen.values()),
        blocks=(
            Table(
                title="All values tried",
                columns=(compared.table.noun, "tried", f"score{shown.unit}"),
                rows=tuple(
                    (label, values_text(tried), values([score], shown.factor)[0])
                    for label, choice in compared.tuned.items()
                    for tried, score in choice.scores
                ),
                note="Not measured: the run failed, or the protocol is not defined. Test samples played no part.",
            ),
        ),
    )


def all_runs(compared: StoredComparison) -> Section:
    """Show what became of each run."""
    rows = []
    for attempt in compared.attempts:
        run = compared.runs[attempt.label].get(attempt.seed)
        numbers: list[float | None] = [None] * (len(COMPARED) + 3)
        if run is not None:
            numbers = [*map(run.accuracy, COMPARED), run.group_count, run.ari, run.event_count]
        rows.append((attempt.label, attempt.seed, attempt.state, *numbers, attempt.folder))
    names = (f"{name}{compared.table.scale.unit}" for name in COMPARED.values())
    failed = ", ".join(f"{a.label}, seed {a.seed}" for a in compared.attempts if a.state.startswith("failed"))
    return Section(
        heading="Runs",
        text=(
            *([f"Failed: {failed}. Tracebacks are beside the folders."] if failed else []),
            *(f"{run.name}: {text}" for _, run in compared.all_runs() for text in run.warnings),
            f"A page of one run: `coterie report {shlex.quote(str(compared.path))}/FOLDER`.",
        ),
        blocks=(
            Table(
                title="All runs",
                columns=(compared.table.noun, "seed", "state", *names, "groups", "ARI", "events", "folder"),
                rows=tuple(rows),
                note="Not measured, or no column: it is not defined for the method, or the run is not finished.",
            ).without_empty(),
        ),
    )
