"""The page of a run, or of several runs beside each other."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

import numpy as np

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
    Point,
    Sample,
    Scatter,
    Section,
    Series,
    Switch,
    Table,
    Value,
    values,
    worst_of,
)
from coterie.report.group_views import groups_section, labels_section
from coterie.report.pruning import pruning_curves
from coterie.report.runs import Run, percent

PROTOCOLS = {
    "L": ("L", "each client's own model after its last training, on its own test part; mean over clients"),
    "C": ("C", "the model that each client would receive now, on its own test part; mean over clients"),
    "G": ("G", "the server's model, on the whole test set"),
    "plus": ("+", "the final model, trained once more by each client, on its own test part; mean over clients"),
    "W_max": ("W-max", "as C, but over all clients' test samples pooled; the best evaluated round"),
}
"""The protocols of a result: how they are written, and what they measure."""
CURVES = {
    **{protocol: PROTOCOLS[protocol] for protocol in ("L", "C", "G")},
    "W": ("W", "as C, but over all clients' test samples pooled"),
}
"""Those that are followed over rounds."""
WORST = 0.1


def run_page(runs: Sequence[Run]) -> Page:
    """Return the page of runs; every accuracy on it says its protocol."""
    sections = [
        _results(runs),
        _rounds(runs),
        _clients(runs),
        *(groups_section(run, alone=len(runs) == 1) for run in runs),
        labels_section(runs),
        _traffic(runs),
        _newcomers(runs),
        _curriculum(runs),
        _pruning(runs),
        _events(runs),
        _configuration(runs),
    ]
    return Page(
        title=_title(runs),
        summary=_summary(runs),
        facts=_facts(runs[0]) if len(runs) == 1 else (),
        sections=tuple(section for section in sections if section is not None),
    )


def solo_of(run: Run, runs: Sequence[Run]) -> Run | None:
    """Return the run of SOLO with which a run can be compared client by client, if it is there."""
    for other in runs:
        if other.algorithm == "solo" and run.algorithm != "solo" and other.result and not differences([run, other]):
            return other
    return None


def differences(runs: Sequence[Run]) -> list[str]:
    """Return in what the federations of runs differ: data, division, newcomers, seed."""
    found = [
        name
        for name, section in (("data", "data"), ("division", "partition"), ("newcomers", "newcomers"))
        if any(run.config.get(section) != runs[0].config.get(section) for run in runs)
    ]
    return found + (["seed"] if len({run.setting("run", "seed") for run in runs}) > 1 else [])


def _title(runs: Sequence[Run]) -> str:
    methods = list(dict.fromkeys(run.algorithm for run in runs))
    return f"{', '.join(methods)} on {', '.join(dict.fromkeys(str(run.setting('data', 'name')) for run in runs))}"


def _summary(runs: Sequence[Run]) -> tuple[str, ...]:
    """Say in plain words what it comes to."""
    texts = [f"{run.name} on {_setting(run)}" for run in runs]
    if len(runs) > 1 and len({_setting(run) for run in runs}) == 1:
        texts = [f"{', '.join(run.name for run in runs)} on {_setting(runs[0])}"]
    if len(runs) > 1:
        apart = differences(runs)
        if apart:
            texts.append(f"These runs differ in more than the method: in {', '.join(apart)}. Compare them with care.")
        texts += [_ranked(runs), *(f"{run.name}: {problem}" for run in runs for problem in run.problems)]
    else:
        told = (_reached(runs[0]), _found(runs[0]), _spent(runs[0]))
        texts += [" ".join(text for text in told if text), *runs[0].problems]
    return tuple(texts)


def _ranked(runs: Sequence[Run]) -> str:
    """Say who is how good, by protocol."""
    texts = []
    for protocol, (name, _) in CURVES.items():
        known = [(number, run.name) for run in runs if (number := run.accuracy(protocol)) is not None]
        if known:
            known.sort(key=lambda pair: -pair[0])
            texts.append(f"Under {name}: " + ", ".join(f"{whose} {number:.1f} %" for number, whose in known) + ".")
    if not texts:
        return "No accuracy was measured."
    return (
        f"From the highest accuracy to the lowest. {' '.join(texts)} These are single runs: a difference may be chance."
    )


def _setting(run: Run) -> str:
    partition = (run.result or {}).get("partition") or run.setting("partition", "name")
    share = run.setting("training", "fraction")
    return (
        str(run.setting("data", "name"))
        + (f", divided by '{partition}'" if partition else "")
        + f": {run.clients} clients, {run.rounds} rounds"
        + (f" with a share of {share:g} of the clients in each" if share is not None else "")
        + f", network {run.setting('model', 'name')}, seed {run.setting('run', 'seed')}."
    )


def _reached(run: Run) -> str:
    """Say the accuracies, and how the worst clients fare."""
    words = {
        "L": "each client's own model is right on {} of its test samples (L)",
        "C": "the model that it would receive now on {} (C)",
        "G": "the server's model on {} of the whole test set (G)",
        "plus": "the final model fine-tuned once by every client on {} (+)",
    }
    found = [text.format(f"{n:.1f} %") for key, text in words.items() if (n := run.accuracy(key)) is not None]
    if not found:
        return "No accuracy was measured."
    when = "At the end " if run.result else "At the last evaluation "
    text = when + ", ".join(found) + "."
    worst, mean = worst_of(run.per_client("L"), WORST)
    if mean is not None:
        many = "the worst client has" if len(worst) == 1 else f"the worst tenth of the clients ({len(worst)}) have"
        text += f" Under L {many} {mean:.1f} %{'' if len(worst) == 1 else ' on average'}."
    return text


def _found(run: Run) -> str:
    """Say which groups there are."""
    if run.result is None or not run.groups:
        return ""
    many = len({group for group in run.groups if group is not None})
    ari = run.result.get("ari")
    agree = "" if ari is None else f" (agreement with the true groups: ARI {ari:.2f}; 1 is full, 0 is chance)"
    reason = (run.result.get("grouping") or {}).get("reason") or ""
    return f"There {'is 1 group' if many == 1 else f'are {many} groups'} of clients{agree}. {reason}".strip()


def _spent(run: Run) -> str:
    """Say what it cost, and what went wrong."""
    if run.result is None:
        return ""
    traffic, missed = run.result["traffic"], sum(event["count"] for event in run.result["events"])
    return (
        f"In training {traffic['down_bytes'] / 1e6:,.2f} MB went to clients and {traffic['up_bytes'] / 1e6:,.2f} MB "
        f"came back; it took {run.result.get('seconds', 0):,.1f} s. "
        + (
            f"{missed} event{'s' * (missed > 1)} {'were' if missed > 1 else 'was'} noted."
            if missed
            else "No reply was missed."
        )
    )


def _facts(run: Run) -> tuple[Fact, ...]:
    facts = [
        Fact(name=f"accuracy {name}", value=f"{number:.2f} %", note=_shorter(key))
        for key, (name, _) in PROTOCOLS.items()
        if (number := run.accuracy(key)) is not None
    ]
    if run.result is not None and run.groups:
        ari = run.result.get("ari")
        found = str(len({group for group in run.groups if group is not None}))
        facts.append(Fact(name="groups", value=found, note="" if ari is None else f"ARI {ari:.2f}"))
    if run.result is not None:
        traffic = run.result["traffic"]
        total = (traffic["up_bytes"] + traffic["down_bytes"]) / 1e6
        facts.append(Fact(name="traffic", value=f"{total:,.2f} MB", note="both ways, in training"))
    return tuple(facts)


def _shorter(protocol: str) -> str:
    return {
        "L": "own models",
        "C": "models received",
        "G": "server's model",
        "plus": "fine-tuned once",
        "W_max": "best round, samples pooled",
    }[protocol]


def _results(runs: Sequence[Run]) -> Section:
    rows = []
    for run in runs:
        result = run.result or {}
        traffic, groups = result.get("traffic", {}), run.groups
        rows.append(
            (
                run.name,
                *(run.accuracy(protocol) for protocol in PROTOCOLS),
                worst_of(run.per_client("L"), WORST)[1],
                None if not groups else len({group for group in groups if group is not None}),
                result.get("ari"),
                *(values([traffic.get(way)], 1e-6)[0] for way in ("down_bytes", "up_bytes")),
                sum(event["count"] for event in result["events"]) if result else None,
                result.get("seconds"),
            )
        )
    names = [f"{name} (%)" for name, _ in PROTOCOLS.values()]
    blocks: list[Block] = [
        Table(
            title="Results",
            columns=(
                *("run", *names, "worst tenth, L (%)", "groups", "ARI"),
                *("MB to clients", "MB from clients", "events", "seconds"),
            ),
            rows=tuple(rows),
            note="Not measured: the protocol is not defined for the method, or the run is not finished. "
            "MB: in training, evaluation not counted.",
        )
    ]
    targets = [(run, target) for run in runs for target in (run.result or {}).get("targets", [])]
    if targets:
        blocks.append(
            Table(
                title="Targets",
                columns=("run", "protocol", "accuracy (%)", "reached in round", "MB until then"),
                rows=tuple(
                    (run.name, t["protocol"], percent(t["value"]), t["round"], values([t["bytes"]], 1e-6)[0])
                    for run, t in targets
                ),
                note="Not measured: it was not reached.",
            )
        )
    meaning = Table(
        title="What the protocols measure", columns=("protocol", "accuracy of"), rows=(*PROTOCOLS.values(),)
    )
    return Section(heading="Result", blocks=(*blocks, meaning))


def _rounds(runs: Sequence[Run]) -> Section:
    variants = [
        (name, _curve(runs, key, f"Accuracy {name} over rounds", f"accuracy {name} (%)", f"{name}: {what}.", 100))
        for key, (name, what) in CURVES.items()
        if _any(runs, key)
    ]
    if any(run.accuracy("plus") is not None for run in runs):
        variants.append(("+", _final(runs)))
    followed = [
        (name, _curve(runs, key, f"{name.capitalize()} over rounds", name, note, digits=0 if key == "groups" else 3))
        for key, name, note in (
            ("loss", "training loss", "Mean over the local steps of the clients that trained."),
            ("groups", "number of groups", "At each evaluation."),
            (
                "discrepancy",
                "discrepancy",
                "How far clients' models are from what they would receive (FedGroup, Eq. 4).",
            ),
        )
        if _any(runs, key)
    ]
    blocks = [
        *([Switch(label="Protocol", variants=tuple(variants))] if variants else []),
        *([Switch(label="Show", variants=tuple(followed))] if followed else []),
    ]
    text = () if variants else ("No accuracy was measured in any round.",)
    lacking = [f"{run.name} has no {', '.join(names)}" for run in runs if (names := _lacking(run, runs))]
    told = (f"{'; '.join(lacking)}: not defined for the method, or not measured.",) if lacking and variants else ()
    return Section(heading="Accuracy over rounds", text=text + told, blocks=tuple(blocks))


def _lacking(run: Run, runs: Sequence[Run]) -> list[str]:
    """Return the protocols that others have, but not this one."""
    return [name for key, (name, _) in CURVES.items() if _any(runs, key) and not _any([run], key)]


def _any(runs: Sequence[Run], key: str) -> bool:
    return any(number is not None for run in runs for number in run.curve(key))


def _curve(
    runs: Sequence[Run], key: str, title: str, label: str, note: str, factor: float = 1, digits: int = 2
) -> Chart:
    series = tuple(
        Series(name=run.name, x=run.curve("round"), y=run.curve(key, factor), slot=slot)
        for slot, run in enumerate(runs)
        if _any([run], key)
    )
    marks = _marks(runs, key)
    return Lines(title=title, x_label="round", y_label=label, series=series, note=note, marks=marks, digits=digits)


def _marks(runs: Sequence[Run], key: str) -> tuple[Mark, ...]:
    """Mark the targets of a protocol, and when newcomers came."""
    levels = {t["value"] for run in runs for t in (run.result or {}).get("targets", []) if t["protocol"] == key}
    came = {
        late["round"] for run in runs if (late := (run.result or {}).get("newcomers")) and late["round"] <= run.rounds
    }
    return (
        *(Mark(at=100 * level, text=f"target {100 * level:g}", axis="y") for level in sorted(levels)),
        *(Mark(at=when, text="newcomers") for when in sorted(came)),
    )


def _final(runs: Sequence[Run]) -> Chart:
    shown = [run for run in runs if run.accuracy("plus") is not None]
    return Bars(
        title="Accuracy + at the end",
        x_label="run",
        y_label="accuracy + (%)",
        categories=tuple(run.name for run in shown),
        series=(Series(name="accuracy +", y=tuple(run.accuracy("plus") for run in shown)),),
        note=f"+: {PROTOCOLS['plus'][1]}. It is measured once, after the last round.",
    )


def _clients(runs: Sequence[Run]) -> Section:
    blocks: list[Block] = []
    variants = []
    for protocol in ("L", "C"):
        what = CURVES[protocol][1].removesuffix("; mean over clients")
        shown = [run for run in runs if any(number is not None for number in run.per_client(protocol))]
        if shown:
            samples = tuple(
                Sample(
                    name=run.name, values=run.per_client(protocol), names=_client_names(len(run.per_client(protocol)))
                )
                for run in shown
            )
            variants.append(
                (
                    protocol,
                    Distribution(
                        title=f"Accuracy {protocol} of each client",
                        x_label=f"accuracy {protocol} (%)",
                        samples=samples,
                        worst=WORST,
                        note=f"{protocol}: {what}. A point is a client.",
                    ),
                )
            )
    if variants:
        blocks.append(Switch(label="Protocol", variants=tuple(variants)))
    texts = [] if variants else ["Accuracies of single clients are known when a run is finished."]
    others = [run for run in runs if run.algorithm != "solo" and run.result]
    twins = [(run, solo) for run in others if (solo := solo_of(run, runs))]
    for run, solo in twins:
        gains = [(p, _gain(run, solo, p)) for p in ("L", "C") if any(n is not None for n in run.per_client(p))]
        texts += [text for _, (text, _) in gains]
        if gains:
            blocks.append(Switch(label="Protocol", variants=tuple((p, chart) for p, (_, chart) in gains)))
    if others and not twins:
        texts.append(
            "Who gains and who loses against training alone is shown if a run of `solo` with the same data, division, "
            "newcomers and seed is given beside this one: `coterie report RUN SOLO-RUN`."
        )
    return Section(heading="Accuracy per client", text=tuple(texts), blocks=tuple(blocks))


def _client_names(many: int) -> tuple[str, ...]:
    return tuple(f"client {client}" for client in range(many))


def _gain(run: Run, solo: Run, protocol: str) -> tuple[str, Chart]:
    """Say and show who gains and who loses against SOLO, in percentage points."""
    pairs = zip(run.per_client(protocol), solo.per_client("L"), strict=False)
    found = [(a - b, client) for client, (a, b) in enumerate(pairs) if a is not None and b is not None]
    found.sort(key=lambda pair: (-pair[0], pair[1]))
    up, down = [g for g, _ in found if g > 0], [g for g, _ in found if g < 0]
    mean = sum(g for g, _ in found) / len(found) if found else 0.0
    text = (
        f"{run.name} against {solo.name}: under {protocol} {len(up)} of {len(found)} clients gain, {len(down)} lose "
        f"and {len(found) - len(up) - len(down)} stay the same; {mean:+.1f} percentage points on average."
    )
    chart = Bars(
        title=f"{run.name} against {solo.name}, client by client ({protocol})",
        x_label="client",
        y_label=f"{protocol} minus L of SOLO (points)",
        categories=tuple(str(client) for _, client in found),
        series=(
            Series(name="gains", y=tuple(g if g >= 0 else None for g, _ in found), slot=0),
            Series(name="loses", y=tuple(g if g < 0 else None for g, _ in found), slot=1),
        ),
        stacked=True,
        note="In order of the difference. SOLO has protocol L only: each client trains alone.",
    )
    return text, chart


def _traffic(runs: Sequence[Run]) -> Section | None:
    variants = []
    for key, (name, what) in CURVES.items():
        series = tuple(
            Series(name=run.name, x=_megabytes(run), y=run.curve(key, 100), slot=slot)
            for slot, run in enumerate(runs)
            if _any([run], key)
        )
        if series:
            chart = Lines(
                title=f"Accuracy {name} against megabytes",
                x_label="MB both ways, in training",
                y_label=f"accuracy {name} (%)",
                series=series,
                note=f"{name}: {what}. Evaluation is not counted.",
            )
            variants.append((name, chart))
    blocks: list[Block] = [Switch(label="Protocol", variants=tuple(variants))] if variants else []
    done = [run for run in runs if run.result]
    if done:
        kinds = list(dict.fromkeys(kind for run in done for kind in run.result["traffic"].get("by_kind", {})))  # type: ignore[index]
        blocks.append(
            Table(
                title="Traffic by kind of message (MB)",
                columns=("run", "kind", "to clients", "from clients"),
                rows=tuple(
                    (run.name, kind, *(values([of[way]], 1e-6)[0] for way in ("down", "up")))
                    for run in done
                    for kind in kinds
                    if (of := (run.result or {})["traffic"].get("by_kind", {}).get(kind))
                ),
                digits=3,
                note="Exact bytes of all messages. `evaluate` is what only measures, and is in no total.",
            )
        )
    return Section(heading="Accuracy against megabytes", blocks=tuple(blocks)) if blocks else None


def _megabytes(run: Run) -> tuple[Value, ...]:
    pairs = zip(run.curve("up_bytes"), run.curve("down_bytes"), strict=True)
    return tuple(None if up is None or down is None else (up + down) / 1e6 for up, down in pairs)


def _newcomers(runs: Sequence[Run]) -> Section | None:
    blocks: list[Block] = []
    texts = []
    for run in runs:
        late = (run.result or {}).get("newcomers")
        if not late:
            continue
        when = "after training" if late["round"] > run.rounds else f"in round {late['round']}"
        founded = f" {len(late['founded'])} of them founded groups of their own." if late["founded"] else ""
        means = ", ".join(
            f"{protocol} {number:.1f} %"
            for protocol in ("L", "C")
            if (number := percent(late["accuracy"].get(protocol))) is not None
        )
        texts.append(
            f"{run.name}: {len(late['clients'])} clients came {when}.{founded} Their accuracy at the end: "
            f"{means or 'not measured'}. Each fine-tuned what it received: L is that model, C what it would get now."
        )
        there = {client: number for client, number in enumerate(run.per_client("L")) if client not in late["clients"]}
        each = {protocol: values(late["per_client"].get(protocol, []), 100) for protocol in ("L", "C")}
        names = tuple(f"client {client}" for client in late["clients"])
        blocks.append(
            Distribution(
                title=f"Newcomers beside the others ({run.name})",
                x_label="accuracy (%)",
                samples=(
                    *(Sample(name=f"newcomers, {p}", values=numbers, names=names) for p, numbers in each.items()),
                    Sample(
                        name="there from the beginning, L",
                        values=tuple(there.values()),
                        names=tuple(f"client {client}" for client in there),
                    ),
                ),
                worst=0,
            )
        )
        blocks.append(
            Table(
                title=f"Newcomers ({run.name})",
                columns=("client", "group", "founded it", "L (%)", "C (%)"),
                rows=tuple(
                    (
                        client,
                        "none" if group is None else str(group),
                        "yes" if client in late["founded"] else "no",
                        *(each[p][place] if place < len(each[p]) else None for p in ("L", "C")),
                    )
                    for place, (client, group) in enumerate(zip(late["clients"], late["groups"], strict=True))
                ),
            )
        )
    return Section(heading="Newcomers", text=tuple(texts), blocks=tuple(blocks)) if blocks else None


def _curriculum(runs: Sequence[Run]) -> Section | None:
    """Show how the pools grow, where a run has a curriculum."""
    texts, of_samples, of_clients = [], [], []
    for slot, run in enumerate(runs):
        data, clients = run.setting("curriculum", "data"), run.setting("curriculum", "clients")
        if data is not None:
            texts.append(f"{run.name}: clients train on some of their samples first (`{data}`).")
        if clients is not None:
            texts.append(f"{run.name}: some clients take part first (`{clients}`).")
        if "sample_pool" in run.views:
            pool = run.views["sample_pool"]
            shares = values(np.linspace(0, 100, len(pool)))
            of_samples.append(Series(name=run.name, x=shares, y=values(pool, 100), slot=slot))
        if "client_pool" in run.views:
            pool = run.views["client_pool"]
            of_clients.append(Series(name=run.name, x=values(range(1, len(pool) + 1)), y=values(pool), slot=slot))
    blocks: list[Block] = []
    if of_samples:
        blocks.append(
            Lines(
                title="The pool of samples within a local training",
                x_label="share of the local steps (%)",
                y_label="samples in the pool (%)",
                series=tuple(of_samples),
                limits=(0, 104),
            )
        )
    if of_clients:
        blocks.append(
            Lines(
                title="The pool of clients over rounds",
                x_label="round",
                y_label="clients in the pool",
                series=tuple(of_clients),
                digits=0,
            )
        )
    return Section(heading="Curriculum", text=tuple(texts), blocks=tuple(blocks)) if texts else None


def _pruning(runs: Sequence[Run]) -> Section | None:
    """Show pruned shares against accuracy, where clients prune."""
    blocks: list[Block] = []
    texts = []
    for run in runs:
        details = (run.result or {}).get("details") or {}
        by_client = details.get("pruned_by_client")
        if by_client is None:
            continue
        own, sizes = run.per_client("L"), details.get("parameters", {})
        texts.append(
            f"{run.name}: {percent(details.get('pruned')) or 0:.1f} % of the weights are pruned, on average over the "
            f"clients that took part; {sizes.get('left', 0):,.0f} of {sizes.get('whole', 0):,.0f} parameters are left."
        )
        blocks.append(
            Scatter(
                title=f"Pruned share and accuracy of clients ({run.name})",
                x_label="weights pruned (%)",
                y_label="accuracy L (%)",
                points=tuple(
                    Point(name=f"client {client}", x=percent(share), y=own[int(client)])
                    for client, share in by_client.items()
                    if int(client) < len(own)
                ),
                note="At the end; clients that never took part have pruned nothing and are not shown.",
            )
        )
        curves = pruning_curves(run.history)
        if curves:
            blocks.append(_pruned(run, curves))
    return Section(heading="Pruning", text=tuple(texts), blocks=tuple(blocks)) if blocks else None


def _pruned(run: Run, curves: dict[int, list[tuple[float, float]]], most: int = 5) -> Chart:
    chosen = sorted(sorted(curves, key=lambda client: -len(curves[client]))[:most])
    return Lines(
        title=f"Accuracy while clients prune ({run.name})",
        x_label="weights pruned (%)",
        y_label="accuracy L (%)",
        series=tuple(
            Series(
                name=f"client {client}",
                x=values((pruned for pruned, _ in curves[client]), 100),
                y=values((accuracy for _, accuracy in curves[client]), 100),
            )
            for client in chosen
        ),
        note=f"The {len(chosen)} clients that took part most often, at each evaluation.",
    )


def _events(runs: Sequence[Run]) -> Section:
    rows = tuple(
        (run.name, e.get("kind"), e.get("count"), e.get("first_round"), e.get("last_round"), e.get("example", ""))
        for run in runs
        for e in (run.result or {}).get("events", [])
    )
    if not rows:
        unfinished = [run.name for run in runs if run.result is None]
        told = f"Events are known when a run is finished: {', '.join(unfinished)}." if unfinished else ""
        return Section(heading="Events", text=(told or "Nothing went wrong: every reply came and was valid.",))
    columns = ("run", "kind", "how many", "first in round", "last in round", "for instance")
    return Section(
        heading="Events",
        text=("What went wrong without stopping the run: the round went on with the other replies.",),
        blocks=(Table(title="Events", columns=columns, rows=rows),),
    )


def _configuration(runs: Sequence[Run]) -> Section:
    blocks: list[Block] = []
    names = list(dict.fromkeys(name for run in runs for name in (run.result or {}).get("versions", {})))
    if names:
        blocks.append(
            Table(
                title="Versions",
                columns=("run", *names, "trainer", "engine"),
                rows=tuple(
                    (
                        run.name,
                        *((result.get("versions", {}).get(n, "")) for n in names),
                        result["trainer"],
                        result["engine"],
                    )
                    for run in runs
                    if (result := run.result)
                ),
            )
        )
    for run in runs:
        again = f"coterie run {shlex.quote(str(run.path / 'config.toml'))} --out runs/again"
        blocks.append(Code(title=f"The command that reruns it ({run.name})", text=again))
        blocks.append(Code(title=f"config.toml ({run.name})", text=run.config_text.rstrip("\n")))
    return Section(
        heading="Configuration and versions",
        text=(
            "The configuration is complete: saved as a file, it reruns the run on another machine that has the data. "
            "The same seed gives the same numbers, but for times.",
        ),
        blocks=tuple(blocks),
    )
