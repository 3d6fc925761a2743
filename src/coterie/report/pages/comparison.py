"""The page of a comparison or a sweep: several methods, or settings, over seeds."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from coterie.report.comparison import PROTOCOLS, Table, undecided
from coterie.report.pages.clients import clients_of_comparison, gains_in_comparison
from coterie.report.pages.origin import origin_of_comparison
from coterie.report.pages.seeds import groups_by_seed, over_rounds, traffic_over_seeds
from coterie.report.pages.tables import all_runs, choices, differences_section, main_table
from coterie.results.charts import Fact, Page, Section
from coterie.results.comparisons import StoredComparison
from coterie.results.protocols import brief

RANKED = 6
"""Names that a sentence of the summary lists."""


def comparison_page(compared: StoredComparison, first: Sequence[Section] = ()) -> Page:
    """Return the page of a comparison; `first` are sections that come before the others."""
    sections = [
        *first,
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
    labels = compared.labels
    listed = ", ".join(labels[:RANKED]) + (f" and {len(labels) - RANKED} more" if len(labels) > RANKED else "")
    return Page(
        title=f"Sweep of {', '.join(compared.varied)}" if compared.sweep else f"Comparison: {listed}",
        summary=_summary(compared),
        facts=_facts(compared.table),
        sections=tuple(section for section in sections if section is not None),
    )


def _summary(compared: StoredComparison) -> tuple[str, ...]:
    table = compared.table
    done = sum(attempt.finished for attempt in compared.attempts)
    texts = [
        f"{len(compared.labels)} {compared.what}s on {table.title}. "
        + ("All " if done == len(compared.attempts) else f"{done} of ")
        + f"{len(compared.attempts)} runs are finished."
    ]
    if done < len(compared.attempts):
        texts.append(_missing(compared))
    verdicts = [text for protocol in PROTOCOLS if (text := verdict(table, protocol))]
    measured = {PROTOCOLS[p] for p in PROTOCOLS if any(row.accuracy[p] is not None for row in table.rows)}
    texts += [f"Accuracy is measured in several ways. {'; '.join(brief(measured))}.", *verdicts] if verdicts else []
    texts += [] if verdicts else ["No accuracy was measured."]
    said = {*undecided(table.leaders, table.seeds), *(f"{text}." for text in compared.chosen.values())}
    said |= {f"{a.label}, seed {a.seed}, {a.state}" for a in compared.attempts}
    notes = [note for note in table.notes if note not in said]
    return (*texts, *([" ".join(notes)] if notes else []), *compared.problems)


def _missing(compared: StoredComparison) -> str:
    """Say which runs there are not, and how to make them."""
    lost = [attempt for attempt in compared.attempts if not attempt.finished]
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
    return f"{text}. {len(table.seeds)} seeds can't tell {best.label}, the highest{best.among}, from {others}{more}."


def _facts(table: Table) -> tuple[Fact, ...]:
    facts = []
    for protocol, name in PROTOCOLS.items():
        found = table.leaders[protocol]
        mean = None if found is None else table[found.label].accuracy[protocol]
        if found is not None and mean is not None:
            sure = "distinguishable" if found.clear else "not distinguishable" if len(table.seeds) > 1 else "one seed"
            note = f"{found.label}; {sure}{found.among and f'; the highest{found.among}'}"
            facts.append(Fact(name=f"highest {name}", value=f"{100 * mean.mean:.2f} %", note=note))
    return tuple(facts)
