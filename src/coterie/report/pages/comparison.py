"""The page of a comparison or a sweep: several methods, or settings, over seeds."""

import shlex

from coterie.report.comparison import all_runs, choices, differences_section, main_table
from coterie.report.pages.clients import clients_of_comparison, gains_in_comparison
from coterie.report.pages.origin import origin_of_comparison
from coterie.report.pages.seeds import groups_by_seed, over_rounds, traffic_over_seeds
from coterie.report.pages.sweep import over_values
from coterie.results.charts import Fact, Page
from coterie.results.comparison_table import ComparisonTable, shortened_list, undecided
from coterie.results.comparisons import StoredComparison
from coterie.results.protocols import COMPARED, brief


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
    done = sum(attempt.finished for attempt in compared.attempts)
    texts = [
        f"{len(compared.labels)} {compared.table.what}s on {table.title}. "
        + ("All " if done == len(compared.attempts) else f"{done} of ")
        + f"{len(compared.attempts)} runs are finished."
    ]
    if done < len(compared.attempts):
        texts.append(_missing(compared))
    verdicts = [text for protocol in COMPARED if (text := table.verdict(protocol))]
    measured = {COMPARED[p] for p in COMPARED if any(row.accuracy[p] is not None for row in table.rows)}
    texts += [f"Accuracy is measured in several ways. {'; '.join(brief(measured))}.", *verdicts] if verdicts else []
    texts += [] if verdicts else ["No accuracy was measured."]
    said = {*undecided(table.leaders, table.seeds), *(f"{text}." for text in compared.chosen.values())}
    said |= {f"{a.label}, seed {a.seed}, {a.state}" for a in compared.attempts}
    notes = [note for note in table.notes if note not in said]
    return (*texts, *([" ".join(notes)] if notes else []), *compared.problems)


def _missing(compared: StoredComparison) -> str:
    """Say which runs there are not, and how to make them."""
    lost = [attempt for attempt in compared.attempts if not attempt.finished]
    lines = shortened_list([f"{a.label}, seed {a.seed}: {a.state}" for a in lost], "; ")
    return (
        f"Missing: {lines}. Everything below is of the finished runs only, and may change. "
        f"`coterie resume {shlex.quote(str(compared.path))}` makes what is missing."
    )


def _facts(table: ComparisonTable) -> tuple[Fact, ...]:
    facts = []
    for protocol, name in COMPARED.items():
        first = table.leaders[protocol]
        mean = None if first is None else table[first.label].accuracy[protocol]
        if first is not None and mean is not None:
            sure = "distinguishable" if first.clear else "not distinguishable" if len(table.seeds) > 1 else "one seed"
            note = f"{first.label}; {sure}{first.among and f'; the highest{first.among}'}"
            facts.append(Fact(name=f"highest {name}", value=f"{100 * mean.mean:.2f} %", note=note))
    return tuple(facts)
