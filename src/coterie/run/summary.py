"""From a run that is over to its result."""

import platform
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import coterie
from coterie.clustering import adjusted_rand_index
from coterie.data import FederatedData
from coterie.federation import Algorithm, Federation
from coterie.federation.evaluation import Evaluator, accuracies
from coterie.federation.loop import founders
from coterie.models import parameters
from coterie.results.comparison_table import reached
from coterie.results.costs import paper_megabits
from coterie.results.events import DIVERGED
from coterie.results.formats import toml_value
from coterie.results.metrics import MetricScale, scale
from coterie.results.protocols import BEST, BY_LABEL, EACH_CLIENT, FOLLOWED
from coterie.results.statistics import group_means, mean
from coterie.run.building import Session
from coterie.run.result import Result


def summarise(
    run: Session,
    data: FederatedData,
    history: list[dict[str, Any]],
    plus: float | None,
    seconds: float,
    folder: Path | None,
) -> Result:
    """Gather the fields of ``result.json``; `history` holds the rows of ``metrics.jsonl``."""
    import torch

    config, fed, algorithm, evaluator = run.config, run.fed, run.algorithm, run.evaluator
    shown, last, labels = scale(config.evaluation.metric), history[-1], _by_client(algorithm.groups(), data.clients)
    late = [client for client, round in fed.joined.items() if round > fed.settings.rounds]
    early = [client for client in range(data.clients) if client not in late]
    accuracy = {protocol: last[protocol] for protocol in FOLLOWED} | {"plus": plus}
    for best, key in BEST.items():
        accuracy[best] = shown.best_of(row[key] for row in history)
    accuracy["L_best"] = mean([evaluator.best[client] for client in early if client in evaluator.best])
    accuracy |= {protocol: last.get(protocol) for protocol in BY_LABEL}  # earlier versions had none
    of_clients = _of_clients(evaluator, data.clients, early)
    by_group = None if data.final_groups is None else _by_true_group(of_clients, evaluator, data, history, shown)
    truth = None if data.final_groups is None else _by_client(dict(enumerate(data.final_groups.tolist())), data.clients)
    return Result(
        algorithm=config.algorithm.name,
        data=config.data.name,
        partition=choice_text(config.partition.name, config.partition.described),
        network=str(config.model.name),
        seed=config.run.seed,
        rounds=fed.settings.rounds,
        accuracy=accuracy,
        unadapted=last.get("unadapted"),
        accuracy_by_true_group=by_group,
        accuracy_group_mean=None if by_group is None else {key: mean(values) for key, values in by_group.items()},
        per_client={protocol: of_clients[protocol] for protocol in EACH_CLIENT} | _by_label(evaluator, data.clients),
        groups=labels,
        true_groups=truth,
        ari=_agreement(labels, truth),
        details=algorithm.details(),
        memberships=_by_client(algorithm.memberships(), data.clients),
        grouping=_grouping(algorithm),
        newcomers=_newcomers(fed, algorithm, evaluator, data.clients),
        traffic=_traffic(fed, algorithm, data.clients),
        targets=[reached(target, history, shown.metric) for target in config.evaluation.targets],
        seconds=seconds,
        events=_events(fed),
        trainer=fed.trainer.name,
        validation=config.evaluation.validation,
        metric=config.evaluation.metric,
        engine=fed.engine.name,
        versions={
            "coterie": coterie.__version__,
            "python": platform.python_version(),
            "torch": torch.__version__,
            "numpy": np.__version__,
        },
        history=history,
        folder=folder,
    )


def _events(fed: Federation) -> list[dict[str, Any]]:
    """Return what went wrong; of divergence also at how many clients their latest training came to it."""
    return [
        {**event, "at_end": len(fed.diverged)} if event["kind"] == DIVERGED else event for event in fed.events.save()
    ]


def newcomers_text(fed: Federation, algorithm: Algorithm) -> str:
    """Say how the newcomers fared."""
    founded = len(founders(fed, algorithm))
    text = f"{len(fed.joined)} newcomers" if len(fed.joined) > 1 else "1 newcomer"
    return text + (f", {founded} of them founded {'its' if founded == 1 else 'their'} own group" if founded else "")


def _of_clients(evaluator: Evaluator, clients: int, included: Sequence[int]) -> dict[str, list[float | None]]:
    """Return accuracies by client, of its own model and the one it receives; None for others than these."""
    measured = {"L": evaluator.own, "C": evaluator.received}
    if evaluator.own_unadapted:
        measured |= {"L_unadapted": evaluator.own_unadapted, "C_unadapted": evaluator.received_unadapted}
    return {
        protocol: accuracies({c: score for c, score in scores.items() if c in set(included)}, clients)
        for protocol, scores in measured.items()
    }


def _by_label(evaluator: Evaluator, clients: int) -> dict[str, list[float | None]]:
    """Return by client what the model it receives is worth on the labels that it has, and on those that it lacks."""
    measured = zip(BY_LABEL, (evaluator.by_own_frequencies, evaluator.on_lacking), strict=True)
    return {protocol: [scores.get(client) for client in range(clients)] for protocol, scores in measured}


def _by_true_group(
    of_clients: Mapping[str, Sequence[float | None]],
    evaluator: Evaluator,
    data: FederatedData,
    history: Sequence[Mapping[str, Any]],
    shown: MetricScale,
) -> dict[str, list[float | None]]:
    """Return the means over the clients of each true group, at the end and in its best round."""
    at_end = {**of_clients, "plus": accuracies(evaluator.tuned, data.clients)}
    truth = true_groups(data, history[-1]["round"])  # not known of clients that were admitted after training
    means = {key: group_means(values[: len(truth)], truth) for key, values in at_end.items()}
    for key in EACH_CLIENT:
        rounds = zip(*(row["by_true_group"][key] for row in history), strict=True)
        means[f"{key}_max"] = [shown.best_of(values) for values in rounds]
    return means


def true_groups(data: FederatedData, round: int) -> list[int]:
    """Return the true group of each client in a round; they change where the data drift."""
    now = [phase.true_groups for phase in data.drift if phase.start <= round]
    groups = now[-1] if now else data.true_groups
    return [] if groups is None else [int(group) for group in groups]


def _newcomers(fed: Federation, algorithm: Algorithm, evaluator: Evaluator, clients: int) -> dict[str, Any] | None:
    """Report apart who came late: where they are, and how well their models serve them."""
    if not fed.joined:
        return None
    joined, groups = sorted(fed.joined), algorithm.groups() or {}
    scores = _of_clients(evaluator, clients, joined)
    per_client = {protocol: [values[client] for client in joined] for protocol, values in scores.items()}
    measured = {protocol: [value for value in values if value is not None] for protocol, values in per_client.items()}
    return {
        "clients": joined,
        "round": min(fed.joined.values()),
        "groups": [groups.get(client) for client in joined],
        "founded": founders(fed, algorithm),
        "accuracy": {protocol: sum(v) / len(v) if v else None for protocol, v in measured.items()},
        "per_client": per_client,
    }


def _agreement(labels: Sequence[int | None] | None, truth: Sequence[int | None] | None) -> float | None:
    """Compare the groups found with the true ones, over the clients that are in a group of both kinds."""
    if labels is None or truth is None:
        return None
    both = [(label, true) for label, true in zip(labels, truth, strict=True) if None not in (label, true)]
    return adjusted_rand_index(*zip(*both, strict=True)) if both else None


def _by_client(values: Mapping[int, Any] | None, clients: int) -> list[Any] | None:
    """Return the values as a list by client, None for one that has none."""
    return None if values is None else [values.get(client) for client in range(clients)]


def _grouping(algorithm: Algorithm) -> dict[str, Any] | None:
    """Say how the groups were found, where a rule found them."""
    if algorithm.grouping is not None:
        return algorithm.grouping.summary()
    empty = dict.fromkeys(("rule", "threshold", "unit", "reason", "confidence"))
    return None if algorithm.reason is None else {**empty, "reason": algorithm.reason}


def _traffic(fed: Federation, algorithm: Algorithm, clients: int) -> dict[str, Any]:
    """Return the exact bytes, and what the papers' formula makes of the run."""
    ledger, sent = fed.ledger, algorithm.transfers
    return {
        "up_bytes": ledger.total("up"),
        "down_bytes": ledger.total("down"),
        "by_kind": ledger.by_kind,
        "by_client": {
            way: [ledger.by_client.get(client, {way: 0})[way] for client in range(clients)] for way in ("up", "down")
        },
        "paper_megabits": None
        if sent is None
        else paper_megabits(fed.settings.rounds, fed.fraction, sent, parameters(fed.spec)),
    }


def choice_text(name: str | None, options: dict[str, Any]) -> str | None:
    """Write a choice with its options as users write it."""
    options_set = {key: value for key, value in options.items() if value is not None}
    if name is None or not options_set:
        return name
    return f"{name}:{','.join(f'{key}={toml_value(value)}' for key, value in options_set.items())}"
