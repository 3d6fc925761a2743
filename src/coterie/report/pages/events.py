"""What went wrong without stopping a run: what, how often, at which client, and who is no longer asked."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from coterie.report.pages.curves import switch
from coterie.results.charts import Bars, Chart, Section, Series, Table, values
from coterie.results.events import divergence
from coterie.results.runs import StoredRun

MEANINGS = {
    "invalid": ("nonsense", "The reply held no usable numbers (NaN, a wrong shape, a wrong round): it was not used."),
    "left out": ("left out", "Too many replies of the client were nonsense: it is no longer asked."),
    "dropped": ("not reached", "The client did not get the request, or its machine was gone: it took no part."),
    "late": ("late", "The reply did not come in time: it was not used."),
    "failed": ("failed", "The client's program stopped with an error: there is no reply."),
    "refused": ("refused", "The client would not do what it was asked."),
    "diverged": (
        "diverged",
        "The client's training came to infinite or undefined numbers, or to a loss far beyond that of guessing.",
    ),
    "too few": ("too few replies", "Fewer clients answered than `min_replies` asks for: the training changed nothing."),
    "surplus": ("not needed", "More clients were asked than needed, and enough others answered first."),
    "turned away": (
        "turned away",
        "A machine could not take part: its name is taken, its data can't be used, or it does not say who it is.",
    ),
    "clipped": ("cut", "The client's update was much longer than others': it counts as if it were shorter."),
    "weight cut": ("weight cut", "The client has many more samples than others (`max_weight`): it counts for fewer."),
    "too large": ("too many samples", "The client declares more samples than `max_samples` allows: it is not asked."),
    "outlier": (
        "loss or update not believed",
        "The loss, or the update, was several times as large as others': no mean loss or discrepancy includes it.",
    ),
    "withheld": (
        "withheld",
        "The client has too few samples to tell this (`min_samples`), or its privacy limit does not allow it.",
    ),
    "spent": (
        "trained as often as planned",
        "The noise of private training (`dp_sgd`) was made for so many trainings of a client: it is asked for no more.",
    ),
    "empty": ("never trained (no training samples)", "The client has no training samples: it is never asked to train."),
    "untested": ("not tested (no test samples)", "The client has no test samples: no mean includes it."),
}
"""Kinds of events: a name, and what it means. Another kind is shown by its own name."""
IMPERSONAL = ("too few", "turned away")
"""Kinds that belong to no client."""
NONSENSE, EXCLUDED = "invalid", "left out"
SHOWN = 8
"""Clients that a cell of the table names at most."""
DRAWN = 40
"""Clients that are drawn at most: those with the most events."""


def meaning(kind: str) -> tuple[str, str]:
    """Return the name of a kind, and what it means."""
    return MEANINGS.get(kind, (kind, ""))


def clients_of(event: Mapping[str, Any]) -> dict[int, int]:
    """Return how often an event came from each client, the most frequent first; older results do not say."""
    if event.get("kind") in IMPERSONAL:
        return {}
    counts = {int(client): int(count) for client, count in event.get("clients", {}).items()}
    return dict(sorted(counts.items(), key=lambda pair: (-pair[1], pair[0])))


def events_in_words(run: StoredRun) -> str:
    """Say in a sentence or two what went wrong; empty if nothing did, or nothing is known."""
    if not run.events:
        return ""
    counted = ", ".join(f"{event['count']} × {meaning(event['kind'])[0]}" for event in run.events)
    events = {event["kind"]: event for event in run.events}
    text = f"What went wrong: {counted}; each round went on with the other replies."
    if run.result is not None and (diverged := divergence(run.result)):
        text = f"{diverged[0].upper()}{diverged[1:]}. {text}"
    if NONSENSE in events and (senders := clients_of(events[NONSENSE])):
        out = clients_of(events.get(EXCLUDED, {}))
        many = f", {len(out)} of them so often that {'it is' if len(out) == 1 else 'they are'} no longer asked"
        text += f" {_clients(len(senders))} sent nonsense{many if out else ''}."
    return text


def events_section(runs: Sequence[StoredRun]) -> Section:
    """Show the events of runs."""
    if not any(run.events for run in runs):
        unfinished = [run.name for run in runs if run.result is None]
        remark = f"Events are known when a run is finished: {', '.join(unfinished)}." if unfinished else ""
        return Section(heading="Events", text=(remark or "Nothing went wrong: every reply came and was valid.",))
    rows = tuple(
        (
            run.name,
            name if name == event["kind"] else f"{name} ({event['kind']})",  # beside it the word that results use
            event["count"],
            event.get("first_round"),
            event.get("last_round"),
            _clients_cell(run, event),
            _details_cell(event),
            description.replace("`", ""),
        )
        for run in runs
        for event in run.events
        for name, description in [meaning(event["kind"])]
    )
    columns = ("run", "event", "how many", "first in round", "last in round", "clients (how often)", "what was seen")
    table = Table(title="Events", columns=(*columns, "what it means"), rows=rows)
    texts = ["What went wrong without stopping the run: each round went on with the other replies."]
    texts += [f"{run.name}: {text}" for run in runs for text in _strikes(run)]
    charts: list[tuple[str, Chart]] = [(run.name, chart) for run in runs if (chart := _by_client(run))]
    blocks = [charts[0][1]] if len(charts) == 1 else switch("Run", charts)
    return Section(heading="Events", text=tuple(texts), blocks=(table, *blocks))


def _clients_cell(run: StoredRun, event: Mapping[str, Any]) -> str:
    counts = clients_of(event)
    named = [f"{run.label(c)}{f' × {n}' if n > 1 else ''}" for c, n in [*counts.items()][:SHOWN]]
    return ", ".join(named) + (f" and {len(counts) - SHOWN} more" if len(counts) > SHOWN else "") or "–"


def _details_cell(event: Mapping[str, Any]) -> str:
    details: dict[str, int] = event.get("details", {})
    if not details:
        return "–" if "details" in event else str(event.get("example", "")) or "–"  # of an older result
    seen = sorted(details.items(), key=lambda pair: -pair[1])
    listed = "; ".join(f"{detail}{f' (× {n})' if n > 1 else ''}" for detail, n in seen[:3])
    more = len(seen) - 3
    return listed + (f"; and {more} other description{'s' * (more > 1)}" if more > 0 else "")


def _clients(many: int) -> str:
    return f"{many} client{'s' * (many > 1)}"


def _strikes(run: StoredRun) -> list[str]:
    """Say how many clients sent nonsense, how often that is allowed, and who is left out."""
    events = {event["kind"]: event for event in run.events}
    if NONSENSE not in events:
        return []
    strikes, out = clients_of(events[NONSENSE]), clients_of(events.get(EXCLUDED, {}))
    replies = f"{events[NONSENSE]['count']} replies were nonsense"
    start = f"{_clients(len(strikes))} sent nonsense" if strikes else replies
    allowed = run.setting("engine", "max_strikes")
    if allowed is None:
        return [f"{start}; no limit was set (`--max-strikes`), so that all are asked again in later rounds."]
    left = ", ".join(run.label(client) for client in [*out][:SHOWN])
    left += f" and {len(out) - SHOWN} more" if len(out) > SHOWN else ""
    after = f"after {allowed} such repl{'y' if allowed == 1 else 'ies'} a client is no longer asked"
    return [f"{start}; {after}" + f"; left out: {left or 'nobody'}."]


def _by_client(run: StoredRun) -> Bars | None:
    """Draw how many events of each kind each client had."""
    counts = {event["kind"]: clients_of(event) for event in run.events}
    kinds = [kind for kind, by_client in counts.items() if by_client and kind != EXCLUDED]
    totals = Counter[int]()
    for kind in kinds:
        totals.update(counts[kind])
    if not totals:
        return None
    order = sorted(totals, key=lambda client: (-totals[client], client))
    out = counts.get(EXCLUDED, {})
    clients = sorted(order[:DRAWN])
    note = f"The {DRAWN} clients with the most events, of {len(order)}." if len(order) > DRAWN else ""
    if out:
        note = f"{note} *: left out, after too much nonsense.".strip()
    return Bars(
        title=f"Events of each client ({run.name})",
        x_label="client",
        y_label="events",
        categories=tuple(f"{run.label(client)}{'*' if client in out else ''}" for client in clients),
        series=tuple(
            Series(name=meaning(kind)[0], y=values(counts[kind].get(client) for client in clients)) for kind in kinds
        ),
        stacked=True,
        digits=0,
        note=note or "Clients without events are not shown.",
    )
