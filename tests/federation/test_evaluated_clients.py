"""Evaluation by sample: who is asked, that nobody else is, and that standard errors are those of the definitions."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

import coterie
from coterie.client import MemoryStore
from coterie.errors import CoterieError
from coterie.federation.evaluated_clients import EvaluatedClients
from coterie.federation.evaluation_options import EvaluationOptions
from coterie.federation.loop import rounds
from coterie.messages import EvaluateReply
from coterie.run.building import Session, completed, load_data, session
from coterie.run.settings import settings_to_config
from coterie.testing import SMALL, RecordingEngine
from coterie.training.torch_trainer import TorchTrainer

MANY = {**SMALL, "clients": 12, "fraction": 0.25, "rounds": 2, "epochs": 1}


@contextmanager
def world(**settings: Any) -> Iterator[Session]:
    config = settings_to_config(None, MANY | settings)
    data = load_data(config)
    with session(completed(config, data), data, MemoryStore(), TorchTrainer()) as run:
        yield run


def played(run: Session) -> dict[str, Any]:
    """Play all rounds; return the last evaluation, and which clients were ever asked to measure."""
    engine = run.fed.wrap_engine(RecordingEngine)
    *_, (_, last) = rounds(run.fed, run.algorithm, run.evaluator, every=1)
    plus = run.evaluator.fine_tune()
    asked = {c for requests in engine.exchanges for c, r in requests.items() if r.measures}
    return {"last": last, "plus": plus, "asked": asked}


def test_all_are_evaluated_up_to_2000_clients_and_1000_of_more() -> None:
    usual = EvaluationOptions()
    assert [usual.number(n) for n in (1, 2000, 2001, 10**6)] == [1, 2000, 1000, 1000]
    assert [EvaluationOptions(50).number(n) for n in (10, 50, 10**6)] == [10, 50, 50]


@pytest.mark.integration
def test_the_sample_is_fixed_by_the_seed_and_nobody_else_is_asked() -> None:
    with world(eval_clients=5) as run:
        outcome, sample = played(run), run.evaluator.evaluated.now()
        assert len(sample) == 5
        assert outcome["asked"] == {*sample} == {*run.evaluator.own} == {*run.evaluator.tuned}
        assert run.fed.stale_clients <= {*sample}  # those who are never evaluated do not pile up
    with world(eval_clients=5, algorithm="solo", rounds=1) as run:
        assert run.evaluator.evaluated.now() == sample  # by the seed alone, not by the method or the rounds
    with world(eval_clients=7) as run:
        assert {*run.evaluator.evaluated.now()} > {*sample}  # a larger sample holds the smaller one
    with world(eval_clients=5, seed=1) as run:
        assert run.evaluator.evaluated.now() != sample


@pytest.mark.integration
def test_numbers_of_a_sample_are_means_over_it_with_the_textbooks_standard_error() -> None:
    with world(eval_clients=5, plus=0.5) as run:
        outcome, sample = played(run), run.evaluator.evaluated.now()
        of_sample = {key: [right / n for _, (right, n) in sorted(scores.items())]
                     for key, scores in (("L", run.evaluator.own), ("C", run.evaluator.received))}  # fmt: skip
        counts = np.array([run.evaluator.received[c] for c in sample], np.float64)
        tuned = run.evaluator.tuned
    last, measured = outcome["last"], outcome["last"].measured
    for key, values in of_sample.items():
        assert getattr(last, key) == pytest.approx(np.mean(values))
        expected = np.std(values, ddof=1) / np.sqrt(5) * np.sqrt(1 - 5 / 12)
        assert (measured[key].clients, measured[key].of) == (5, 12)
        assert measured[key].standard_error == pytest.approx(expected)
    ratio = counts[:, 0].sum() / counts[:, 1].sum()
    residuals = counts[:, 0] - ratio * counts[:, 1]
    expected = np.sqrt((1 - 5 / 12) / 5 * (residuals**2).sum() / 4) / counts[:, 1].mean()
    assert last.W == last.G == pytest.approx(ratio)  # the digits have no test set for all
    assert measured["W"].standard_error == measured["G"].standard_error == pytest.approx(expected)
    assert len(tuned) == round(0.5 * 5)
    assert {*tuned} < {*sample}


def test_standard_errors_hold_what_they_promise() -> None:
    """Over many populations, the mean of a sample misses that of all by the standard error, as often as it should."""
    with world(eval_clients=6) as run:
        rng, ratios = np.random.default_rng(0), []
        for _ in range(2000):
            everyone = rng.beta(4, 2, 12)
            sample = EvaluatedClients(run.fed)
            sample._numbers = rng.random(12)
            values = everyone[sample.now()]
            error = sample.measured(values.tolist()).standard_error
            assert error is not None
            ratios.append((values.mean() - everyone.mean()) ** 2 / error**2)
    assert np.median(ratios) == pytest.approx(0.53, abs=0.05)  # of a t distribution with 5 degrees of freedom


@pytest.mark.integration
def test_test_samples_are_the_same_few_every_time_and_all_where_there_are_fewer() -> None:
    with world(test_samples=4) as run:
        engine = run.fed.wrap_engine(RecordingEngine)
        evaluations = [e for _, e in rounds(run.fed, run.algorithm, run.evaluator, every=1) if e is not None]
        replies = [
            answer for reply in engine.replies.values() for answer in reply.answers if isinstance(answer, EvaluateReply)
        ]
        assert {answer.samples for answer in replies} == {4}
        values = [right / n for right, n in run.evaluator.own.values()]
        before = {**run.evaluator.own}
        run.evaluator.forget()
        run.evaluator.evaluate()
        assert run.evaluator.own == before
    measured = evaluations[-1].measured
    assert measured is not None  # all clients, but not all of their samples
    assert measured["L"].clients == measured["L"].of == 12
    assert measured["L"].standard_error == pytest.approx(np.std(values, ddof=1) / np.sqrt(12))
    whole = coterie.run(**MANY)
    assert coterie.run(**MANY, test_samples=10_000).per_client == whole.per_client


@pytest.mark.integration
def test_exact_evaluation_is_as_ever_and_says_so() -> None:
    usual, every, more = (coterie.run(**MANY, **more) for more in ({}, {"eval_clients": "all"}, {"eval_clients": 12}))
    for result in (every, more):
        assert (result.accuracy, result.per_client) == (usual.accuracy, usual.per_client)
        assert [{k: v for k, v in row.items() if k != "seconds"} for row in result.history] == [
            {k: v for k, v in row.items() if k != "seconds"} for row in usual.history
        ]
    assert "measured" not in usual.history[-1]
    assert usual.measured["L"] == {"clients": 12, "of": 12, "standard_error": None}
    assert "±" not in repr(usual)


@pytest.mark.integration
def test_a_result_of_a_sample_says_on_how_many_clients_it_stands(tmp_path: Any) -> None:
    whole = coterie.run(**MANY | {"eval_every": 0})
    sampled = coterie.run(**MANY | {"eval_every": 0, "eval_clients": 5, "out": str(tmp_path / "run")})
    there = [client for client, value in enumerate(sampled.per_client["L"]) if value is not None]
    assert len(there) == 5
    assert [sampled.per_client["L"][c] for c in there] == [whole.per_client["L"][c] for c in there]
    assert sampled.measured["L"]["clients"] == 5
    assert sampled.measured["plus"]["standard_error"] > 0
    assert " ± " in repr(sampled)
    assert "estimates from 5 of 12 clients" in " ".join(sampled.report(tmp_path / "p.png").split())
    assert coterie.load(tmp_path / "run").measured == sampled.measured
    assert sampled.measured_by_true_group is None or len(sampled.measured_by_true_group["L"]) > 1


@pytest.mark.integration
def test_a_run_that_goes_on_evaluates_the_same_clients(tmp_path: Any) -> None:
    sampled = MANY | {"eval_every": 1, "eval_clients": 4, "newcomers": 0.25, "join_at": 1}
    coterie.run(**sampled, out=str(tmp_path / "run"))
    more, whole = coterie.resume(tmp_path / "run", rounds=3), coterie.run(**sampled | {"rounds": 3})
    assert (more.accuracy, more.measured, more.per_client) == (whole.accuracy, whole.measured, whole.per_client)
    assert [row["measured"] for row in more.history] == [row["measured"] for row in whole.history]


def test_scores_of_everybody_from_an_earlier_version_do_not_mix_with_the_sample() -> None:
    with world(eval_clients=5) as run:
        run.algorithm.begin(run.fed)
        before, sample = run.evaluator.evaluate(), run.evaluator.evaluated.now()
        outside = min({*range(12)} - {*sample})
        run.evaluator.own[outside] = run.evaluator.received[outside] = (0, 1)
        assert run.evaluator.evaluate() == before


@pytest.mark.integration
def test_newcomers_are_drawn_as_the_others_are_and_without_plus_nobody_fine_tunes() -> None:
    late = {**MANY, "newcomers": 0.5, "join_at": 1}
    with world(**late, eval_clients=3, plus=False) as run:
        outcome, sample = played(run), run.evaluator.evaluated
        numbers = sample._numbers
        highest = max(numbers[c] for c in sample.now() if c not in run.fed.joined)
        assert outcome["plus"] is None
        assert run.evaluator.tuned == {}
        assert {*sample.now()} == {c for c in range(12) if numbers[c] <= highest}
    result = coterie.run(**MANY, newcomers=0.5, eval_clients=3)
    assert result.newcomers is not None
    assert result.newcomers["measured"]["L"] == 3  # of those who came after training as many at most
    assert sum(value is not None for value in result.per_client["L"]) == result.measured["L"]["clients"] == 3


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"eval_clients": 1}, "standard error"),
        ({"eval_clients": "some"}, "all"),
        ({"plus": 1.5}, "share"),
        ({"plus": "maybe"}, "plus"),
        ({"test_samples": 0}, "test_samples"),
    ],
)
def test_settings_that_make_no_sense_are_refused(settings: dict[str, Any], says: str) -> None:
    with pytest.raises(CoterieError, match=says):
        settings_to_config(None, MANY | settings)


def test_settings_are_read_as_people_write_them() -> None:
    def read(**given: Any) -> EvaluationOptions:
        return settings_to_config(None, MANY | given).evaluation.options()

    assert read(plus="false").plus == read(plus=0).plus == 0
    assert read(plus="0.25").plus == 0.25
    assert read(eval_clients="ALL").number(10**6) == 10**6
    assert read(eval_clients="500").number(10**6) == 500
