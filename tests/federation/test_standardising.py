"""Clients that agree on mean and deviation of their inputs: what they come to, and who can move it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from coterie.client import MemoryStore
from coterie.data import FederatedData, Normalisation, Samples
from coterie.errors import CoterieError
from coterie.federation import Federation
from coterie.federation.loop import rounds
from coterie.messages import Answer, InputMoments, InputMomentsReply, Reply, Request, Standardisation
from coterie.run.building import Session, session
from coterie.run.settings import settings_to_config
from coterie.testing import RecordingEngine
from coterie.training import one_thread

SIZES = (60, 35, 7, 50)
"""Training samples of the clients; each has inputs of other means and deviations."""


def made_up(dtype: str, shape: tuple[int, ...], standardise: bool = True) -> FederatedData:
    rng, total = np.random.default_rng(0), sum(SIZES)
    whose = np.repeat(np.arange(len(SIZES)), SIZES)
    x = rng.normal(100 + 20 * whose.reshape(-1, *[1] * len(shape)), 15, (total, *shape))
    x = np.clip(x, 0, 255).round().astype(dtype) if dtype == "uint8" else x.astype(dtype)
    samples = Samples(x, np.arange(total) % 3)
    parts = np.split(np.arange(total), np.cumsum(SIZES)[:-1])
    normalise = Normalisation(255.0 if dtype == "uint8" else 1.0, (0.0,), (1.0,))
    return FederatedData("made up", 3, samples, samples, parts, parts, False, samples[:0], normalise,
                         standardise=standardise)  # fmt: skip


@contextmanager
def federation(data: FederatedData, **settings: Any) -> Iterator[Session]:
    config = settings_to_config(
        None,
        {"algorithm": "fedavg", "model": "mlp", "model_options": {"hidden": 4}, "rounds": 2, "epochs": 1, "lr": 0.05,
         "fraction": 1.0, "workers": 1, **settings},
    )  # fmt: skip
    with one_thread(), session(config.changed(data={"clients": data.clients}), data, MemoryStore()) as run:
        yield run


def gone_through(run: Session) -> Federation:
    for _ in rounds(run.fed, run.algorithm, run.evaluator, every=1):
        pass
    return run.fed


@pytest.mark.parametrize(
    ("dtype", "shape", "axes"),
    [("uint8", (2, 4, 4), (0, 2, 3)), ("float32", (5,), (0,)), ("uint8", (6,), (0, 1)), ("float32", (1, 3, 3), None)],
)
def test_it_is_what_would_be_measured_on_all_samples(dtype: str, shape: tuple[int, ...], axes: Any) -> None:
    data = made_up(dtype, shape)
    with federation(data) as run:
        fed = gone_through(run)
    x = data.normalise(data.train.x).astype(np.float64)
    assert fed.standardisation is not None
    np.testing.assert_allclose(fed.standardisation.mean, np.atleast_1d(x.mean(axes)), rtol=1e-12)
    np.testing.assert_allclose(fed.standardisation.std, np.atleast_1d(x.std(axes)), rtol=1e-12)


def test_all_use_it_and_a_newcomer_is_not_asked_for_more() -> None:
    data = made_up("uint8", (1, 4, 4))
    with federation(data, newcomers=0.25, newcomer_draw="last", join_at=1) as run:
        engine = run.fed.wrap_engine(RecordingEngine)
        fed = gone_through(run)
        agreed = fed.standardisation
    asked = [(client, request) for requests in engine.exchanges for client, request in requests.items()]
    first = [client for client, request in asked if isinstance(request.verbs[0], InputMoments)]
    assert first == [0, 1, 2]
    assert {client for client, _ in asked} == {0, 1, 2, 3}
    assert all(request.standardisation == agreed for _, request in asked[len(first) :])
    assert all(request.standardisation is None for _, request in asked[: len(first)])
    here = data.normalise(data.train.x[: sum(SIZES[:3])]).astype(np.float64)
    assert agreed is not None
    assert agreed.mean == pytest.approx((here.mean(),))
    assert fed.ledger.by_kind["inputmoments"]["up"] > 0


def test_networks_see_what_explicit_numbers_would_show_them() -> None:
    data = made_up("uint8", (1, 4, 4))
    with federation(data) as run:
        fed = gone_through(run)
        agreed, models = fed.standardisation, run.algorithm.save()
    assert agreed is not None
    explicit = replace(data, standardise=False, normalise=Normalisation(255.0, agreed.mean, agreed.std))
    with federation(explicit) as run:
        assert gone_through(run).standardisation is None
        others = run.algorithm.save()
    for name, array in models["model"].items():
        np.testing.assert_allclose(array, others["model"][name], atol=1e-5)


def test_a_client_with_few_samples_does_not_tell() -> None:
    data = made_up("uint8", (1, 4, 4))
    with federation(data, min_samples=10) as run:
        fed = gone_through(run)
    large = np.concatenate([data.train_parts[client] for client in (0, 1, 3)])
    expected = data.normalise(data.train.x[large]).astype(np.float64)
    assert fed.standardisation is not None
    assert fed.standardisation.mean == pytest.approx((expected.mean(),))
    assert fed.events.noted(2, "withheld")


def test_if_nobody_tells_it_says_what_to_do() -> None:
    with (
        federation(made_up("uint8", (1, 4, 4)), min_samples=100) as run,
        pytest.raises(
            CoterieError, match=r"no client told .* or write mean and std into \[samples\] of federation.toml"
        ),
    ):
        gone_through(run)


def lied(told: Answer, reply: Reply) -> Reply:
    return replace(reply, answers=(told,))


@pytest.mark.parametrize(("rule", "moved"), [("mean", True), ("clipped", False), ("median", False)])
def test_a_liar_moves_it_a_little_at_most(rule: str, moved: bool) -> None:
    data = made_up("float32", (2,))

    def lie(reply: Reply, request: Request) -> Reply:
        answer = reply.answers[0]
        if reply.client != 0 or not isinstance(answer, InputMomentsReply):
            return reply
        return lied(replace(answer, means=np.array([1e9, 0.0]), variances=np.array([0.0, 1e12])), reply)

    with federation(data, aggregation=rule, max_weight=10) as run:
        run.fed.wrap_engine(lambda engine: RecordingEngine(engine, lie))
        gone_through(run)
        fed = run.fed
    honest = data.train.x[SIZES[0] :].astype(np.float64)
    assert fed.standardisation is not None
    off = np.abs(np.array(fed.standardisation.mean) - honest.mean(axis=0)) / honest.std(axis=0)
    wide = np.array(fed.standardisation.std) / honest.std(axis=0)
    assert (off.max() > 1e6) == moved
    assert (wide.max() > 1e4) == moved
    assert fed.events.noted(0, "clipped") != moved
    if not moved:
        assert off.max() < 3
        assert wide.max() < 4


def test_who_alone_has_a_feature_is_not_taken_for_a_liar() -> None:
    data = made_up("float32", (2,))
    data.train.x[SIZES[0] :, 1] = 0.0
    with federation(data, aggregation="clipped", max_weight=10) as run:
        fed = gone_through(run)
    assert fed.standardisation is not None
    assert fed.standardisation.std[1] == pytest.approx(float(data.train.x[:, 1].astype(np.float64).std()), rel=1e-4)
    assert not fed.events.noted(0, "clipped")


def test_nonsense_is_not_counted() -> None:
    data = made_up("uint8", (1, 4, 4))

    def lie(reply: Reply, request: Request) -> Reply:
        answer = reply.answers[0]
        if reply.client != 0 or not isinstance(answer, InputMomentsReply):
            return reply
        return lied(replace(answer, means=np.array([1.5])), reply)

    with federation(data) as run:
        run.fed.wrap_engine(lambda engine: RecordingEngine(engine, lie))
        fed = gone_through(run)
    rest = data.normalise(data.train.x[SIZES[0] :]).astype(np.float64)
    assert fed.events.noted(0, "invalid")
    assert fed.standardisation is not None
    assert fed.standardisation.mean == pytest.approx((rest.mean(),))


def test_it_is_saved_and_loaded() -> None:
    data = made_up("uint8", (1, 4, 4))
    with federation(data) as run:
        state = gone_through(run).save()
    with federation(data) as run:
        run.fed.load(state)
        assert run.fed.standardisation == state["standardisation"]
        assert run.fed.request(InputMoments(1)).standardisation == state["standardisation"]
    with federation(made_up("uint8", (1, 4, 4), standardise=False)) as run:
        assert "standardisation" not in run.fed.save()


@pytest.mark.parametrize(
    ("given", "error"),
    [
        (Standardisation((0.5,), (0.2,)), None),
        (Standardisation((0.5, 0.5, 0.5), (0.2,)), None),
        (Standardisation((0.5, 0.5), (0.2,)), "mean has 2 numbers, expected 1 or 3"),
        (Standardisation((0.5,), (float("nan"),)), "std from nan to nan, expected 1e-12 to 1e+12"),
        (Standardisation((1e13,), (1.0,)), "mean from 1e+13 to 1e+13, expected -1e+12 to 1e+12"),
        (Standardisation((0.0,), (-1.0,)), "std from -1 to -1, expected 1e-12 to 1e+12"),
    ],
)
def test_what_can_t_be_used(given: Standardisation, error: str | None) -> None:
    assert given.error_for(3) == error


def test_an_input_that_never_varies_is_only_shifted() -> None:
    data = made_up("float32", (2,))
    data.train.x[:, 1] = 7.0
    with federation(data) as run:
        fed = gone_through(run)
    assert fed.standardisation is not None
    assert (fed.standardisation.mean[1], fed.standardisation.std[1]) == (7.0, 1.0)
