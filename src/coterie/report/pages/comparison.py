"""The page of a comparison or a sweep: several methods, or settings, over seeds."""

import shlex
from collections.abc import Sequence
from dataclasses import replace

from coterie.report.comparison import all_runs, choices, differences_section, main_table
from coterie.report.pages.clients import clients_of_comparison, gains_in_comparison
from coterie.report.pages.curves import accuracies, final_accuracy, followed, mean_series, switch, target_marks
from coterie.report.pages.origin import origin_of_comparison
from coterie.report.pages.sweep import over_values
from coterie.results.charts import Bars, Chart, Fact, Mark, Page, Section, Series, values
from coterie.results.comparison_table import ComparisonTable, shortened_list, undecided
from coterie.results.comparisons import StoredComparison
from coterie.results.metrics import capital
from coterie.results.protocols import COMPARED, CURVES, brief
from coterie.results.statistics import Spread, spread

MANY = 21
"""Lines in one chart that can still be told apart."""


def comparison_page(compared: StoredComparison) -> Page:
    """Return the page of a comparison or a sweep."""
    sections = [
        *([over_values(compared)] if compared.sweep else []),
        main_table(compared),
        differences_section(compared),
        over_rounds(compared),
        clients_of_comparison(compared),
        gains_in_comparison(compared),
        traffic_over_seeds(compared),
        groups_by_seed(compared),
        choices(compared),
        all_runs(compared),
        origin_of_comparison(compared),
    ]
    return Page(
        title=f"Sweep of {', '.join(compared.varied)}"
        if compared.sweep
        else f"Comparison: {shortened_list(compared.labels)}",
        summary=_summary(compared),
        facts=_facts(compared.table),
        sections=tuple(section for section in sections if section is not None),
    )


def _summary(compared: StoredComparison) -> tuple[str, ...]:
    table = compared.table
    finished = sum(attempt.finished for attempt in compared.attempts)
    texts = [
        f"{len(compared.labels)} {compared.table.noun}s on {table.title}. "
        + ("All " if finished == len(compared.attempts) else f"{finished} of ")
        + f"{len(compared.attempts)} runs are finished."
    ]
    if finished < len(compared.attempts):
        texts.append(_missing(compared))
    verdicts = [text for protocol in COMPARED if (text := table.verdict(protocol))]
    measured = {COMPARED[p] for p in COMPARED if any(row.accuracy[p] is not None for row in table.rows)}
    texts += (
        [f"{capital(table.metric)} is measured in several ways. {'; '.join(brief(measured))}.", *verdicts]
        if verdicts
        else []
    )
    texts += [] if verdicts else [f"No {table.metric} was measured."]
    mentioned = {*undecided(table.leaders, table.seeds), *(f"{text}." for text in compared.chosen.values())}
    mentioned |= {f"{a.label}, seed {a.seed}, {a.state}" for a in compared.attempts}
    notes = [note for note in table.notes if note not in mentioned]
    return (*texts, *([" ".join(notes)] if notes else []), *compared.warnings)


def _missing(compared: StoredComparison) -> str:
    """Say which runs there are not, and how to make them."""
    unfinished = [attempt for attempt in compared.attempts if not attempt.finished]
    lines = shortened_list([f"{a.label}, seed {a.seed}: {a.state}" for a in unfinished], "; ")
    return (
        f"Missing: {lines}. Everything below is of the finished runs only, and may change. "
        f"`coterie resume {shlex.quote(str(compared.path))}` makes what is missing."
    )


def _facts(table: ComparisonTable) -> tuple[Fact, ...]:
    facts, shown = [], table.scale
    for protocol, name in COMPARED.items():
        first = table.leaders[protocol]
        mean = None if first is None else table[first.label].accuracy[protocol]
        if first is not None and mean is not None:
            better = "significantly better than all others"
            sure = better if first.clear else f"not {better}" if len(table.seeds) > 1 else "one seed"
            note = (
                f"{', '.join([first.label, *first.equals])}; {sure}{first.among and f'; the {first.best}{first.among}'}"
            )
            facts.append(Fact(name=f"{first.best} {name}", value=shown.text(shown.factor * mean.mean), note=note))
    return tuple(facts)


def over_rounds(compared: StoredComparison) -> Section:
    """Show accuracies and what else is followed, as means over seeds with bands."""
    metric = compared.table.metric
    heading = f"{capital(metric)} over rounds"
    if len(compared.labels) > MANY:
        return Section(heading=heading, text=(f"More than {MANY} lines can't be told apart: they are not drawn.",))
    band, factor = _band(compared), compared.table.scale.factor
    variants = accuracies(metric, lambda key: _lines(compared, key, factor)[0], lambda key: _marks(compared, key), band)
    texts = [
        f"Not drawn under {protocol.symbol}: {', '.join(labels)}; no round has a number of each seed."
        for key, protocol in CURVES.items()
        if (labels := _lines(compared, key)[1])
    ]
    tuned = {row.label: spread for row in compared.table.rows if (spread := row.accuracy["plus"]) is not None}
    if tuned:
        series = mean_series(f"{metric} +", [*tuned.values()], factor)
        variants.append(
            final_accuracy(metric, compared.table.noun, [*tuned], series, "Whiskers: a standard deviation.")
        )
    others = followed(lambda key: _lines(compared, key)[0], lambda key: (), band, digits=1)
    return Section(
        heading=heading,
        text=tuple(texts) if variants else (*texts, f"No {metric} was measured in any round."),
        blocks=(*switch("Protocol", variants), *switch("Show", others)),
    )


def traffic_over_seeds(compared: StoredComparison) -> Section | None:
    """Show accuracies against what was sent."""
    if len(compared.labels) > MANY:
        return None
    variants = accuracies(
        compared.table.metric,
        lambda key: _lines(compared, key, compared.table.scale.factor, megabytes=True)[0],
        lambda key: _marks(compared, key),
        _band(compared),
        "MB both ways, in training (mean over seeds)",
    )
    blocks = tuple(switch("Protocol", variants))
    heading = f"{capital(compared.table.metric)} against megabytes"
    return Section(heading=heading, blocks=blocks) if blocks else None


def _lines(
    compared: StoredComparison, key: str, factor: float = 1, megabytes: bool = False
) -> tuple[tuple[Series, ...], list[str]]:
    """Return a line per label, and who has numbers but no line, as no round has one of every seed."""
    series, undrawn = [], []
    for slot, (label, by_seed) in enumerate(compared.runs.items()):
        runs = [run for run in by_seed.values() if run.has(key)] and [*by_seed.values()]
        curves = [dict(zip(run.curve("round"), run.curve(key, factor), strict=True)) for run in runs]
        traffic_curves = [dict(zip(run.curve("round"), run.megabytes, strict=True)) for run in runs]
        rounds = sorted({at for curve in curves for at in curve if at is not None})
        means = mean_series(label, [_whole([curve.get(at) for curve in curves]) for at in rounds], slot=slot)
        traffic = [_whole([curve.get(at) for curve in traffic_curves]) for at in rounds]
        if any(mean is not None for mean in means.y):
            x = values((total and total.mean for total in traffic) if megabytes else rounds)
            series.append(replace(means, x=x))
        elif runs:
            undrawn.append(label)
    return tuple(series), undrawn


def _whole(numbers: Sequence[float | None]) -> Spread | None:
    """Return the spread of numbers of which none is missing."""
    measured = [number for number in numbers if number is not None]
    return spread(measured) if len(measured) == len(numbers) else None


def _band(compared: StoredComparison) -> str:
    return (
        "The mean over seeds, where all finished runs have a number; the band is a standard deviation to each side."
        if any(len(by_seed) > 1 for by_seed in compared.runs.values())
        else "One seed: no band."
    )


def _marks(compared: StoredComparison, key: str) -> tuple[Mark, ...]:
    goals = [(protocol, float(at)) for protocol, _, at in (target.partition("=") for target in compared.plan.targets)]
    return target_marks({at for protocol, at in goals if protocol == key}, compared.table.scale.factor)


def groups_by_seed(compared: StoredComparison) -> Section | None:
    """Show how many groups each seed found, and how well they agree with the true ones."""
    number = _by_seed(compared, "group_count", "Groups found in each seed", "groups", 0, "At the end of each run.")
    note = "1: the true groups; 0: what chance would give."
    agreement = _by_seed(compared, "ari", "Agreement with the true groups (ARI)", "ARI", 2, note)
    variants = [(name, chart) for name, chart in (("number", number), ("agreement", agreement)) if chart is not None]
    return Section(heading="Groups", blocks=tuple(switch("Show", variants))) if variants else None


def _by_seed(compared: StoredComparison, key: str, title: str, unit: str, digits: int, note: str) -> Chart | None:
    """Draw a number of each run; None where no run has it."""
    numbers = {label: {s: getattr(run, key) for s, run in by_seed.items()} for label, by_seed in compared.runs.items()}
    labels = [label for label, by_seed in numbers.items() if any(number is not None for number in by_seed.values())]
    series = (
        Series(name=f"seed {s}", y=values(numbers[label].get(s) for label in labels)) for s in compared.table.seeds
    )
    if not labels:
        return None
    return Bars(
        title=title,
        x_label=compared.table.noun,
        y_label=unit,
        categories=tuple(labels),
        series=tuple(series),
        digits=digits,
        note=note,
    )
