"""What only some runs have: newcomers, a curriculum, pruning, privacy."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from coterie.errors import counted
from coterie.report.figures import pruning_chart
from coterie.report.shown_clients import ROWS, drawn_of, shown
from coterie.results import charts
from coterie.results.charts import Block, Chart, Section, Series, Table, Value, Values, values
from coterie.results.client_columns import FEW
from coterie.results.metrics import capital
from coterie.results.privacy import privacy_text
from coterie.results.protocols import EACH_CLIENT
from coterie.results.runs import StoredRun, percent


def privacy_section(runs: Sequence[StoredRun]) -> Section | None:
    """Say how private what clients told is, and what that does not cover."""
    texts = tuple(f"{run.name}: {text}" for run in runs for text in privacy_text(run.result or {}))
    return Section(heading="Privacy", text=texts) if texts else None


def newcomers_section(runs: Sequence[StoredRun]) -> Section | None:
    """Show who came late, where they were placed, and how they fare."""
    blocks: list[Block] = []
    texts = []
    for run in runs:
        late = run.newcomers
        if late:
            accuracies = {
                protocol: values(late["per_client"].get(protocol, []), run.scale.factor) for protocol in EACH_CLIENT
            }
            texts.append(_newcomers_text(run, late))
            blocks += [_newcomers_chart(run, late, accuracies), _newcomers_table(run, late, accuracies)]
    return Section(heading="Newcomers", text=tuple(texts), blocks=tuple(blocks)) if blocks else None


def _newcomers_text(run: StoredRun, late: Mapping[str, Any]) -> str:
    when = "after training" if late["round"] > run.rounds else f"in round {late['round']}"
    founded = f" {len(late['founded'])} of them founded groups of their own." if late["founded"] else ""
    means = ", ".join(
        f"{protocol} {run.scale.text(number, 1)}"
        for protocol in EACH_CLIENT
        if (number := run.scaled(late["accuracy"].get(protocol))) is not None
    )
    return (
        f"{run.name}: {counted(len(late['clients']), 'client')} came {when}.{founded} Their {run.metric} at the end: "
        f"{means or 'not measured'}. Each fine-tuned what it received: L is that model, C what it would get now."
    )


def _newcomers_chart(run: StoredRun, late: Mapping[str, Any], accuracies: Mapping[str, Values]) -> Chart:
    came = {*late["clients"]}
    rows: dict[str, list[tuple[int, Value]]] = {
        f"newcomers, {p}": [*zip(late["clients"], numbers, strict=False)] for p, numbers in accuracies.items()
    }
    rows["there from the beginning, L"] = [pair for pair in enumerate(run.per_client("L")) if pair[0] not in came]
    measured = {
        name: [pair for pair in pairs if pair[1] is not None or len(pairs) <= FEW] for name, pairs in rows.items()
    }
    return charts.Distribution(
        title=f"Newcomers beside the others ({run.name})",
        x_label=f"{run.metric}{run.scale.unit}",
        samples=tuple(
            charts.Sample(
                name=name,
                values=tuple(number for _, number in shown(pairs)),
                names=tuple(f"client {client}" for client, _ in shown(pairs)),
            )
            for name, pairs in measured.items()
        ),
        worst=0,
        note=drawn_of(max(map(len, measured.values()))),
    )


def _newcomers_table(run: StoredRun, late: Mapping[str, Any], accuracies: Mapping[str, Values]) -> Chart:
    founded, all_of = {*late["founded"]}, len(late["clients"])
    return Table(
        title=f"Newcomers ({run.name})",
        columns=("client", "group", "founded it", *(f"{protocol}{run.scale.unit}" for protocol in EACH_CLIENT)),
        rows=tuple(
            (
                client,
                "none" if group is None else str(group),
                "yes" if client in founded else "no",
                *(accuracies[p][place] if place < len(accuracies[p]) else None for p in EACH_CLIENT),
            )
            for place, (client, group) in shown([*enumerate(zip(late["clients"], late["groups"], strict=True))], ROWS)
        ),
        note=drawn_of(all_of, ROWS),
    )


def curriculum_section(runs: Sequence[StoredRun]) -> Section | None:
    """Show how the pools grow, where a run has a curriculum."""
    texts, of_samples, of_clients = [], [], []
    for slot, run in enumerate(runs):
        data, clients = run.setting("curriculum", "data"), run.setting("curriculum", "clients")
        if data is not None:
            texts.append(f"{run.name}: clients train on some of their samples first (`{data}`).")
        if clients is not None:
            texts.append(f"{run.name}: some clients take part first (`{clients}`).")
        if "sample_pool" in run.arrays:
            pool = run.arrays["sample_pool"]
            shares = values(np.linspace(0, 100, len(pool)))
            of_samples.append(Series(name=run.name, x=shares, y=values(pool, 100), slot=slot))
        if "client_pool" in run.arrays:
            pool = run.arrays["client_pool"]
            of_clients.append(Series(name=run.name, x=values(range(1, len(pool) + 1)), y=values(pool), slot=slot))
    blocks: list[Block] = []
    if of_samples:
        title, x_label = "The pool of samples within a local training", "share of the local steps (%)"
        y_label, series = "samples in the pool (%)", tuple(of_samples)
        blocks.append(charts.Lines(title=title, x_label=x_label, y_label=y_label, series=series, limits=(0, 104)))
    if of_clients:
        title, y_label, series = "The pool of clients over rounds", "clients in the pool", tuple(of_clients)
        blocks.append(charts.Lines(title=title, x_label="round", y_label=y_label, series=series, digits=0))
    return Section(heading="Curriculum", text=tuple(texts), blocks=tuple(blocks)) if texts else None


def pruning_section(runs: Sequence[StoredRun]) -> Section | None:
    """Show pruned shares against accuracy, where clients prune."""
    blocks: list[Block] = []
    texts = []
    for run in runs:
        details = (run.result or {}).get("details") or {}
        by_client = details.get("pruned_by_client")
        if by_client is None:
            continue
        sizes = details.get("parameters", {})
        texts.append(
            f"{run.name}: {percent(details.get('pruned')) or 0:.1f} % of the weights are pruned, on average over the "
            f"clients that took part; {sizes.get('left', 0):,.0f} of {sizes.get('whole', 0):,.0f} parameters are left."
        )
        blocks.append(_shares(run, by_client))
        chart = pruning_chart(run.history, f"{capital(run.metric)} while clients prune ({run.name})", metric=run.metric)
        blocks += [chart] if chart.series else []
    return Section(heading="Pruning", text=tuple(texts), blocks=tuple(blocks)) if blocks else None


def _shares(run: StoredRun, by_client: Mapping[str, float]) -> Chart:
    accuracies = run.per_client("L")
    note = "At the end; clients that never took part have pruned nothing and are not shown."
    return charts.Scatter(
        title=f"Pruned share and {run.metric} of clients ({run.name})",
        x_label="weights pruned (%)",
        y_label=f"{run.metric} L (%)",
        points=tuple(
            charts.Point(name=f"client {client}", x=percent(share), y=accuracies[int(client)])
            for client, share in shown([*by_client.items()])
            if int(client) < len(accuracies)
        ),
        note=f"{note} {drawn_of(len(by_client))}".strip(),
    )
