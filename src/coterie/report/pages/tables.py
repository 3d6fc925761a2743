"""The tables of a comparison's page: means over seeds, differences to the baseline, choices, and all runs."""

import shlex
from collections.abc import Mapping, Sequence

from coterie.report.comparison import (
    DIFFERENCE,
    LEGEND,
    RULE,
    TARGET,
    accuracy_text,
    difference_text,
    mean_text,
    plain_text,
    reached_texts,
)
from coterie.report.pages.clients import worst_over_seeds
from coterie.report.pages.curves import switch
from coterie.results.charts import Bars, Chart, Section, Series, Table, Told, values
from coterie.results.comparison_table import ComparisonRow, ComparisonTable, Reached
from coterie.results.comparisons import StoredComparison
from coterie.results.protocols import COMPARED
from coterie.results.statistics import Difference, Spread


def _told(spread: Spread | None, text: str, factor: float = 1) -> Told:
    """Return a cell of a table."""
    return Told(text, None if spread is None else factor * spread.mean)


def main_table(compared: StoredComparison) -> Section:
    """Show means over seeds, and when targets were reached."""
    table, seeds = compared.table, len(compared.table.seeds)
    goals = table.rows[0].reached
    columns = [f"{name} (%)" for name in COMPARED.values()]
    columns += ["worst tenth, L (%)", "groups", "ARI", "MB", "seconds"]
    cells = [_line(row, compared, seeds) for row in table.rows]
    kept = [c for c in range(len(columns)) if any(line[c].text != "–" for line in cells)]
    protocols = list(COMPARED)
    bold = {(r, protocols.index(p)) for r, row in enumerate(table.rows) for p in COMPARED if table.best(p) == row.label}
    note = [LEGEND, "Worst tenth: the mean of the clients with the lowest L, in each seed."]
    note += [RULE.format(mark="Bold")] * bool(bold)
    main = Table(
        title="Mean ± standard deviation over seeds" if seeds > 1 else "One seed",
        columns=(compared.what, *(columns[c] for c in kept)),
        rows=tuple((row.label, *(line[c] for c in kept)) for row, line in zip(table.rows, cells, strict=True)),
        bold=tuple((r, kept.index(c) + 1) for r, c in sorted(bold)),
        note=" ".join(note),
    )
    aims = Table(
        title="Rounds and megabytes to a target",
        columns=(compared.what, *(f"{what} to {goal.target}" for goal in goals for what in ("rounds", "MB"))),
        rows=tuple((row.label, *(cell for reached in row.reached for cell in _goal(reached))) for row in table.rows),
        note=f"{TARGET} –: the protocol is not defined.",
    )
    return Section(heading="The table", blocks=(main, aims) if goals else (main,))


def _line(row: ComparisonRow, compared: StoredComparison, seeds: int) -> list[Told]:
    low = worst_over_seeds([*compared.runs[row.label].values()])
    return [
        *(_told(row.accuracy[p], accuracy_text(row.accuracy[p], seeds), 100) for p in COMPARED),
        _told(low, accuracy_text(low and Spread(low.n, low.mean / 100, low.std and low.std / 100), seeds)),
        _told(row.groups, plain_text(row.groups)),
        _told(row.ari, plain_text(row.ari, 2)),
        _told(row.megabytes, mean_text(row.megabytes, 2)),
        _told(row.seconds, mean_text(row.seconds, 1)),
    ]


def _goal(reached: Reached) -> tuple[Told, Told]:
    rounds, megabytes = reached_texts(reached)
    return Told(rounds, reached.rounds), Told(megabytes, reached.megabytes)


def differences_section(compared: StoredComparison) -> Section | None:
    """Show paired differences to the baseline, with their intervals."""
    table = compared.table
    if len(table.rows) < 2:
        return None
    others = {row.label: row.differences for row in table.rows if row.differences is not None}
    by_protocol = {
        protocol: shown
        for protocol in COMPARED
        if (shown := {label: difference for label, of in others.items() if (difference := of[protocol]) is not None})
    }
    heading, texts = f"Differences to {table.baseline}", list[str]()
    measured = [p for p in COMPARED if any(row.accuracy[p] is not None for row in table.rows)]
    lacking = [COMPARED[protocol] for protocol in measured if protocol not in by_protocol]
    if lacking:
        texts.append(
            f"Under {', '.join(lacking)} there are no differences: {table.baseline} and another {compared.what} have "
            "no numbers of the same seed."
        )
    if len(table.seeds) == 1:
        texts.append("One seed only: there are no intervals, and a difference may be chance.")
    if not by_protocol:
        return Section(heading=heading, text=tuple(texts)) if texts else None
    variants = [(COMPARED[p], _difference_bars(table, COMPARED[p], shown)) for p, shown in by_protocol.items()]
    blocks = (*switch("Protocol", variants), _difference_table(table, others, [*by_protocol]))
    return Section(heading=heading, text=tuple(texts), blocks=blocks)


def _difference_bars(table: ComparisonTable, name: str, shown: Mapping[str, Difference]) -> Chart:
    low, high = (values((getattr(difference, end) for difference in shown.values()), 100) for end in ("low", "high"))
    whiskers = any(number is not None for number in low)
    return Bars(
        title=f"{name} minus {name} of {table.baseline}",
        x_label=table.what,
        y_label="percentage points",
        categories=tuple(shown),
        series=(
            Series(
                name=f"minus {table.baseline}",
                y=values((difference.mean for difference in shown.values()), 100),
                low=low if whiskers else (),
                high=high if whiskers else (),
            ),
        ),
        note="Whiskers: the 95 % interval of the mean. Where it holds 0, seeds can't tell the two apart."
        if whiskers
        else "There is no interval: it needs two seeds or more that do not all differ alike.",
    )


def _difference_table(
    table: ComparisonTable, others: Mapping[str, Mapping[str, Difference | None]], protocols: Sequence[str]
) -> Table:
    seeds = len(table.seeds)

    def cell(difference: Difference | None) -> Told:
        return Told(difference_text(difference, seeds), None if difference is None else difference.mean)

    return Table(
        title=f"Minus {table.baseline}, in percentage points",
        columns=(table.what, *(COMPARED[protocol] for protocol in protocols)),
        rows=tuple((label, *(cell(of[protocol]) for protocol in protocols)) for label, of in others.items()),
        note=DIFFERENCE.format(baseline=table.baseline) if seeds > 1 else "",
    )


def choices(compared: StoredComparison) -> Section | None:
    """Show which settings were chosen on validation samples."""
    if not compared.chosen:
        return None
    return Section(
        heading="Settings chosen on validation samples",
        text=tuple(f"{text}." for text in compared.chosen.values()),
        blocks=(
            Table(
                title="All values tried",
                columns=(compared.what, "tried", "score (%)"),
                rows=tuple((label, tried, values([score], 100)[0]) for label, tried, score in compared.scores),
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
    names = (f"{name} (%)" for name in COMPARED.values())
    failed = ", ".join(f"{a.label}, seed {a.seed}" for a in compared.attempts if a.state.startswith("failed"))
    return Section(
        heading="Runs",
        text=(
            *([f"Failed: {failed}. Tracebacks are beside the folders."] if failed else []),
            *(f"{run.name}: {text}" for _, run in compared.all_runs() for text in run.problems),
            f"A page of one run: `coterie report {shlex.quote(str(compared.path))}/FOLDER`.",
        ),
        blocks=(
            Table(
                title="All runs",
                columns=(compared.what, "seed", "state", *names, "groups", "ARI", "events", "folder"),
                rows=tuple(rows),
                note="Not measured, or no column: it is not defined for the method, or the run is not finished.",
            ).without_empty(),
        ),
    )
