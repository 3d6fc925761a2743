"""From a run that is over to its result."""

import platform
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

import coterie
from coterie.clustering import adjusted_rand_index
from coterie.data import FederatedData
from coterie.errors import counted
from coterie.federation import Algorithm, Federation
from coterie.federation.evaluated_clients import known_values, value_of
from coterie.federation.evaluation import Evaluator, accuracies
from coterie.federation.loop import founders
from coterie.federation.scores import Score
from coterie.models import parameters
from coterie.results.comparison_table import reached
from coterie.results.costs import paper_megabits
from coterie.results.events import DIVERGED, NO_SAMPLES
from coterie.results.formats import toml_value
from coterie.results.metrics import MetricScale, scale
from coterie.results.protocols import BEST, BY_LABEL, EACH_CLIENT, FOLLOWED
from coterie.results.statistics import by_group, mean
from coterie.run.building import Session
from coterie.run.config import Config
from coterie.run.plugins import contents
from coterie.run.privacy import privacy_of
from coterie.run.result import Result

Groups: TypeAlias = npt.NDArray[np.int64]


def summarise(
    run: Session,
    data: FederatedData,
    history: list[dict[str, Any]],
    plus: float | None,
    seconds: float,
    folder: Path | None,
) -> Result:
    """Gather the fields of ``result.json``; `history` holds the rows of ``metrics.jsonl``."""
    config, fed, algorithm, evaluator = run.config, run.fed, run.algorithm, run.evaluator
    shown, last, labels = scale(config.evaluation.metric), history[-1], _by_client(algorithm.groups(), data.clients)
    late = {client for client, round in fed.joined.items() if round > fed.settings.rounds}
    early = [client for client in range(data.clients) if client not in late]
    accuracy = {protocol: last[protocol] for protocol in FOLLOWED} | {"plus": plus}
    for best, key in BEST.items():
        accuracy[best] = shown.best_of(row[key] for row in history)
    accuracy["L_best"] = mean([evaluator.best[client] for client in early if client in evaluator.best])
    accuracy |= {protocol: last.get(protocol) for protocol in BY_LABEL}  # earlier versions had none
    of_clients = _of_clients(evaluator, data.clients, early)
    if fed.settings.hides_who_came:
        of_clients["L"] = [None] * data.clients  # only who took part has a model of its own
    of_groups = None if data.final_groups is None else _by_true_group(evaluator, data, history, early, shown)
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
        accuracy_by_true_group=of_groups,
        accuracy_group_mean=None if of_groups is None else {key: mean(values) for key, values in of_groups.items()},
        measured=_measured(evaluator, history, early, shown),
        measured_by_true_group=_groups_measured(evaluator, data, history, early),
        per_client={protocol: of_clients[protocol] for protocol in EACH_CLIENT} | _by_label(evaluator, data.clients),
        groups=labels,
        true_groups=truth,
        ari=_agreement(labels, truth),
        details=algorithm.details(),
        memberships=_by_client(algorithm.memberships(), data.clients),
        grouping=_grouping(algorithm),
        privacy=privacy_of(config, fed, algorithm, simulated=not fed.engine.clients_remain),
        newcomers=_newcomers(fed, algorithm, evaluator, data.clients),
        traffic=_traffic(fed, algorithm, data.clients),
        targets=[reached(target, history, shown.metric) for target in config.evaluation.targets],
        seconds=seconds,
        events=_events(fed, evaluator),
        trainer=fed.trainer.name,
        validation=config.evaluation.validation,
        client_names=[*data.client_names] or None,
        class_names=[*data.class_names] or None,
        metric=config.evaluation.metric,
        engine=fed.engine.name,
        versions=_versions(config),
        history=history,
        folder=folder,
    )


def _versions(config: Config) -> dict[str, str]:
    """Return of what the numbers may depend."""
    import torch

    return {
        "coterie": coterie.__version__,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "numpy": np.__version__,
        **contents(config.run.plugins),
    }


def _events(fed: Federation, evaluator: Evaluator) -> list[dict[str, Any]]:
    """Return what went wrong; of divergence also at how many clients their latest training came to it.

    Where not all are evaluated, it is known of those who are: `of` so many.
    """
    at_end = {"at_end": len(fed.diverged)}
    if not evaluator.evaluated.everybody:
        at_end = {"at_end": len(fed.diverged & evaluator.losses.keys()), "of": len(evaluator.losses)}
    events = [_nameless(event) if fed.settings.hides_who_came else event for event in fed.events.entries()]
    return [{**event, **at_end} if event["kind"] == DIVERGED else event for event in events]


def _nameless(event: dict[str, Any]) -> dict[str, Any]:
    """Return an event without whose it was; who has no samples is never asked, and so not in it."""
    if event["kind"] == NO_SAMPLES:
        return event
    whose, _, rest = event["example"].partition(", ")
    return {**event, "clients": {}, "example": rest if whose.startswith("client ") else event["example"]}


def newcomers_text(fed: Federation, algorithm: Algorithm) -> str:
    """Say how the newcomers fared."""
    founded = len(founders(fed, algorithm))
    text = counted(len(fed.joined), "newcomer")
    return text + (f", {founded} of them founded {'its' if founded == 1 else 'their'} own group" if founded else "")


def _of_clients(evaluator: Evaluator, clients: int, included: Sequence[int]) -> dict[str, list[float | None]]:
    """Return accuracies by client, of its own model and the one it receives; None for others than these."""
    there = {*included}
    return {
        protocol: accuracies({c: score for c, score in scores.items() if c in there}, clients)
        for protocol, scores in _tracked(evaluator).items()
    }


def _tracked(evaluator: Evaluator) -> dict[str, dict[int, Score]]:
    """Return the scores that were followed through the run, by protocol."""
    scores = {"L": evaluator.own, "C": evaluator.received}
    if evaluator.own_unadapted:
        scores |= {"L_unadapted": evaluator.own_unadapted, "C_unadapted": evaluator.received_unadapted}
    return scores


def _by_label(evaluator: Evaluator, clients: int) -> dict[str, list[float | None]]:
    """Return by client what the model it receives is worth on the labels that it has, and on those that it lacks."""
    measured = zip(BY_LABEL, (evaluator.by_own_frequencies, evaluator.on_lacking), strict=True)
    return {protocol: [scores.get(client) for client in range(clients)] for protocol, scores in measured}


def _measured(
    evaluator: Evaluator, history: Sequence[Mapping[str, Any]], early: Sequence[int], shown: MetricScale
) -> dict[str, Any]:
    """Say by protocol on how many clients the numbers of a result stand, and their standard errors."""
    sample, there = evaluator.evaluated, {*early}
    scores = {"L": evaluator.own, "C": evaluator.received}
    values = {key: known_values({c: score for c, score in of.items() if c in there}) for key, of in scores.items()}
    values |= {
        "L_best": [value for client, value in evaluator.best.items() if client in there],
        **dict(zip(BY_LABEL, map(_listed, (evaluator.by_own_frequencies, evaluator.on_lacking)), strict=True)),
    }
    measured = {key: asdict(sample.measured(numbers, len(early))) for key, numbers in values.items() if numbers}
    if tuned := known_values(evaluator.tuned):
        measured["plus"] = asdict(sample.measured(tuned, len(early), sample.options.plus))
    for best, key in BEST.items():
        rows = [row for row in history if row[key] is not None and key in (row.get("measured") or {})]
        if rows:
            measured[best] = max(rows, key=lambda row: shown.sign * float(row[key]))["measured"][key]
    return measured | {key: m for key, m in (history[-1].get("measured") or {}).items() if key == "G"}


def _listed(values: Mapping[int, float]) -> list[float]:
    return [value for _, value in sorted(values.items())]


def _by_true_group(
    evaluator: Evaluator,
    data: FederatedData,
    history: Sequence[Mapping[str, Any]],
    early: Sequence[int],
    shown: MetricScale,
) -> dict[str, list[float | None]]:
    """Return the means over the clients of each true group, at the end and in its best round."""
    truth = true_groups(data, history[-1]["round"])  # not known of clients that were admitted after training
    means = {key: by_true_group(scores, truth) for key, scores in _at_end(evaluator, early).items()}
    for key in EACH_CLIENT:
        rounds = zip(*(row["by_true_group"][key] for row in history), strict=True)
        means[f"{key}_max"] = [shown.best_of(values) for values in rounds]
    return means


def _groups_measured(
    evaluator: Evaluator, data: FederatedData, history: Sequence[Mapping[str, Any]], early: Sequence[int]
) -> dict[str, list[dict[str, Any]]] | None:
    """Say the same of each true group, where numbers are estimates."""
    sample, truth = evaluator.evaluated, true_groups(data, history[-1]["round"])
    if not sample.estimates or not len(truth):
        return None
    sizes, parts = np.bincount(truth), {"plus": sample.options.plus}
    return {
        key: [
            asdict(sample.measured(_numbers(values), int(size), parts.get(key, 1.0)))
            for values, size in zip(_of_true_groups(scores, truth, len(sizes)), sizes, strict=True)
        ]
        for key, scores in _at_end(evaluator, early).items()
    }


def _numbers(values: Sequence[float | None]) -> list[float]:
    return [value for value in values if value is not None]


def _at_end(evaluator: Evaluator, included: Sequence[int]) -> dict[str, dict[int, Score]]:
    """Return the scores of clients at the end, by protocol; those of others than these only under +."""
    there = {*included}
    scores = {key: {c: s for c, s in of.items() if c in there} for key, of in _tracked(evaluator).items()}
    return {**scores, "plus": evaluator.tuned}


def by_true_group(scores: Mapping[int, Score], truth: Groups) -> list[float | None]:
    """Return the mean over the clients of each true group that have a score."""
    return [mean(values) for values in _of_true_groups(scores, truth, int(truth.max()) + 1)]


def _of_true_groups(scores: Mapping[int, Score], truth: Groups, groups: int) -> list[list[float | None]]:
    placed = [(value_of(score), int(truth[client])) for client, score in scores.items() if client < len(truth)]
    return by_group([value for value, _ in placed], [group for _, group in placed], groups)


def true_groups(data: FederatedData, round: int) -> Groups:
    """Return the true group of each client in a round, none where they are not known; they change with drift."""
    now = [phase.true_groups for phase in data.drift if phase.start <= round]
    groups = now[-1] if now else data.true_groups
    return np.zeros(0, np.int64) if groups is None else groups


def _newcomers(fed: Federation, algorithm: Algorithm, evaluator: Evaluator, clients: int) -> dict[str, Any] | None:
    """Report apart who came late: where they are, and how well their models serve them."""
    if not fed.joined:
        return None
    joined, groups = sorted(fed.joined), algorithm.groups() or {}
    scores = _of_clients(evaluator, clients, joined)
    per_client = {protocol: [values[client] for client in joined] for protocol, values in scores.items()}
    measured = {protocol: _numbers(values) for protocol, values in per_client.items()}
    if fed.settings.hides_who_came:
        per_client["L"] = [None] * len(joined)  # which differs for who took part after joining
    asked = {protocol: len(values) for protocol, values in measured.items()}
    return {
        "clients": joined,
        "round": min(fed.joined.values()),
        "groups": [groups.get(client) for client in joined],
        "founded": founders(fed, algorithm),
        "accuracy": {protocol: sum(v) / len(v) if v else None for protocol, v in measured.items()},
        "per_client": per_client,
        **({} if evaluator.evaluated.everybody else {"measured": asked}),
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
    """Return the exact bytes, and what the papers' formula makes of the run; by client, unless who came is secret."""
    ledger, sent = fed.ledger, algorithm.transfers
    ways = () if fed.settings.hides_who_came else (("up", ledger.up_by_client), ("down", ledger.down_by_client))
    by_client = {way: [sent_by.get(client, 0) for client in range(clients)] for way, sent_by in ways}
    return {
        "up_bytes": ledger.total("up"),
        "down_bytes": ledger.total("down"),
        "by_kind": ledger.by_kind,
        **({"by_client": by_client} if by_client else {}),
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
