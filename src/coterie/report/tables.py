"""Results as a table on the terminal."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from coterie.errors import counted
from coterie.report.pages.events import clients_of, meaning
from coterie.report.text_table import NOT_MEASURED, TextTable, printed
from coterie.results.events import divergence, never_asked, not_measured
from coterie.results.formats import data_title
from coterie.results.metrics import ACCURACY, common_title, scale, scale_of
from coterie.results.privacy import privacy_text
from coterie.results.protocols import BY_LABEL, COMPARED, EACH_CLIENT, brief, estimated, held_out, standard_errors
from coterie.results.statistics import group_count

LEGEND = (
    f"{{metric}}, mean over clients. {'; '.join(brief(COMPARED.values()))}; –: not defined for this method. "
    "Clients are tested on their own test parts (L, C, +). MB: megabytes sent to and by clients in training, "
    "evaluation not counted."
)


def result_table(results: Sequence[Mapping[str, Any]]) -> str:
    """Return a row per result, each accuracy under its protocol; means over true groups below, where they differ."""
    table = TextTable(
        ["method", *COMPARED.values(), "groups", "ARI", "MB down", "MB up", "events", "seconds"],
        [
            [
                result["algorithm"],
                *(_accuracy(result, protocol) for protocol in COMPARED),
                "–" if (groups := group_count(result["groups"])) is None else str(groups),
                "–" if result["ari"] is None else f"{result['ari']:.2f}",
                *(f"{result['traffic'][way] / 1e6:.2f}" for way in ("down_bytes", "up_bytes")),
                str(sum(event["count"] for event in result["events"])),
                f"{result['seconds']:.1f}",
            ]
            for result in results
        ],
    )
    first = results[0]
    title = (
        f"{data_title(first['data'])}, {counted(len(first['per_client'].get('L') or []), 'client')}"
        + (f", {first['partition']}" if first["partition"] else "")
        + f", {first['model']}, {counted(first['rounds'], 'round')}, seed {first['seed']}"
    )
    notes = []
    for result in results:
        shown = scale_of(result)
        notes += [f"{result['algorithm']}: {text}" for text in _what_happened(result)]
        tested, served = (
            sum(v is not None for v in result["per_client"].get(protocol) or []) for protocol in EACH_CLIENT
        )
        if 0 < served < tested:
            notes.append(
                f"{result['algorithm']}: C and + are of {served} of {tested} clients; others are in no group yet"
            )
        by_group = result.get("accuracy_group_mean") or {}  # as in the table where groups are of one size
        means = [(symbol, by_group.get(key), result["accuracy"].get(key)) for key, symbol in COMPARED.items()]
        if any(mean is not None and abs(mean - (value or 0)) > 5e-5 * 100 / shown.factor for _, mean, value in means):
            texts = [f"{symbol} {shown.written(mean)}" for symbol, mean, _ in means if mean is not None]
            notes.append(f"{result['algorithm']}: means over the true groups instead of clients: {', '.join(texts)}")
        if (by_label := _by_label(result["accuracy"])) is not None:
            notes.append(f"{result['algorithm']}: {by_label}")
        if unadapted := result.get("unadapted"):
            notes.append(
                f"{result['algorithm']}: clients adapt models before they use them; without it L "
                f"{shown.written(unadapted.get('L'))}, C {shown.written(unadapted.get('C'))}"
            )
        notes += [f"{result['algorithm']}: {text}" for text in privacy_text(result)]
        if late := result["newcomers"]:
            when = "after training" if late["round"] > result["rounds"] else f"in round {late['round']}"
            founded = f"; founded their own group: {', '.join(map(str, late['founded']))}" if late["founded"] else ""
            reached = ", ".join(f"{p} {shown.written(late['accuracy'].get(p))}" for p in EACH_CLIENT)
            asked = f" ({late['measured']['L']} evaluated)" if "L" in late.get("measured", {}) else ""
            many = counted(len(late["clients"]), "newcomer")
            notes.append(f"{result['algorithm']}: {many} {when}{asked}: {reached}{founded}")
    sampled = dict.fromkeys(estimated(result) for result in results)
    tested_on = dict.fromkeys(held_out(result.get("validation", 0.0)) for result in results)
    legend = LEGEND.format(metric=scale(common_title(str(run.get("metric", ACCURACY)) for run in results)).heading)
    return printed([title], table, [*notes, legend, *filter(None, [*sampled, *tested_on])], width=100)


def _what_happened(result: Mapping[str, Any]) -> Iterator[str]:
    """Say, cause by cause, what went wrong, and who never took part."""
    causes = (f"{meaning(event['kind'])[0]} {event['count']} ×{_whose(event)}" for event in result["events"])
    if result["events"]:
        yield f"what went wrong: {'; '.join(causes)}"
    if absent := never_asked(result):
        clients = f"{absent} of {len(result['per_client'].get('L') or [])} clients"
        yield f"{clients} were never asked to train: the L of each is that of the model it began with"
    if text := divergence(result):
        yield text


def _whose(event: Mapping[str, Any]) -> str:
    many = len(clients_of(event))
    return f" ({many} client{'s' * (many > 1)})" if many else ""


def _accuracy(result: Mapping[str, Any], protocol: str) -> str:
    """Write an accuracy; where there is none, whether that is because of the method or of what went wrong."""
    missing = protocol in not_measured(result["accuracy"])
    error = standard_errors(result).get(protocol)
    return NOT_MEASURED if missing else scale_of(result).written(result["accuracy"].get(protocol), error=error)


def _by_label(accuracy: Mapping[str, float | None]) -> str | None:
    """Say what C is by the labels that clients have and lack, where they lack some."""
    own, lacking = (accuracy.get(protocol) for protocol in BY_LABEL)
    if lacking is None:
        return None
    often, without = (scale(ACCURACY).written(number) for number in (own, lacking))
    return f"C with each label as often as a client has it {often}, on labels that it lacks {without}"
