"""Curves, bars and groups over seeds, for the page of a comparison."""

from collections.abc import Sequence

from coterie.report.pages.curves import (
    accuracy_against_megabytes,
    accuracy_over_rounds,
    followed,
    switch,
    target_marks,
)
from coterie.results.charts import Bars, Chart, Mark, Section, Series, Value, Values, values
from coterie.results.comparisons import StoredComparison
from coterie.results.protocols import CURVES, PROTOCOLS
from coterie.results.runs import StoredRun
from coterie.results.statistics import Spread, spread

MANY = 21
"""Lines in one chart that can still be told apart."""


def over_rounds(compared: StoredComparison) -> Section:
    """Show accuracies and what else is followed, as means over seeds with bands."""
    heading = "Accuracy over rounds"
    if _too_many(compared):
        return Section(heading=heading, text=(f"More than {MANY} lines can't be told apart: they are not drawn.",))
    band = _band(compared)
    variants = accuracy_over_rounds(lambda key: _lines(compared, key, 100)[0], lambda key: _marks(compared, key), band)
    texts = [
        f"Not drawn under {protocol.symbol}: {', '.join(lost)}; no round has a number of each seed."
        for key, protocol in CURVES.items()
        if (lost := _lines(compared, key)[1])
    ]
    if any(row.accuracy["plus"] for row in compared.table.rows):
        variants.append(("+", _final(compared)))
    others = followed(lambda key: _lines(compared, key)[0], lambda key: (), band, digits=1)
    return Section(
        heading=heading,
        text=tuple(texts) if variants else (*texts, "No accuracy was measured in any round."),
        blocks=(*switch("Protocol", variants), *switch("Show", others)),
    )


def traffic_over_seeds(compared: StoredComparison) -> Section | None:
    """Show accuracies against what was sent."""
    if _too_many(compared):
        return None
    variants = accuracy_against_megabytes(
        lambda key: _lines(compared, key, 100, megabytes=True)[0],
        lambda key: _marks(compared, key),
        "MB both ways, in training (mean over seeds)",
        _band(compared),
    )
    blocks = tuple(switch("Protocol", variants))
    return Section(heading="Accuracy against megabytes", blocks=blocks) if blocks else None


def _lines(
    compared: StoredComparison, key: str, factor: float = 1, megabytes: bool = False
) -> tuple[tuple[Series, ...], list[str]]:
    """Return a line per label, and who has numbers but no line, as no round has one of every seed."""
    series, lost = [], []
    for slot, (label, by_seed) in enumerate(compared.runs.items()):
        runs = [*by_seed.values()]
        if not any(run.has(key) for run in runs):
            continue
        rounds, sent, means, low, high = means_over_rounds(runs, key, factor)
        if all(mean is None for mean in means):
            lost.append(label)
            continue
        series.append(Series(name=label, x=sent if megabytes else rounds, y=means, low=low, high=high, slot=slot))
    return tuple(series), lost


def means_over_rounds(
    runs: Sequence[StoredRun], key: str, factor: float = 1
) -> tuple[Values, Values, Values, Values, Values]:
    """Return rounds, megabytes, means and the edges of the band, over the rounds in which all runs have a number."""
    curves = [dict(zip(run.curve("round"), run.curve(key, factor), strict=True)) for run in runs]
    sent = [dict(zip(run.curve("round"), run.megabytes, strict=True)) for run in runs]
    rounds = sorted({at for curve in curves for at in curve if at is not None})
    spreads = [_whole([curve.get(at) for curve in curves]) for at in rounds]
    traffic = [_whole([curve.get(at) for curve in sent]) for at in rounds]
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
    measured = [number for number in numbers if number is not None]
    return spread(measured) if len(measured) == len(numbers) else None


def _band(compared: StoredComparison) -> str:
    return (
        "The mean over seeds, where all finished runs have a number; the band is a standard deviation to each side."
        if any(len(of) > 1 for of in compared.runs.values())
        else "One seed: no band."
    )


def _too_many(compared: StoredComparison) -> bool:
    return len(compared.labels) > MANY


def _marks(compared: StoredComparison, key: str) -> tuple[Mark, ...]:
    goals = [(protocol, float(at)) for protocol, _, at in (target.partition("=") for target in compared.targets)]
    return target_marks({at for protocol, at in goals if protocol == key})


def _final(compared: StoredComparison) -> Chart:
    shown = [(row.label, spread) for row in compared.table.rows if (spread := row.accuracy["plus"]) is not None]
    return Bars(
        title="Accuracy + at the end",
        x_label=compared.what,
        y_label="accuracy + (%)",
        categories=tuple(label for label, _ in shown),
        series=(bars("accuracy +", [spread for _, spread in shown], 100),),
        note=f"+: {PROTOCOLS['plus'].sentence}. It is measured once, after the last round. "
        "Whiskers: a standard deviation.",
    )


def bars(name: str, spreads: Sequence[Spread | None], factor: float = 1, slot: int | None = None) -> Series:
    """Return means as bars or points of a line, with a standard deviation to each side where there is one."""
    ends = [[None if s is None or s.std is None else s.mean + sign * s.std for s in spreads] for sign in (-1, 1)]
    many = any(end is not None for end in ends[0])
    return Series(
        name=name,
        y=values((None if s is None else s.mean for s in spreads), factor),
        low=values(ends[0], factor) if many else (),
        high=values(ends[1], factor) if many else (),
        slot=slot,
    )


def groups_by_seed(compared: StoredComparison) -> Section | None:
    """Show how many groups each seed found, and how well they agree with the true ones."""
    number = _by_seed(compared, "group_count", "Groups found in each seed", "groups", 0, "At the end of each run.")
    note = "1: the true groups; 0: what chance would give."
    agreement = _by_seed(compared, "ari", "Agreement with the true groups (ARI)", "ARI", 2, note)
    variants = [(name, chart) for name, chart in (("number", number), ("agreement", agreement)) if chart is not None]
    return Section(heading="Groups", blocks=tuple(switch("Show", variants))) if variants else None


def _by_seed(compared: StoredComparison, key: str, title: str, unit: str, digits: int, note: str) -> Chart | None:
    """Draw a number of each run; None where no run has it."""
    numbers = {label: {s: getattr(run, key) for s, run in of.items()} for label, of in compared.runs.items()}
    shown = [label for label, of in numbers.items() if any(number is not None for number in of.values())]
    series = (Series(name=f"seed {s}", y=values(numbers[label].get(s) for label in shown)) for s in compared.seeds)
    if not shown:
        return None
    return Bars(
        title=title,
        x_label=compared.what,
        y_label=unit,
        categories=tuple(shown),
        series=tuple(series),
        digits=digits,
        note=note,
    )
