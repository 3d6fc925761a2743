"""A comparison, counted: means and spreads over seeds, paired differences to the baseline, and who leads."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from coterie.errors import CoterieError, suggestion
from coterie.results.events import divergence
from coterie.results.formats import AS_IT_IS, TableFormat, TableOptions, table_format
from coterie.results.metrics import ACCURACY, MetricScale, common_title, scale
from coterie.results.protocols import (
    BY_LABEL,
    COMPARED,
    OVER_GROUPS,
    OVER_GROUPS_LEGEND,
    PROTOCOLS,
    held_out,
    standard_errors,
)
from coterie.results.statistics import Difference, Leader, Spread, group_count, leader, paired, spread

BySeed = Mapping[int, Mapping[str, Any]]
"""Results by seed, each with the fields of result.json."""
RANKED = 6
"""Names that a sentence lists."""


@dataclass(frozen=True)
class Column:
    """A column beside accuracies: what it counts in each run, and how it is written."""

    key: str
    """The field of `ComparisonRow`, and so of ``comparison.json``; how headings of ``table.csv`` begin."""
    heading: str
    number: Callable[[Mapping[str, Any]], Any]
    """Of a result, with the fields of result.json; None where it is not defined."""
    digits: int
    legend: str = ""
    with_spread: bool = True
    """Whether tables write the deviation over seeds beside the mean."""
    in_csv: tuple[str, ...] = ("mean", "std")
    accuracy: bool = False
    """Whether it is in the unit of accuracies: a fraction that tables write in %, unless they are errors."""
    apart: bool = False
    """Whether it is in a table of its own where lines are short."""


def _over_groups(protocol: str) -> Column:
    """Return the column of a protocol's mean over true groups."""

    def number(run: Mapping[str, Any]) -> float | None:
        return (run.get("accuracy_group_mean") or {}).get(protocol)

    legend = OVER_GROUPS_LEGEND if protocol == "L" else ""
    return Column(f"{protocol}_by_group", OVER_GROUPS[protocol], number, 2, legend, accuracy=True)


def _by_label(protocol: str) -> Column:
    """Return the column of an accuracy by the labels that clients have or lack."""

    def number(run: Mapping[str, Any]) -> float | None:
        return run["accuracy"].get(protocol)  # type: ignore[no-any-return]

    told = PROTOCOLS[protocol]
    return Column(protocol, told.symbol, number, 2, f"{told.symbol}: {told.brief}.", accuracy=True, apart=True)


def _megabytes(run: Mapping[str, Any]) -> float:
    return float((run["traffic"]["up_bytes"] + run["traffic"]["down_bytes"]) / 1e6)


COLUMNS = (
    *map(_over_groups, OVER_GROUPS),
    *map(_by_label, BY_LABEL),
    Column("groups", "groups", lambda run: group_count(run["groups"]), 1),
    Column("ari", "ARI", lambda run: run["ari"], 2, "ARI: agreement of groups with the true ones."),
    Column("megabytes", "MB", _megabytes, 2, "MB: megabytes to and from clients in training.", False),
    Column(
        "seconds",
        "seconds",
        lambda run: run["seconds"],
        1,
        "Seconds: of a run, while others were running.",
        False,
        ("mean",),
    ),
)
"""In order. One that is added here, and as a field of `ComparisonRow`, is in every table, file and page."""


def heading_of(name: str) -> str:
    """Return the heading of a column that is named by its key or its heading, in any case.

    >>> heading_of("plus"), heading_of("mb"), heading_of("l by group")
    ('+', 'MB', 'L by group')
    """
    headings = COMPARED | {column.key: column.heading for column in COLUMNS}
    found = [heading for key, heading in headings.items() if name.casefold() in (key.casefold(), heading.casefold())]
    if not found:
        raise CoterieError(f"the table has no column '{name}': {suggestion(name, headings)}")
    return found[0]


@dataclass(frozen=True)
class Reached:
    """When an accuracy was reached: means over the `n` seeds that did, of those for which the protocol is defined."""

    target: str
    n: int
    seeds: int
    rounds: float | None
    megabytes: float | None


@dataclass(frozen=True)
class ComparisonRow:
    """What is said about a method, or a setting of a sweep; between `accuracy` and `reached` stand `COLUMNS`."""

    label: str
    runs: int
    accuracy: Mapping[str, Spread | None]
    L_by_group: Spread | None
    C_by_group: Spread | None
    plus_by_group: Spread | None
    C_own: Spread | None
    C_lacking: Spread | None
    groups: Spread | None
    ari: Spread | None
    megabytes: Spread | None
    seconds: Spread | None
    reached: tuple[Reached, ...]
    differences: Mapping[str, Difference | None] | None
    """To the baseline; None for the baseline itself."""


@dataclass(frozen=True)
class ComparisonTable:
    """A comparison, counted; numbers are fractions, bytes are megabytes."""

    title: str
    noun: str
    """What a label names: a ``method``, or a ``setting``."""
    seeds: tuple[int, ...]
    baseline: str
    rows: tuple[ComparisonRow, ...]
    leaders: Mapping[str, Leader | None]
    notes: tuple[str, ...]
    metric: str = ACCURACY
    """What is compared, as people write it."""

    def __getitem__(self, label: str) -> ComparisonRow:
        return next(row for row in self.rows if row.label == label)

    @property
    def scale(self) -> MetricScale:
        """How its accuracies are shown: in %, unless they are errors."""
        return scale(self.metric)

    def best(self, protocol: str) -> str | None:
        """Return who is significantly the best."""
        first = self.leaders.get(protocol)
        return first.label if first is not None and first.clear else None

    def to_json(self) -> dict[str, Any]:
        """Return all of it as plain data."""
        return {
            "baseline": self.baseline,
            "metric": self.metric,
            "rows": [asdict(row) for row in self.rows],
            "leaders": {p: None if first is None else _leader(first) for p, first in self.leaders.items()},
            "best": {protocol: self.best(protocol) for protocol in COMPARED},
            "notes": list(self.notes),
        }

    def report(self, format: TableFormat = "text", options: TableOptions = AS_IT_IS) -> str:
        """Write it as text, Markdown, CSV or LaTeX."""
        from coterie.report.comparison import comparison_text
        from coterie.report.comparison_latex import comparison_latex

        format = table_format(format)
        return comparison_latex(self, options) if format == "latex" else comparison_text(self, format, options.columns)

    def verdict(self, protocol: str) -> str:
        """Say who is best under a protocol, and whether that can be told; empty if nobody has a number."""
        measured = [(spread, row.label) for row in self.rows if (spread := row.accuracy[protocol]) is not None]
        if not measured:
            return ""
        shown = self.scale
        measured.sort(key=lambda pair: -shown.sign * pair[0].mean)
        seeds, symbol = len(self.seeds), COMPARED[protocol]
        ranked = "; ".join(
            f"{label}: {shown.text(shown.factor * spread.mean, 1)}"
            + f" ({spread.n} of {seeds} seeds)" * (spread.n < seeds)
            for spread, label in measured[:RANKED]
        )
        if len(measured) == 1:
            return f"{symbol}: {ranked}" + f". No other {self.noun} has a number." * (len(self.rows) > 1)
        text = f"{symbol}, from the {shown.best}: {ranked}{'; …' if len(measured) > RANKED else ''}"
        first = self.leaders[protocol]
        if first is None:
            return f"{text}. None has a number of every seed, so that none is called the best."
        if seeds == 1:
            return f"{text}. With one seed nothing can be said about significance."
        if first.clear:
            return (
                f"{text}. {first.label} is significantly better than each of the others (paired t test, {seeds} seeds)."
            )

        def listed(labels: Sequence[str]) -> str:
            return "the others" if len(labels) == len(measured) - 1 > 1 else shortened_list(labels)

        return f"{text}. {'; '.join(filter(None, [f'{first.named()}{first.among}', first.not_told_from(listed)]))}."


def make_table(
    runs: Mapping[str, BySeed],
    seeds: Sequence[int],
    *,
    title: str,
    noun: str = "method",
    baseline: str | None = None,
    notes: Sequence[str] = (),
) -> ComparisonTable:
    """Count results, given by label and seed; the baseline is the first label unless another is named."""
    base = baseline or next(iter(runs))
    accuracy = {label: {p: _accuracies(by_seed, p) for p in COMPARED} for label, by_seed in runs.items()}
    results = [run for by_seed in runs.values() for run in by_seed.values()]
    targets = dict.fromkeys(target_text(target) for run in results for target in run["targets"])
    rows = [
        ComparisonRow(
            label=label,
            runs=len(by_seed),
            accuracy={p: spread([*accuracy[label][p].values()]) for p in COMPARED},
            **{column.key: _spread(by_seed, column.number) for column in COLUMNS},
            reached=tuple(_reached(by_seed, target) for target in targets),
            differences=None if label == base else {p: paired(accuracy[label][p], accuracy[base][p]) for p in COMPARED},
        )
        for label, by_seed in runs.items()
    ]
    metric = common_title(str(run.get("metric", ACCURACY)) for run in results)
    leaders = {p: _leading({label: accuracy[label][p] for label in runs}, seeds, metric) for p in COMPARED}
    all_notes = (*notes, *_notes(runs, seeds, accuracy), *undecided(leaders, seeds))
    return ComparisonTable(title, noun, tuple(seeds), base, tuple(rows), leaders, all_notes, metric)


def _leading(methods: Mapping[str, Mapping[int, float]], seeds: Sequence[int], metric: str) -> Leader | None:
    """Return who has the best mean: the highest, or the lowest of an error."""
    shown = scale(metric)
    signed = {label: {seed: shown.sign * value for seed, value in values.items()} for label, values in methods.items()}
    first = leader(signed, seeds)
    return None if first is None else replace(first, best=shown.best)


def _leader(first: Leader) -> dict[str, Any]:
    """Return what comparison.json says of the best mean."""
    return {"label": first.label, "rivals": list(first.rivals), "among": first.among, "p": dict(first.p)}


def target_text(target: Mapping[str, Any]) -> str:
    """Write a target as it was asked for, like ``L=0.8``."""
    return f"{target['protocol']}={target['value']:g}"


def reached(target: str, history: Sequence[Mapping[str, Any]], metric: str = ACCURACY) -> dict[str, Any]:
    """Find the first evaluated round at which a target like ``L=0.8`` was reached, and the bytes sent until then."""
    protocol, _, text = target.partition("=")
    sign, level = scale(metric).sign, float(text)
    measured = (row for row in history if row.get(protocol) is not None)
    row = next((row for row in measured if sign * row[protocol] >= sign * level), None)
    sent = [] if row is None else [row.get("up_bytes"), row.get("down_bytes")]
    return {
        "protocol": protocol,
        "value": float(text),
        "round": None if row is None else row["round"],
        "bytes": None if None in sent or not sent else sum(sent),
    }


def _finite(value: Any) -> float | None:
    """Return a finite number; None for anything else."""
    return float(value) if isinstance(value, int | float) and math.isfinite(value) else None


def _accuracies(runs: BySeed, protocol: str) -> dict[int, float]:
    numbers = {seed: _finite(run["accuracy"][protocol]) for seed, run in runs.items()}
    return {seed: number for seed, number in numbers.items() if number is not None}


def _spread(runs: BySeed, value: Callable[[Mapping[str, Any]], Any]) -> Spread | None:
    return spread([number for run in runs.values() if (number := _finite(value(run))) is not None])


def _reached(runs: BySeed, text: str) -> Reached:
    """Return when a target was reached, over the seeds for which its protocol is defined."""
    defined = [
        target
        for run in runs.values()
        for target in run["targets"]
        if target_text(target) == text
        and (run["accuracy"][target["protocol"]] is not None or target["round"] is not None)
    ]
    done = [target for target in defined if target["round"] is not None]
    rounds, sent = (spread([float(target[key]) for target in done]) for key in ("round", "bytes"))
    means = (rounds.mean, sent.mean / 1e6) if rounds and sent else (None, None)
    return Reached(text, len(done), len(defined), *means)


def _estimates(runs: Sequence[Mapping[str, Any]]) -> list[str]:
    """Say that numbers are of a sample of the clients, where they are, and how far they may err."""
    errors = [error for run in runs for key, error in standard_errors(run).items() if key in COMPARED]
    if not errors:
        return []
    asked = {(entry["clients"], entry["of"]) for run in runs if (entry := run.get("measured", {}).get("L"))}
    clients = "; ".join(f"{some:,} of {of:,}" for some, of in sorted(asked))
    shown = scale(common_title(str(run.get("metric", ACCURACY)) for run in runs))
    largest = shown.written(max(errors)) + ("" if shown.is_error else " points")
    return [f"Numbers are estimates from {clients} clients; standard errors are up to {largest}."]


def _notes(
    runs: Mapping[str, BySeed], seeds: Sequence[int], accuracy: Mapping[str, Mapping[str, Mapping[int, float]]]
) -> list[str]:
    """Say what a reader of the numbers must know."""
    shares = {run.get("validation", 0.0) for by_seed in runs.values() for run in by_seed.values()}
    notes = [text for share in sorted(shares) if (text := held_out(share))]
    notes += _estimates([run for by_seed in runs.values() for run in by_seed.values()])
    if len(seeds) == 1:
        notes.append(
            f"One seed only ({seeds[0]}): there is neither spread nor interval, and nothing is marked as the best."
        )
    for label, by_seed in runs.items():
        if missing := [seed for seed in seeds if seed not in by_seed]:
            notes.append(f"{label}: there is no result of seed {_listed(missing)}.")
        if diverged := [seed for seed in by_seed if divergence(by_seed[seed])]:
            notes.append(
                f"{label}: training diverged at most clients with seed {_listed(diverged)}, so its accuracies say "
                "nothing about it: most often lr is too high."
            )
        for protocol, symbol in COMPARED.items():
            measured = accuracy[label][protocol]
            defined = [seed for seed in seeds if seed in by_seed and by_seed[seed]["accuracy"][protocol] is not None]
            if not_finite := [seed for seed in defined if seed not in measured]:
                notes.append(f"{label}: {symbol} of seed {_listed(not_finite)} is not a number; means leave it out.")
            if measured and len(defined) < len(seeds) - len(missing):
                notes.append(f"{label}: {symbol} is defined for seed {_listed(list(measured))} only.")
        if by_seed and all(group_count(run["groups"]) == 1 for run in by_seed.values()):
            notes.append(f"{label}: one group with every seed, so that all clients share one model.")
    if not any(all(accuracy[label][protocol] for label in runs) for protocol in COMPARED):
        notes.append("No protocol has numbers of all of them: they can't all be compared with each other.")
    return notes


def undecided(leaders: Mapping[str, Leader | None], seeds: Sequence[int]) -> list[str]:
    """Say under which protocols the best mean may be chance."""
    return [
        f"{COMPARED[protocol]}: "
        + "; ".join(filter(None, [f"{first.named()}{first.among}", first.not_told_from(_listed)]))
        + "."
        for protocol, first in leaders.items()
        if first is not None and not first.clear and len(seeds) > 1
    ]


def shortened_list(names: Sequence[str], separator: str = ", ") -> str:
    """List names; of many the first ones, and how many more there are.

    >>> shortened_list("abcdefgh")
    'a, b, c, d, e, f and 2 more'
    """
    more = f" and {len(names) - RANKED} more" if len(names) > RANKED else ""
    return separator.join(names[:RANKED]) + more


def _listed(items: Sequence[Any]) -> str:
    return ", ".join(map(str, items))
