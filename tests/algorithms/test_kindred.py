"""Kindred: what it is without its parts, how rows of the last layer count, and what it asks."""

from typing import Any

import numpy as np

import coterie
from coterie.algorithms.kindred import Kindred, last_layer
from coterie.messages import EVALUATION, ClassCounts, Moments, Request, RunningMean, Train, TrainReply
from coterie.testing import RecordingEngine, small_federation, small_run, small_settings

ROTATED = {"dataset": "digits-rotated", "partition": None, "clients": 12, "fraction": 0.5, "rounds": 6, "seed": 0}


def numbers(result: coterie.Result) -> list[dict[str, Any]]:
    return [{key: row[key] for key in ("round", "L", "C", "W", "loss", "discrepancy")} for row in result.history]


def asked_in_a_round() -> list[Request]:
    """Return the requests of the work before the first round, and of that round."""
    with small_federation("kindred", **ROTATED) as (run, _):
        recorder = run.fed.wrap_engine(RecordingEngine)
        run.algorithm.begin(run.fed)
        run.fed.start_round(1)
        run.algorithm.round(run.fed, run.fed.cohort(1))
        return [*recorder.requests.values()]


def test_without_offsets_and_rows_by_label_one_group_is_fedavg_bit_for_bit() -> None:
    plain = {"labels": "none", "rows": "samples"}
    kindred, fedavg = (
        small_run("kindred", algorithm_options=plain, rounds=6, dataset="digits", partition="iid"),
        small_run("fedavg", rounds=6, dataset="digits", partition="iid"),
    )
    assert set(kindred.groups) == {0}
    assert numbers(kindred) == numbers(fedavg)
    assert kindred.per_client == fedavg.per_client


def test_rows_of_the_last_layer_are_means_by_samples_of_their_label() -> None:
    """Against a loop over clients and rows."""
    rng = np.random.default_rng(0)
    start = {"w": rng.normal(size=(3, 4)).astype(np.float32), "b": rng.normal(size=3).astype(np.float32)}
    counts = np.array([[5.0, 0, 0], [1, 2, 0], [0, 6, 0]])
    models, mean = [], RunningMean()
    for rows in counts:
        models.append({n: value + rng.normal(size=value.shape).astype(np.float32) for n, value in start.items()})
        mean.add(models[-1], float(rows.sum()), {"w": rows, "b": rows})
    got = mean.mean(otherwise=start)
    for name in start:
        for row in range(3):
            total = sum(counts[:, row])
            wanted = sum(n * m[name][row] for n, m in zip(counts[:, row], models, strict=True)) / (total or 1)
            np.testing.assert_allclose(got[name][row], wanted if total else start[name][row], rtol=1e-6)
        assert got[name].dtype == np.float32


def test_a_round_counts_each_label_by_its_samples_and_the_rest_by_all() -> None:
    settings = {"dataset": "digits", "partition": "label-skew:rho=0.3", "clients": 6, "fraction": 1.0}
    with small_federation("kindred", **settings) as (run, data):
        fed, method = run.fed, run.algorithm
        recorder = fed.wrap_engine(RecordingEngine)
        method.begin(fed)
        fed.start_round(1)
        before, cohort = method.models[0], fed.cohort(1)
        method.round(fed, cohort)
        trained = {
            client: reply.answer(TrainReply) for (_, client, kind), reply in recorder.replies.items() if kind == "train"
        }
        counts = np.stack([np.bincount(data.train.y[part], minlength=10) for part in data.train_parts])
        assert all(np.array_equal(method.counts[client], counts[client]) for client in cohort)
        absent = counts[list(cohort)].sum(axis=0) == 0
        head = last_layer(before, 10)
        for name, old in before.items():
            weights = {
                c: counts[c].astype(float) if name in head else np.full(len(old), t.samples) for c, t in trained.items()
            }
            total = sum(weights.values())
            wanted = sum((weights[c] * t.params[name].T).T for c, t in trained.items()) / np.maximum(total, 1).reshape(
                -1, *[1] * (old.ndim - 1)
            )
            kept = (absent if name in head else np.zeros(len(old), bool)).reshape(-1, *[1] * (old.ndim - 1))
            np.testing.assert_allclose(method.models[0][name], np.where(kept, old, wanted), rtol=2e-6, atol=1e-7)


def test_what_clients_hold_back_is_spread_over_the_labels_that_they_tell_nothing_of() -> None:
    method = Kindred()
    method.counts = {0: np.array([6, 0, 0, 14]), 1: np.array([10, 10, 0, 0])}
    assert method.samples_by_label(0, 24, 4).tolist() == [6, 2, 2, 14]
    assert method.samples_by_label(1, 20, 4).tolist() == [10, 10, 0, 0]
    assert method.samples_by_label(2, 20, 4).tolist() == [5, 5, 5, 5]  # it told nothing


def test_it_parts_clients_to_whom_labels_look_different_and_says_why() -> None:
    result = coterie.run(algorithm="kindred", **ROTATED)
    assert result.ari == 1.0
    assert "looks different" in result.grouping["reason"]
    alike = coterie.run(algorithm="kindred", **{**ROTATED, "dataset": "digits", "partition": "label-skew:rho=0.3"})
    assert set(alike.groups) == {0}
    assert "looks alike" in alike.grouping["reason"]


def test_it_costs_little_more_than_fedavg_and_as_many_steps() -> None:
    kindred, fedavg = (coterie.run(algorithm=name, **ROTATED) for name in ("kindred", "fedavg"))
    bytes_of = [run.traffic["up_bytes"] + run.traffic["down_bytes"] for run in (kindred, fedavg)]
    assert bytes_of[0] <= 1.1 * bytes_of[1]
    plans = [verb.plan for request in asked_in_a_round() for verb in request.verbs if isinstance(verb, Train)]
    assert {(plan.epochs, plan.steps, plan.holdout) for plan in plans} == {
        (small_settings("kindred")["epochs"], None, 0.0)
    }


def test_descriptions_travel_with_the_training_and_are_not_asked_for_to_measure() -> None:
    training = [request for request in asked_in_a_round() if any(isinstance(verb, Train) for verb in request.verbs)]
    assert training
    assert all(any(isinstance(verb, Moments) for verb in request.verbs) for request in training)
    assert all(request.kind != EVALUATION for request in training)


def test_counts_leave_only_for_rows_by_label() -> None:
    for rows in ("labels", "samples"):
        with small_federation("kindred", **ROTATED, algorithm_options={"rows": rows}) as (run, _):
            recorder = run.fed.wrap_engine(RecordingEngine)
            run.algorithm.begin(run.fed)
            run.fed.start_round(1)
            run.algorithm.round(run.fed, run.fed.cohort(1))
        asked = {type(verb) for request in recorder.requests.values() for verb in request.verbs}
        assert asked == {Moments, Train} | ({ClassCounts} if rows == "labels" else set())


def test_the_last_layer_is_found_where_it_has_a_row_per_label() -> None:
    head = {"a.weight": np.zeros((10, 4)), "b.weight": np.zeros((10, 4)), "b.bias": np.zeros(10)}
    assert last_layer(head, 10) == ("b.weight", "b.bias")
    assert last_layer({**head, "c.scale": np.zeros(1)}, 10) == ()
