"""The page of a comparison or a sweep: several methods, or settings, over seeds."""

from __future__ import annotations

import shlex
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from coterie.report.charts import (
    Bars,
    Block,
    Chart,
    Code,
    Distribution,
    Fact,
    Lines,
    Mark,
    Page,
    Sample,
    Section,
    Series,
    Switch,
    Told,
    Value,
    Values,
    values,
    worst_of,
)
from coterie.report.charts import Table as Grid
from coterie.report.comparison import DIFFERENCE, LEGEND, PROTOCOLS, RULE, TARGET, Reached, Row, Table, undecided
from coterie.report.comparison import _accuracy as accuracy_text
from coterie.report.comparison import _difference as difference_text
from coterie.report.comparison import _mean as mean_text
from coterie.report.comparison import _plain as plain_text
from coterie.report.comparison import _reached as reached_text
from coterie.report.run_page import CURVES, WORST, _megabytes
from coterie.report.run_page import PROTOCOLS as MEANINGS
from coterie.report.runs import Run
from coterie.report.statistics import Spread, spread

MANY = 21
"""Lines in one chart that can still be told apart."""
RANKED = 6
"""Names that a sentence of the summary lists."""


@dataclass(frozen=True)
class Attempt:
    """A run of a comparison: which, and what became of it."""

    label: str
    seed: int
    state: str
    """``finished``, or in words."""
    folder: str


@dataclass(frozen=True)
class Compared:
    """What the folder of a comparison or a sweep holds, for its page."""

    path: Path
    table: Table
    runs: Mapping[str, Mapping[int, Run]]
    """Those that are finished, by label and seed."""
    attempts: Sequence[Attempt]
    """All that were asked for."""
    text: str
    """Of comparison.toml."""
    sweep: bool = False
    settings: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Of a sweep: the values of the varied keys, by label."""
    alone: Mapping[str, str] = field(default_factory=dict)
    """From a label to that of SOLO on the same data and parts."""
    chosen: Mapping[str, str] = field(default_factory=dict)
    """Which settings were chosen on validation samples, in words, by label."""
    scores: Sequence[tuple[str, str, float | None]] = ()
    """Label, values tried, and their score on validation samples."""
    targets: Sequence[str] = ()
    problems: Sequence[str] = ()

    @property
    def labels(self) -> list[str]:
        """All of them, in order."""
        return [row.label for row in self.table.rows]

    @property
    def what(self) -> str:
        """What the labels are."""
        return self.table.what


def comparison_page(compared: Compared, first: Sequence[Section] = ()) -> Page:
    """Return the page of a comparison; `first` are sections that come before the others."""
    sections = [
        *first,
        _table(compared),
        _differences(compared),
        _rounds(compared),
        _clients(compared),
        _alone(compared),
        _traffic(compared),
        _groups(compared),
        _chosen(compared),
        _runs(compared),
        _configuration(compared),
    ]
    labels = compared.labels
    listed = ", ".join(labels[:RANKED]) + (f" and {len(labels) - RANKED} more" if len(labels) > RANKED else "")
    keys = list(dict.fromkeys(key for one in compared.settings.values() for key in one))
    return Page(
        title=f"Sweep of {', '.join(keys)}" if compared.sweep else f"Comparison: {listed}",
        summary=_summary(compared),
        facts=_facts(compared.table),
        sections=tuple(section for section in sections if section is not None),
    )


# ------------------------------------------------------------------------------------------------------------ summary


def _summary(compared: Compared) -> tuple[str, ...]:
    table = compared.table
    done = sum(attempt.state == "finished" for attempt in compared.attempts)
    texts = [
        f"{len(compared.labels)} {compared.what}s on {table.title}. "
        + ("All " if done == len(compared.attempts) else f"{done} of ")
        + f"{len(compared.attempts)} runs are finished."
    ]
    if done < len(compared.attempts):
        texts.append(_missing(compared))
    verdicts = [text for protocol in PROTOCOLS if (text := verdict(table, protocol))]
    texts += verdicts or ["No accuracy was measured."]
    said = {*undecided(table.leaders, table.seeds), *(f"{text}." for text in compared.chosen.values())}
    said |= {f"{a.label}, seed {a.seed}, {a.state}" for a in compared.attempts}
    notes = [note for note in table.notes if note not in said]
    return (*texts, *([" ".join(notes)] if notes else []), *compared.problems)


def _missing(compared: Compared) -> str:
    """Say which runs there are not, and how to make them."""
    lost = [attempt for attempt in compared.attempts if attempt.state != "finished"]
    told = "; ".join(f"{a.label}, seed {a.seed}: {a.state}" for a in lost[:RANKED])
    more = f"; and {len(lost) - RANKED} more" if len(lost) > RANKED else ""
    return (
        f"Missing: {told}{more}. Everything below is of the finished runs only, and may change. "
        f"`coterie resume {shlex.quote(str(compared.path))}` makes what is missing."
    )


def verdict(table: Table, protocol: str) -> str:
    """Say who is best under a protocol, and whether that can be told; empty if nobody has a number."""
    known = [(found, row.label) for row in table.rows if (found := row.accuracy[protocol]) is not None]
    if not known:
        return ""
    known.sort(key=lambda pair: -pair[0].mean)
    some = {label: f" ({found.n} of {len(table.seeds)} seeds)" * (found.n < len(table.seeds)) for found, label in known}
    ranked = "; ".join(f"{label}: {100 * found.mean:.1f} %{some[label]}" for found, label in known[:RANKED])
    text = f"{PROTOCOLS[protocol]}, from the highest: {ranked}{'; …' if len(known) > RANKED else ''}"
    if len(known) == 1:
        return f"{PROTOCOLS[protocol]}: {ranked}" + (f". No other {table.what} has a number." * (len(table.rows) > 1))
    best = table.leaders[protocol]
    if best is None:
        return f"{text}. None has a number of every seed, so that none is called the best."
    if len(table.seeds) == 1:
        return f"{text}. One seed can't tell whether that is chance."
    if best.clear:
        return f"{text}. {best.label} is distinguishable from each of the others as the best."
    others = "any other" if len(best.rivals) == len(known) - 1 else ", ".join(best.rivals[:RANKED])
    more = f" and {len(best.rivals) - RANKED} more" if others != "any other" and len(best.rivals) > RANKED else ""
    return f"{text}. {len(table.seeds)} seeds can't tell {best.label}, the highest, from {others}{more}."


def _facts(table: Table) -> tuple[Fact, ...]:
    facts = []
    for protocol, name in PROTOCOLS.items():
        found = table.leaders[protocol]
        mean = None if found is None else table[found.label].accuracy[protocol]
        if found is not None and mean is not None:
            sure = "distinguishable" if found.clear else "not distinguishable" if len(table.seeds) > 1 else "one seed"
            facts.append(Fact(name=f"highest {name}", value=f"{100 * mean.mean:.2f} %", note=f"{found.label}; {sure}"))
    return tuple(facts)


# ------------------------------------------------------------------------------------------------------------- tables


def told(found: Spread | None, text: str, factor: float = 1) -> Told:
    """Return a cell of a table."""
    return Told(text, None if found is None else factor * found.mean)


def _table(compared: Compared) -> Section:
    table, seeds = compared.table, len(compared.table.seeds)
    goals = table.rows[0].reached
    columns = [f"{name} (%)" for name in PROTOCOLS.values()]
    columns += ["worst tenth, L (%)", "groups", "ARI", "MB", "seconds"]
    cells = [_line(row, compared, seeds) for row in table.rows]
    kept = [c for c in range(len(columns)) if any(line[c].text != "–" for line in cells)]
    protocols = list(PROTOCOLS)
    bold = {
        (r, protocols.index(p)) for r, row in enumerate(table.rows) for p in PROTOCOLS if table.best(p) == row.label
    }
    note = [LEGEND, "Worst tenth: the mean of the clients with the lowest L, in each seed."]
    note += [RULE.format(mark="Bold")] * bool(bold)
    main = Grid(
        title="Mean ± standard deviation over seeds" if seeds > 1 else "One seed",
        columns=(compared.what, *(columns[c] for c in kept)),
        rows=tuple((row.label, *(line[c] for c in kept)) for row, line in zip(table.rows, cells, strict=True)),
        bold=tuple((r, kept.index(c) + 1) for r, c in sorted(bold)),
        note=" ".join(note),
    )
    aims = Grid(
        title="Rounds and megabytes to a target",
        columns=(compared.what, *(f"{what} to {one.target}" for one in goals for what in ("rounds", "MB"))),
        rows=tuple((row.label, *(cell for one in row.reached for cell in _goal(one))) for row in table.rows),
        note=f"{TARGET} –: the protocol is not defined.",
    )
    return Section(heading="The table", blocks=(main, aims) if goals else (main,))


def _line(row: Row, compared: Compared, seeds: int) -> list[Told]:
    low = worst_tenth([*compared.runs[row.label].values()])
    return [
        *(told(row.accuracy[p], accuracy_text(row.accuracy[p], seeds), 100) for p in PROTOCOLS),
        told(low, accuracy_text(low and Spread(low.n, low.mean / 100, low.std and low.std / 100), seeds)),
        told(row.groups, plain_text(row.groups)),
        told(row.ari, plain_text(row.ari, 2)),
        told(row.megabytes, mean_text(row.megabytes, 2)),
        told(row.seconds, mean_text(row.seconds, 1)),
    ]


def _goal(one: Reached) -> tuple[Told, Told]:
    return (
        Told(reached_text(one, one.rounds, 1), one.rounds),
        Told(reached_text(one, one.megabytes, 2), one.megabytes),
    )


def worst_tenth(runs: Sequence[Run]) -> Spread | None:
    """Return the mean L of the worst tenth of the clients in %, over seeds."""
    found = [worst_of(run.per_client("L"), WORST)[1] for run in runs]
    return spread([number for number in found if number is not None])


def _differences(compared: Compared) -> Section | None:
    """Show paired differences to the baseline, with their intervals."""
    table = compared.table
    if len(table.rows) < 2:
        return None
    others = [(row.label, row.differences) for row in table.rows if row.differences is not None]
    variants: list[tuple[str, Chart]] = []
    for protocol, name in PROTOCOLS.items():
        shown = [(label, found) for label, of in others if (found := of[protocol]) is not None]
        if not shown:
            continue
        bounds = [values((found.low, found.high), 100) for _, found in shown]
        whiskers = any(low is not None for low, _ in bounds)
        chart = Bars(
            title=f"{name} minus {name} of {table.baseline}",
            x_label=compared.what,
            y_label="percentage points",
            categories=tuple(label for label, _ in shown),
            series=(
                Series(
                    name=f"minus {table.baseline}",
                    y=values((found.mean for _, found in shown), 100),
                    low=tuple(low for low, _ in bounds) if whiskers else (),
                    high=tuple(high for _, high in bounds) if whiskers else (),
                ),
            ),
            note="Whiskers: the 95 % interval of the mean. Where it holds 0, seeds can't tell the two apart."
            if whiskers
            else "There is no interval: it needs two seeds or more that do not all differ alike.",
        )
        variants.append((name, chart))
    heading, texts = f"Differences to {table.baseline}", list[str]()
    lacking = [name for name in PROTOCOLS.values() if _any_has(table, name) and name not in dict(variants)]
    if lacking:
        texts.append(
            f"Under {', '.join(lacking)} there are no differences: {table.baseline} and another {compared.what} have "
            "no numbers of the same seed."
        )
    if len(table.seeds) == 1:
        texts.append("One seed only: there are no intervals, and a difference may be chance.")
    if not variants:
        return Section(heading=heading, text=tuple(texts)) if texts else None
    grid = Grid(
        title=f"Minus {table.baseline}, in percentage points",
        columns=(compared.what, *(name for name, _ in variants)),
        rows=tuple(
            (
                label,
                *(
                    Told(difference_text(found, len(table.seeds)), None if found is None else found.mean)
                    for protocol, name in PROTOCOLS.items()
                    if name in dict(variants)
                    for found in [of[protocol]]
                ),
            )
            for label, of in others
        ),
        note=DIFFERENCE.format(baseline=table.baseline) if len(table.seeds) > 1 else "",
    )
    return Section(
        heading=heading, text=tuple(texts), blocks=(Switch(label="Protocol", variants=tuple(variants)), grid)
    )


def _any_has(table: Table, name: str) -> bool:
    return any(PROTOCOLS[p] == name and row.accuracy[p] is not None for row in table.rows for p in PROTOCOLS)


# ------------------------------------------------------------------------------------------------------------- curves


def over_rounds(runs: Sequence[Run], key: str, factor: float = 1) -> tuple[Values, Values, Values, Values, Values]:
    """Return rounds, megabytes, means and the edges of the band, over the rounds in which all runs have a number."""
    found = [dict(zip(run.curve("round"), run.curve(key, factor), strict=True)) for run in runs]
    sent = [dict(zip(run.curve("round"), _megabytes(run), strict=True)) for run in runs]
    rounds = sorted({at for one in found for at in one if at is not None})
    spreads = [_whole([one.get(at) for one in found]) for at in rounds]
    traffic = [_whole([one.get(at) for one in sent]) for at in rounds]
    band = [None if s is None or s.std is None else s.std for s in spreads]
    means = values(None if s is None else s.mean for s in spreads)
    edges = [
        values(None if m is None or d is None else m + sign * d for m, d in zip(means, band, strict=True))
        for sign in (-1, 1)
    ]
    many = len(runs) > 1
    return (
        values(rounds),
        values(None if s is None else s.mean for s in traffic),
        means,
        edges[0] if many else (),
        edges[1] if many else (),
    )


def _whole(numbers: Sequence[Value]) -> Spread | None:
    """Return the spread of numbers of which none is missing."""
    known = [number for number in numbers if number is not None]
    return spread(known) if len(known) == len(numbers) else None


def _lines(
    compared: Compared, key: str, factor: float, megabytes: bool = False
) -> tuple[tuple[Series, ...], list[str]]:
    """Return a line per label, and who has numbers but no line, as no round has one of every seed."""
    series, lost = [], []
    for slot, (label, by_seed) in enumerate(compared.runs.items()):
        runs = [*by_seed.values()]
        if not any(number is not None for run in runs for number in run.curve(key)):
            continue
        rounds, sent, means, low, high = over_rounds(runs, key, factor)
        if all(mean is None for mean in means):
            lost.append(label)
            continue
        series.append(Series(name=label, x=sent if megabytes else rounds, y=means, low=low, high=high, slot=slot))
    return tuple(series), lost


def _band(compared: Compared) -> str:
    return (
        "The mean over seeds, where all finished runs have a number; the band is a standard deviation to each side."
        if any(len(of) > 1 for of in compared.runs.values())
        else "One seed: no band."
    )


def _too_many(compared: Compared) -> bool:
    return len(compared.labels) > MANY


def _marks(compared: Compared, key: str) -> tuple[Mark, ...]:
    goals = [(protocol, float(at)) for protocol, _, at in (one.partition("=") for one in compared.targets)]
    return tuple(Mark(at=100 * at, text=f"target {100 * at:g}", axis="y") for protocol, at in goals if protocol == key)


def _rounds(compared: Compared) -> Section:
    heading = "Accuracy over rounds"
    if _too_many(compared):
        return Section(heading=heading, text=(f"More than {MANY} lines can't be told apart: they are not drawn.",))
    variants: list[tuple[str, Chart]] = []
    texts = []
    for key, (name, what) in CURVES.items():
        series, lost = _lines(compared, key, 100)
        if series:
            chart = Lines(
                title=f"Accuracy {name} over rounds",
                x_label="round",
                y_label=f"accuracy {name} (%)",
                series=series,
                marks=_marks(compared, key),
                note=f"{name}: {what}. {_band(compared)}",
            )
            variants.append((name, chart))
        if lost:
            texts.append(f"Not drawn under {name}: {', '.join(lost)}; no round has a number of each seed.")
    if any(row.accuracy["plus"] for row in compared.table.rows):
        variants.append(("+", _final(compared)))
    followed: list[tuple[str, Chart]] = []
    for key, name, note, digits in (
        ("loss", "training loss", "Mean over the local steps of the clients that trained.", 3),
        ("groups", "number of groups", "At each evaluation.", 1),
    ):
        series, _ = _lines(compared, key, 1)
        if series:
            chart = Lines(
                title=f"{name.capitalize()} over rounds",
                x_label="round",
                y_label=name,
                series=series,
                note=f"{note} {_band(compared)}",
                digits=digits,
            )
            followed.append((name, chart))
    blocks = [
        *([Switch(label="Protocol", variants=tuple(variants))] if variants else []),
        *([Switch(label="Show", variants=tuple(followed))] if followed else []),
    ]
    return Section(
        heading=heading,
        text=tuple(texts) if variants else (*texts, "No accuracy was measured in any round."),
        blocks=tuple(blocks),
    )


def _final(compared: Compared) -> Chart:
    shown = [(row.label, found) for row in compared.table.rows if (found := row.accuracy["plus"]) is not None]
    return Bars(
        title="Accuracy + at the end",
        x_label=compared.what,
        y_label="accuracy + (%)",
        categories=tuple(label for label, _ in shown),
        series=(bars("accuracy +", [found for _, found in shown], 100),),
        note=f"+: {MEANINGS['plus'][1]}. It is measured once, after the last round. Whiskers: a standard deviation.",
    )


def bars(name: str, found: Sequence[Spread | None], factor: float = 1, slot: int | None = None) -> Series:
    """Return means as bars or points of a line, with a standard deviation to each side where there is one."""
    ends = [[None if s is None or s.std is None else s.mean + sign * s.std for s in found] for sign in (-1, 1)]
    many = any(end is not None for end in ends[0])
    return Series(
        name=name,
        y=values((None if s is None else s.mean for s in found), factor),
        low=values(ends[0], factor) if many else (),
        high=values(ends[1], factor) if many else (),
        slot=slot,
    )


def _traffic(compared: Compared) -> Section | None:
    if _too_many(compared):
        return None
    variants: list[tuple[str, Chart]] = []
    for key, (name, what) in CURVES.items():
        series, _ = _lines(compared, key, 100, megabytes=True)
        if series:
            chart = Lines(
                title=f"Accuracy {name} against megabytes",
                x_label="MB both ways, in training (mean over seeds)",
                y_label=f"accuracy {name} (%)",
                series=series,
                marks=_marks(compared, key),
                note=f"{name}: {what}. Evaluation is not counted. {_band(compared)}",
            )
            variants.append((name, chart))
    block = Switch(label="Protocol", variants=tuple(variants))
    return Section(heading="Accuracy against megabytes", blocks=(block,)) if variants else None


# ------------------------------------------------------------------------------------------------------------ clients


def _clients(compared: Compared) -> Section:
    variants: list[tuple[str, Chart]] = []
    for protocol in ("L", "C"):
        samples = [
            _pooled(label, {seed: run.per_client(protocol) for seed, run in by_seed.items()})
            for label, by_seed in compared.runs.items()
        ]
        shown = tuple(sample for sample in samples if any(number is not None for number in sample.values))
        if shown:
            what = CURVES[protocol][1].removesuffix("; mean over clients")
            chart = Distribution(
                title=f"Accuracy {protocol} of each client",
                x_label=f"accuracy {protocol} (%)",
                samples=shown,
                worst=WORST,
                note=f"{protocol}: {what}. A point is a client in a run; the clients of all seeds are together.",
            )
            variants.append((protocol, chart))
    text = () if variants else ("Accuracies of single clients are known when a run is finished.",)
    blocks = (Switch(label="Protocol", variants=tuple(variants)),) if variants else ()
    return Section(heading="Accuracy per client", text=text, blocks=blocks)


def _pooled(label: str, by_seed: Mapping[int, Values]) -> Sample:
    return Sample(
        name=label,
        values=tuple(number for numbers in by_seed.values() for number in numbers),
        names=tuple(f"client {c}, seed {seed}" for seed, numbers in by_seed.items() for c in range(len(numbers))),
    )


def gains(compared: Compared, label: str, protocol: str) -> dict[int, Values]:
    """Return what each client gains against SOLO in percentage points, by seed; paired by client and seed."""
    other = compared.runs[compared.alone[label]]
    found: dict[int, Values] = {}
    for seed, run in compared.runs[label].items():
        if seed in other:
            pairs = zip(run.per_client(protocol), other[seed].per_client("L"), strict=False)
            found[seed] = tuple(None if a is None or b is None else a - b for a, b in pairs)
    return found


def _alone(compared: Compared) -> Section | None:
    """Show who gains and who loses against training alone."""
    heading = "Who gains and who loses against SOLO"
    if not compared.alone:
        if compared.sweep:
            return None
        told_why = "This is shown if `solo` with the same data and parts is among the methods."
        return Section(heading=heading, text=(told_why,))
    variants: list[tuple[str, Chart]] = []
    rows = []
    for protocol in ("L", "C"):
        samples = []
        for label in compared.alone:
            by_seed = gains(compared, label, protocol)
            known = [number for numbers in by_seed.values() for number in numbers if number is not None]
            if not known:
                continue
            samples.append(_pooled(label, by_seed))
            up, down = sum(number > 0 for number in known), sum(number < 0 for number in known)
            shares = [100 * many / len(known) for many in (up, down, len(known) - up - down)]
            rows.append((label, protocol, len(known), *shares, statistics.fmean(known), min(known), max(known)))
        if samples:
            chart = Distribution(
                title=f"{protocol} minus L of SOLO, client by client",
                x_label="percentage points",
                samples=tuple(samples),
                worst=0,
                note="A point is a client in a run, compared with the same client of the same seed. Right of 0: gains.",
            )
            variants.append((protocol, chart))
    if not variants:
        return Section(heading=heading, text=("No seed has finished runs of SOLO and of another method.",))
    grid = Grid(
        title="Clients that gain and lose",
        columns=(
            *(compared.what, "protocol", "clients", "gain (%)", "lose (%)", "stay the same (%)"),
            *("mean (points)", "least", "most"),
        ),
        rows=tuple(rows),
        digits=1,
        note="Clients of all seeds together; they are no independent draws, and no interval is given.",
    )
    names = list(dict.fromkeys(compared.alone.values()))
    text = f"SOLO is '{', '.join(names)}': each client trains alone, hence L is its only protocol."
    return Section(heading=heading, text=(text,), blocks=(Switch(label="Protocol", variants=tuple(variants)), grid))


# ------------------------------------------------------------------------------------------------------- groups, runs


def _groups(compared: Compared) -> Section | None:
    """Show how many groups each seed found, and how well they agree with the true ones."""
    seeds = compared.table.seeds
    variants: list[tuple[str, Chart]] = []
    for name, unit, digits, of in (
        ("number", "groups", 0, _group_count),
        ("agreement", "ARI", 2, lambda run: (run.result or {}).get("ari")),
    ):
        found = {label: {s: of(run) for s, run in by_seed.items()} for label, by_seed in compared.runs.items()}
        shown = [label for label, by_seed in found.items() if any(number is not None for number in by_seed.values())]
        if shown:
            chart = Bars(
                title="Groups found in each seed" if unit == "groups" else "Agreement with the true groups (ARI)",
                x_label=compared.what,
                y_label=unit,
                categories=tuple(shown),
                series=tuple(
                    Series(name=f"seed {seed}", y=values(found[label].get(seed) for label in shown)) for seed in seeds
                ),
                digits=digits,
                note="1: the true groups; 0: what chance would give." if unit == "ARI" else "At the end of each run.",
            )
            variants.append((name, chart))
    return Section(heading="Groups", blocks=(Switch(label="Show", variants=tuple(variants)),)) if variants else None


def _group_count(run: Run) -> int | None:
    return None if run.groups is None else len({group for group in run.groups if group is not None})


def _chosen(compared: Compared) -> Section | None:
    if not compared.chosen:
        return None
    return Section(
        heading="Settings chosen on validation samples",
        text=tuple(f"{text}." for text in compared.chosen.values()),
        blocks=(
            Grid(
                title="All values tried",
                columns=(compared.what, "tried", "score (%)"),
                rows=tuple((label, tried, values([score], 100)[0]) for label, tried, score in compared.scores),
                note="Not measured: the run failed, or the protocol is not defined. Test samples played no part.",
            ),
        ),
    )


def _runs(compared: Compared) -> Section:
    rows = []
    for attempt in compared.attempts:
        run = compared.runs[attempt.label].get(attempt.seed)
        numbers = [None if run is None else run.accuracy(protocol) for protocol in PROTOCOLS]
        events = None if run is None or run.result is None else sum(e["count"] for e in run.result["events"])
        more = [None if run is None else _group_count(run), None if run is None else (run.result or {}).get("ari")]
        rows.append((attempt.label, attempt.seed, attempt.state, *numbers, *more, events, attempt.folder))
    names = (f"{name} (%)" for name in PROTOCOLS.values())
    told_of = [
        f"{run.name}: {text}" for by_seed in compared.runs.values() for run in by_seed.values() for text in run.problems
    ]
    failed = [a for a in compared.attempts if a.state.startswith("failed")]
    texts = [f"Failed: {', '.join(f'{a.label}, seed {a.seed}' for a in failed)}. Tracebacks are beside the folders."]
    return Section(
        heading="Runs",
        text=(
            *(texts if failed else ()),
            *told_of,
            f"A page of one run: `coterie report {shlex.quote(str(compared.path))}/FOLDER`.",
        ),
        blocks=(
            Grid(
                title="All runs",
                columns=(compared.what, "seed", "state", *names, "groups", "ARI", "events", "folder"),
                rows=tuple(rows),
                note="Not measured: the protocol is not defined for the method, or the run is not finished.",
            ),
        ),
    )


def _configuration(compared: Compared) -> Section:
    blocks: list[Block] = []
    every = [(label, run) for label, by_seed in compared.runs.items() for run in by_seed.values() if run.result]
    names = list(dict.fromkeys(name for _, run in every for name in (run.result or {}).get("versions", {})))
    found: dict[tuple[str, ...], list[str]] = {}
    for label, run in every:
        result = run.result or {}
        made = (*(str(result.get("versions", {}).get(name, "")) for name in names), result["trainer"], result["engine"])
        found.setdefault(made, []).append(label)
    if found:
        blocks.append(
            Grid(
                title="Versions",
                columns=("runs of", *names, "trainer", "engine"),
                rows=tuple(
                    ("all" if len(found) == 1 else ", ".join(dict.fromkeys(labels)), *made)
                    for made, labels in found.items()
                ),
            )
        )
    command, file = "sweep" if compared.sweep else "compare", shlex.quote(str(compared.path / "comparison.toml"))
    blocks.append(Code(title="The command that reruns it", text=f"coterie {command} {file} --out runs/again"))
    blocks.append(Code(title="comparison.toml", text=compared.text.rstrip("\n")))
    mixed = ("The runs were made by different versions of programs.",) if len({made[:-2] for made in found}) > 1 else ()
    return Section(
        heading="Configuration and versions",
        text=(
            "`comparison.toml` is what was asked for; each run folder holds its complete `config.toml`. The same seeds "
            "give the same numbers, but for times.",
            *mixed,
        ),
        blocks=tuple(blocks),
    )
