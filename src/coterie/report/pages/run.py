"""The page of a run, or of several runs beside each other."""

from collections.abc import Mapping, Sequence
from typing import Any

from coterie.errors import counted
from coterie.report.groups import groups_section, labels_section
from coterie.report.pages.clients import clients_of_runs, differences, measured_by, worst_tenth
from coterie.report.pages.curves import accuracies, final_accuracy, followed, switch, target_marks
from coterie.report.pages.events import events_in_words, events_section
from coterie.report.pages.origin import origin_of_runs
from coterie.report.pages.special import curriculum_section, newcomers_section, privacy_section, pruning_section
from coterie.report.pages.true_groups import by_true_group
from coterie.results.charts import Block, Fact, Mark, NumberCell, Page, Section, Series, Table, Values, values
from coterie.results.events import not_measured
from coterie.results.formats import data_title
from coterie.results.metrics import ACCURACY, capital, scale
from coterie.results.protocols import (
    AT_END,
    CURVES,
    EACH_CLIENT,
    OVER_GROUPS,
    PROTOCOLS,
    estimated,
    held_out,
)
from coterie.results.runs import StoredRun


def run_page(runs: Sequence[StoredRun]) -> Page:
    """Return the page of runs; every accuracy on it says its protocol."""
    sections = [
        _results(runs),
        _rounds(runs),
        clients_of_runs(runs),
        *(groups_section(run, alone=len(runs) == 1) for run in runs),
        labels_section(runs),
        _traffic(runs),
        newcomers_section(runs),
        curriculum_section(runs),
        pruning_section(runs),
        privacy_section(runs),
        events_section(runs),
        origin_of_runs(runs),
    ]
    methods = dict.fromkeys(run.algorithm for run in runs)
    data = dict.fromkeys(data_title(str(run.setting("data", "name"))) for run in runs)
    return Page(
        title=f"{', '.join(methods)} on {', '.join(data)}",
        summary=_summary(runs),
        facts=_facts(runs[0]) if len(runs) == 1 else (),
        sections=tuple(section for section in sections if section is not None),
    )


def _summary(runs: Sequence[StoredRun]) -> tuple[str, ...]:
    """Summarise the runs in plain words."""
    texts = [f"{run.name} on {_setting(run)}" for run in runs]
    if len(runs) == 1:
        sentences = (
            *(_accuracies(runs[0]), estimated(runs[0].latest), _tested(runs)),
            *(_groups_text(runs[0]), _costs_text(runs[0])),
        )
        return (*texts, " ".join(text for text in sentences if text), *runs[0].warnings)
    if len({_setting(run) for run in runs}) == 1:
        texts = [f"{', '.join(run.name for run in runs)} on {_setting(runs[0])}"]
    differing = differences(runs)
    if differing:
        texts.append(f"These runs differ in more than the method: in {', '.join(differing)}. Compare them with care.")
    return (
        *texts,
        f"{_ranked(runs)} {_tested(runs)}".strip(),
        *dict.fromkeys(text for run in runs if (text := estimated(run.latest))),
        *(f"{run.name}: {text}" for run in runs for text in run.warnings),
    )


def _facts(run: StoredRun) -> tuple[Fact, ...]:
    """Return the numbers worth seeing first."""
    facts = [
        Fact(name=f"{run.metric} {protocol.symbol}", value=_with_error(run, key) + run.scale.behind, note=protocol.card)
        for key, protocol in AT_END.items()
        if run.accuracy(key) is not None
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


def _with_error(run: StoredRun, protocol: str) -> str:
    """Write an accuracy in %, or an error, with its standard error where it is an estimate."""
    number, error = run.accuracy(protocol), run.standard_error(protocol)
    if number is None:
        return "–"
    return run.scale.shown(number) + ("" if error is None else f" ± {run.scale.shown(error)}")


def _cell(run: StoredRun, protocol: str) -> NumberCell | float | None:
    """Return an accuracy for a table; without a standard error it is just a number."""
    number = run.accuracy(protocol)
    if run.standard_error(protocol) is not None:
        return NumberCell(_with_error(run, protocol), number)
    return None if run.result and protocol in not_measured(run.result["accuracy"]) else _or_dash(run, number)


def _or_dash(run: StoredRun, number: float | None) -> NumberCell | float | None:
    """Return what a finished run has not, since it is not defined for it, as a dash."""
    return NumberCell("–", None) if number is None and run.result else number


def _ranked(runs: Sequence[StoredRun]) -> str:
    """Rank the runs, by protocol."""
    texts, metric = [], measured_by(runs)
    shown = scale(metric)
    for key, protocol in AT_END.items():
        measured = [(number, run.name) for run in runs if (number := run.accuracy(key)) is not None]
        if measured:
            measured.sort(key=lambda pair: -shown.sign * pair[0])
            ranking = ", ".join(f"{name} {shown.text(number, 1)}" for number, name in measured)
            texts.append(f"Under {protocol.symbol}: {ranking}.")
    if not texts:
        return f"No {metric} was measured."
    order = "lowest {} to the highest" if shown.is_error else "highest {} to the lowest"
    return f"From the {order.format(metric)}. {' '.join(texts)} These are single runs: a difference may be chance."


def _setting(run: StoredRun) -> str:
    partition = (run.result or {}).get("partition") or run.setting("partition", "name")
    share = run.setting("training", "fraction")
    return (
        data_title(str(run.setting("data", "name")))
        + (f", divided by '{partition}'" if partition else "")
        + f": {counted(run.clients, 'client')}, {counted(run.rounds, 'round')}"
        + (f" with a share of {share:g} of the clients in each" if share is not None else "")
        + f", network {run.setting('model', 'name')}, seed {run.setting('run', 'seed')}."
    )


def _accuracies(run: StoredRun) -> str:
    """Say the accuracies, and how the worst clients fare."""
    measured = [(p, number) for key, p in AT_END.items() if p.summary and (number := run.accuracy(key)) is not None]
    if not measured:
        return f"No {run.metric} was measured."
    when = "At the end" if run.result else "At the last evaluation"
    if run.metric == ACCURACY:
        text = f"{when} {', '.join(p.summary.format(f'{number:.1f} %') for p, number in measured)}."
    else:
        numbers = ", ".join(f"{run.scale.text(number, 1)} under {p.symbol} ({p.card})" for p, number in measured)
        text = f"{when} {run.metric} is {numbers}."
    many, mean = worst_tenth(run)
    if mean is not None:
        subject = "the worst client has" if many == 1 else f"the worst tenth of the clients ({many}) have"
        text += f" Under L {subject} {run.scale.text(mean, 1)}{'' if many == 1 else ' on average'}."
    return text


def _tested(runs: Sequence[StoredRun]) -> str:
    """Say where accuracies are of validation samples."""
    sentences = dict.fromkeys(held_out(float(run.setting("evaluation", "validation") or 0.0)) for run in runs)
    return " ".join(text for text in sentences if text)


def _groups_text(run: StoredRun) -> str:
    """Say which groups there are."""
    if run.result is None or run.group_count is None:
        return ""
    many = "is 1 group" if run.group_count == 1 else f"are {run.group_count} groups"
    agree = "" if run.ari is None else f" (agreement with the true groups: ARI {run.ari:.2f}; 1 is full, 0 is chance)"
    reason = (run.result.get("grouping") or {}).get("reason") or ""
    return f"There {many} of clients{agree}. {reason}".strip()


def _costs_text(run: StoredRun) -> str:
    """Say what it cost, and what went wrong."""
    if run.result is None:
        return ""
    traffic = run.result["traffic"]
    return (
        f"In training {traffic['down_bytes'] / 1e6:,.2f} MB went to clients and {traffic['up_bytes'] / 1e6:,.2f} MB "
        f"came back; it took {run.result.get('seconds', 0):,.1f} s. {events_in_words(run) or 'No reply was missed.'}"
    )


def _results(runs: Sequence[StoredRun]) -> Section:
    rows = []
    for run in runs:
        result = run.result or {}
        traffic = result.get("traffic", {})
        rows.append(
            (
                run.name,
                *(_cell(run, key) for key in AT_END),
                *(_or_dash(run, run.over_groups(key)) for key in OVER_GROUPS),
                *(_or_dash(run, run.unadapted(key)) for key in EACH_CLIENT),
                _cell(run, "L_best"),
                *(_or_dash(run, number) for number in (worst_tenth(run)[1], run.group_count, run.ari)),
                *(values([traffic.get(way)], 1e-6)[0] for way in ("down_bytes", "up_bytes")),
                run.event_count,
                result.get("seconds"),
            )
        )
    symbols = [protocol.symbol for protocol in AT_END.values()]
    unadapted = [f"{protocol} unadapted" for protocol in EACH_CLIENT]
    unit = scale(measured_by(runs)).unit
    names = [f"{name}{unit}" for name in (*symbols, *OVER_GROUPS.values(), *unadapted, PROTOCOLS["L_best"].symbol)]
    main = Table(
        title="Results",
        columns=(
            *("run", *names, f"worst tenth, L{unit}", "groups", "ARI"),
            *("MB to clients", "MB from clients", "events", "seconds"),
        ),
        rows=tuple(rows),
        note="–, or no column: not defined for the method. MB: in training, evaluation not counted.",
    )
    meaning = Table(
        title="What the protocols measure",
        columns=("protocol", f"{measured_by(runs)} of"),
        rows=tuple((p.symbol, p.sentence) for p in (*AT_END.values(), PROTOCOLS["L_best"])),
    )
    return Section(heading="Result", blocks=(main.without_empty(), *by_true_group(runs), *_targets(runs), meaning))


def _when(run: StoredRun, target: Mapping[str, Any]) -> int | str:
    """Return the round in which a target was reached, or say why there is none."""
    if target["round"] is not None:
        return int(target["round"])
    return "never" if run.accuracy(target["protocol"]) is not None else "not defined for the method"


def _targets(runs: Sequence[StoredRun]) -> list[Block]:
    targets = [(run, target) for run in runs for target in (run.result or {}).get("targets", [])]
    if not targets:
        return []
    table = Table(
        title="Targets",
        columns=(
            "run",
            "protocol",
            f"{measured_by(runs)}{scale(measured_by(runs)).unit}",
            "reached in round",
            "MB until then",
        ),
        rows=tuple(
            (run.name, t["protocol"], run.scaled(t["value"]), _when(run, t), values([t["bytes"]], 1e-6)[0])
            for run, t in targets
        ),
    )
    return [table]


def _lines(runs: Sequence[StoredRun], key: str, factor: float = 1, megabytes: bool = False) -> tuple[Series, ...]:
    """Return a line per run that has numbers, each in the colour of its run, between standard errors if it has any."""
    return tuple(
        Series(
            name=run.name,
            x=run.megabytes if megabytes else run.curve("round"),
            y=run.curve(key, factor),
            low=_shifted(run, key, -factor),
            high=_shifted(run, key, factor),
            slot=slot,
        )
        for slot, run in enumerate(runs)
        if run.has(key)
    )


def _shaded(runs: Sequence[StoredRun]) -> str:
    """Say what the bands around lines are, if there are any."""
    return "Shaded: a standard error to each side." if any(run.errors(key) for run in runs for key in CURVES) else ""


def _shifted(run: StoredRun, key: str, factor: float) -> Values:
    """Return a column a standard error lower, or higher; none where it is exact."""
    pairs = zip(run.curve(key), run.errors(key), strict=False)
    return tuple(None if n is None or e is None else abs(factor) * n + factor * e for n, e in pairs)


def _rounds(runs: Sequence[StoredRun]) -> Section:
    def marks(key: str) -> tuple[Mark, ...]:
        return (*_levels(runs, key), *_arrivals(runs))

    metric = measured_by(runs)
    variants = accuracies(metric, lambda key: _lines(runs, key, scale(metric).factor), marks, _shaded(runs))
    tuned = {run.name: number for run in runs if (number := run.accuracy("plus")) is not None}
    if tuned:
        variants.append(final_accuracy(metric, "run", [*tuned], Series(name=f"{metric} +", y=tuple(tuned.values()))))
    others = followed(lambda key: _lines(runs, key), marks)
    text = () if variants else (f"No {metric} was measured in any round.",)
    lacking = [f"{run.name} has no {', '.join(names)}" for run in runs if (names := _lacking(run, runs))]
    missing = (f"{'; '.join(lacking)}: not defined for the method, or not measured.",) if lacking and variants else ()
    blocks = (*switch("Protocol", variants), *switch("Show", others))
    return Section(heading=f"{capital(metric)} over rounds", text=text + missing, blocks=blocks)


def _lacking(run: StoredRun, runs: Sequence[StoredRun]) -> list[str]:
    """Return the protocols that others have, but not this one."""
    return [p.symbol for key, p in CURVES.items() if not run.has(key) and any(other.has(key) for other in runs)]


def _levels(runs: Sequence[StoredRun], key: str) -> tuple[Mark, ...]:
    """Mark the targets of a protocol."""
    targets = [target for run in runs for target in (run.result or {}).get("targets", [])]
    levels = {target["value"] for target in targets if target["protocol"] == key}
    return target_marks(levels, scale(measured_by(runs)).factor)


def _arrivals(runs: Sequence[StoredRun]) -> tuple[Mark, ...]:
    """Mark when newcomers came."""
    rounds = {late["round"] for run in runs if (late := run.newcomers) and late["round"] <= run.rounds}
    return tuple(Mark(at=when, text="newcomers") for when in sorted(rounds))


def _traffic(runs: Sequence[StoredRun]) -> Section | None:
    metric = measured_by(runs)
    variants = accuracies(
        metric,
        lambda key: _lines(runs, key, scale(metric).factor, megabytes=True),
        lambda key: _levels(runs, key),
        _shaded(runs),
        megabytes="MB both ways, in training",
    )
    blocks = (*switch("Protocol", variants), *_by_kind([run for run in runs if run.result]))
    return Section(heading=f"{capital(metric)} against megabytes", blocks=blocks) if blocks else None


def _by_kind(runs: Sequence[StoredRun]) -> list[Block]:
    """Show the megabytes of each kind of message."""
    traffic = {run.name: (run.result or {})["traffic"].get("by_kind", {}) for run in runs}
    if not traffic:
        return []
    kinds = list(dict.fromkeys(kind for by_kind in traffic.values() for kind in by_kind))
    table = Table(
        title="Traffic by kind of message (MB)",
        columns=("run", "kind", "to clients", "from clients"),
        rows=tuple(
            (name, kind, *(values([by_kind[kind][way]], 1e-6)[0] for way in ("down", "up")))
            for name, by_kind in traffic.items()
            for kind in kinds
            if kind in by_kind
        ),
        digits=3,
        note="Exact bytes of all messages. `evaluate` only measures, and is in no total.",
    )
    return [table]
