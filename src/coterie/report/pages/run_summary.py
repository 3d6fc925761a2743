"""What runs come to, in plain words and as a few numbers: the top of a run's page."""

from collections.abc import Sequence

from coterie.report.pages.clients import differences, worst_tenth
from coterie.report.pages.events import events_in_words
from coterie.results.charts import Fact
from coterie.results.protocols import AT_END, held_out
from coterie.results.runs import StoredRun


def run_title(runs: Sequence[StoredRun]) -> str:
    """Name methods and data."""
    methods = list(dict.fromkeys(run.algorithm for run in runs))
    return f"{', '.join(methods)} on {', '.join(dict.fromkeys(str(run.setting('data', 'name')) for run in runs))}"


def run_summary(runs: Sequence[StoredRun]) -> tuple[str, ...]:
    """Say in plain words what it comes to."""
    texts = [f"{run.name} on {_setting(run)}" for run in runs]
    if len(runs) == 1:
        sentences = (_reached(runs[0]), _tested(runs), _found(runs[0]), _spent(runs[0]))
        return (*texts, " ".join(text for text in sentences if text), *runs[0].problems)
    if len({_setting(run) for run in runs}) == 1:
        texts = [f"{', '.join(run.name for run in runs)} on {_setting(runs[0])}"]
    apart = differences(runs)
    if apart:
        texts.append(f"These runs differ in more than the method: in {', '.join(apart)}. Compare them with care.")
    return (
        *texts,
        f"{_ranked(runs)} {_tested(runs)}".strip(),
        *(f"{run.name}: {problem}" for run in runs for problem in run.problems),
    )


def run_facts(run: StoredRun) -> tuple[Fact, ...]:
    """Return the numbers worth seeing first."""
    facts = [
        Fact(name=f"accuracy {protocol.symbol}", value=f"{number:.2f} %", note=protocol.card)
        for key, protocol in AT_END.items()
        if (number := run.accuracy(key)) is not None
    ]
    if run.group_count is not None:
        note = "" if run.ari is None else f"ARI {run.ari:.2f}"
        facts.append(Fact(name="groups", value=str(run.group_count), note=note))
    if run.result is not None:
        traffic = run.result["traffic"]
        total = (traffic["up_bytes"] + traffic["down_bytes"]) / 1e6
        facts.append(Fact(name="traffic", value=f"{total:,.2f} MB", note="both ways, in training"))
    if run.event_count:
        facts.append(Fact(name="events", value=str(run.event_count), note="what went wrong"))
    return tuple(facts)


def _ranked(runs: Sequence[StoredRun]) -> str:
    """Say who is how good, by protocol."""
    texts = []
    for key, protocol in AT_END.items():
        measured = [(number, run.name) for run in runs if (number := run.accuracy(key)) is not None]
        if measured:
            measured.sort(key=lambda pair: -pair[0])
            ranking = ", ".join(f"{whose} {number:.1f} %" for number, whose in measured)
            texts.append(f"Under {protocol.symbol}: {ranking}.")
    if not texts:
        return "No accuracy was measured."
    return (
        f"From the highest accuracy to the lowest. {' '.join(texts)} These are single runs: a difference may be chance."
    )


def _setting(run: StoredRun) -> str:
    partition = (run.result or {}).get("partition") or run.setting("partition", "name")
    share = run.setting("training", "fraction")
    return (
        str(run.setting("data", "name"))
        + (f", divided by '{partition}'" if partition else "")
        + f": {run.clients} clients, {run.rounds} rounds"
        + (f" with a share of {share:g} of the clients in each" if share is not None else "")
        + f", network {run.setting('model', 'name')}, seed {run.setting('run', 'seed')}."
    )


def _reached(run: StoredRun) -> str:
    """Say the accuracies, and how the worst clients fare."""
    accuracies = [
        protocol.summary.format(f"{number:.1f} %")
        for key, protocol in AT_END.items()
        if protocol.summary and (number := run.accuracy(key)) is not None
    ]
    if not accuracies:
        return "No accuracy was measured."
    text = ("At the end " if run.result else "At the last evaluation ") + ", ".join(accuracies) + "."
    many, mean = worst_tenth(run)
    if mean is not None:
        who = "the worst client has" if many == 1 else f"the worst tenth of the clients ({many}) have"
        text += f" Under L {who} {mean:.1f} %{'' if many == 1 else ' on average'}."
    return text


def _tested(runs: Sequence[StoredRun]) -> str:
    """Say where it was not test samples that were tested on."""
    sentences = dict.fromkeys(held_out(float(run.setting("evaluation", "validation") or 0.0)) for run in runs)
    return " ".join(text for text in sentences if text)


def _found(run: StoredRun) -> str:
    """Say which groups there are."""
    if run.result is None or run.group_count is None:
        return ""
    many = "is 1 group" if run.group_count == 1 else f"are {run.group_count} groups"
    agree = "" if run.ari is None else f" (agreement with the true groups: ARI {run.ari:.2f}; 1 is full, 0 is chance)"
    reason = (run.result.get("grouping") or {}).get("reason") or ""
    return f"There {many} of clients{agree}. {reason}".strip()


def _spent(run: StoredRun) -> str:
    """Say what it cost, and what went wrong."""
    if run.result is None:
        return ""
    traffic = run.result["traffic"]
    return (
        f"In training {traffic['down_bytes'] / 1e6:,.2f} MB went to clients and {traffic['up_bytes'] / 1e6:,.2f} MB "
        f"came back; it took {run.result.get('seconds', 0):,.1f} s. {events_in_words(run) or 'No reply was missed.'}"
    )
