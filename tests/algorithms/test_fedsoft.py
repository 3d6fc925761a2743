"""FedSoft: against a small NumPy implementation; who is drawn, who is asked, and what shares are."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from softmax_regression import gradient

from coterie.algorithms.fedsoft import FedSoft
from coterie.data import FederatedData
from coterie.federation import Engine, Federation
from coterie.federation.checkpoint import load_checkpoint, save_checkpoint
from coterie.messages import Failure, Losses, LossesReply, Params, Reply, Request, Train, TrainReply
from coterie.streams import stream
from coterie.testing import (
    RecordingEngine,
    goes_on_after_an_interruption,
    needs_nothing_but_messages,
    repeats_itself,
    small_federation,
    small_run,
)
from coterie.training import steps

DIGITS = {"clients": 20, "fraction": 1.0, "rounds": 20, "epochs": 5, "lr": 0.02, "model_options": {}, "eval_every": 0}


@contextmanager
def federation(**settings: Any) -> Iterator[tuple[FedSoft, Federation, FederatedData]]:
    with small_federation("fedsoft", **settings) as (run, data):
        yield run.algorithm, run.fed, data  # type: ignore[misc]


def flat(params: Params) -> np.ndarray:
    return np.concatenate([value.ravel() for value in params.values()]).astype(np.float64)


def silent(away: Callable[[int, int], bool]) -> Callable[[Engine], RecordingEngine]:
    """Wrap an engine so that the replies of clients that are away in a round come too late."""

    def change(reply: Reply, request: Request) -> Reply | Failure:
        return Failure(reply.client, reply.round, "late") if away(reply.client, reply.round) else reply

    return lambda inner: RecordingEngine(inner, change)


def play(method: FedSoft, fed: Federation, rounds: int) -> None:
    method.begin(fed)
    for t in range(1, rounds + 1):
        fed.start_round(t)
        method.round(fed, fed.cohort(fed.round))


# An independent implementation, on softmax regression with one matrix W of (features + 1, classes).


def sample_losses(w: np.ndarray, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    z = x @ w
    z -= z.max(1, keepdims=True)
    return np.log(np.exp(z).sum(1)) - z[np.arange(len(y)), y]


def matrix(params: Params) -> np.ndarray:
    return np.vstack([params["fc.weight"].T, params["fc.bias"]]).astype(np.float64)


def in_numpy(
    fed: Federation, samples: list, S: int, lam: float, tau: int, sigma: float, selection: bool
) -> tuple[list[np.ndarray], np.ndarray, list[np.ndarray]]:
    """Return centres, shares and own models at the end."""
    N, n = len(samples), np.array([len(y) for _, y in samples])
    centres = [matrix(fed.initial(s)) for s in range(S)]
    own = [matrix(fed.initial()) for _ in samples]
    u = np.zeros((N, S))
    K = max(1, round(fed.settings.fraction * N / S))
    for t in range(1, fed.settings.rounds + 1):
        if t % tau == 1 % tau:
            for i, (x, y) in enumerate(samples):
                best = np.argmin([sample_losses(c, x, y) for c in centres], axis=0)
                u[i] = [np.mean(best == s) for s in range(S)]
            u[u == 0] = sigma
        v = u * n[:, None] / (u * n[:, None]).sum(0)
        if selection:
            drawn = [stream(fed.seed, "fedsoft", t, s).choice(N, K, replace=False, p=v[:, s]) for s in range(S)]
        else:
            drawn = [np.array(fed.cohort(t))] * S
        for i in {int(i) for group in drawn for i in group}:
            x, y = samples[i]
            w, velocity = own[i], 0.0
            for (batch,) in steps(len(y), fed.plan, stream(fed.seed, "train", i, t)):
                pull = sum(lam * u[i, s] * (w - centres[s]) for s in range(S))
                velocity = fed.plan.momentum * velocity + gradient(w, x[batch], y[batch]) + pull
                w = w - fed.plan.lr.rate * velocity
            own[i] = w
        for s, group in enumerate(drawn):
            weights = np.full(len(group), 1 / K) if selection else v[group, s] / v[group, s].sum()
            centres[s] = sum(a * own[i] for a, i in zip(weights, group, strict=True))
    return centres, u, own


@pytest.mark.parametrize(
    ("groups", "options"),
    [
        (2, {"lam": 0.1}),
        (3, {"lam": 2.0, "tau": 3}),
        (3, {"lam": 0.5, "tau": 1, "selection": False}),
        (1, {"lam": 0.0}),
        (2, {"lam": 0.3, "sigma": 0.2, "selection": False}),
    ],
)
def test_against_numpy(groups: int, options: dict[str, Any]) -> None:
    settings = {"model": "mclr", "model_options": {}, "rounds": 6, "clients": 8, "momentum": 0.4, "lr": 0.03}
    uneven = {"dataset": "digits", "partition": "dirichlet:alpha=0.5"}
    with federation(**settings, **uneven, groups=groups, algorithm_options=options) as (method, fed, data):
        samples = []
        for part in data.train_parts:
            x = data.normalise(data.train.x[part]).reshape(len(part), -1).astype(np.float64)
            samples.append((np.hstack([x, np.ones((len(x), 1))]), data.train.y[part]))
        full = {"tau": 2, "sigma": 1e-4, "selection": True, **options}
        centres, u, own = in_numpy(fed, samples, groups, **full)
        engine = fed.wrap_engine(RecordingEngine)
        play(method, fed, 6)
        assert [method.memberships()[i] for i in range(8)] == pytest.approx(u, abs=1e-12)
        for ours, theirs in zip(method.models, centres, strict=True):
            assert np.allclose(matrix(ours), theirs, atol=2e-5)
        for i in range(8):
            last = max((t for t, c, kind in engine.replies if (c, kind) == (i, "train")), default=None)
            if last is not None:
                assert np.allclose(
                    matrix(engine.replies[last, i, "train"].answer(TrainReply).params), own[i], atol=2e-5
                )
        assert method.groups() == {i: int(np.argmax(u[i])) for i in range(8)}


# Shares and selection


def test_all_clients_estimate_their_shares_every_tau_rounds() -> None:
    with federation(algorithm_options={"tau": 3}) as (method, fed, _):
        engine = fed.wrap_engine(RecordingEngine)
        play(method, fed, 7)
        assert [t for t in range(1, 8) if engine.asked(t, "losses")] == [1, 4, 7]
        assert engine.asked(4, "losses") == list(range(6))
        request = engine.requests[4, 0, "losses"]
        assert request.verbs == (Losses(("centre0", "centre1"), on="train"),)
        answers = {c: engine.replies[7, c, "losses"].answer(LossesReply) for c in range(6)}
        for client, u in method.memberships().items():
            won = [wins / fed.samples[client] for wins in answers[client].wins]
            assert u == [share or 1e-4 for share in won]
            assert method.groups()[client] == int(np.argmax(won))
            assert method.model_for(client) is method.models[int(np.argmax(won))]


def test_centres_begin_differently() -> None:
    with federation(groups=3) as (method, fed, _):
        method.begin(fed)
        apart = [np.linalg.norm(flat(a) - flat(b)) for i, a in enumerate(method.models) for b in method.models[:i]]
        assert min(apart) > 1
    with federation() as (method, fed, _):
        method.begin(fed)
        assert len(method.models) == 2
        assert method.transfers == 3


def test_every_client_that_is_drawn_trains_its_own_model_near_all_centres() -> None:
    with federation(algorithm_options={"lam": 0.5}) as (method, fed, _):
        engine = fed.wrap_engine(RecordingEngine)
        method.begin(fed)
        for t in (1, 2):
            fed.start_round(t)
            centres = list(method.models)
            method.round(fed, fed.cohort(fed.round))
            for client in engine.asked(fed.round, "train"):
                (train,) = engine.requests[fed.round, client, "train"].verbs
                assert isinstance(train, Train)
                assert (train.start, train.keep) == (("own",), True)
                sent = engine.requests[fed.round, client, "train"].models
                assert [
                    sent[anchor.model] is centre for anchor, centre in zip(train.plan.anchors, centres, strict=True)
                ]
                assert [anchor.strength / 0.5 for anchor in train.plan.anchors] == method.memberships()[client]


@pytest.mark.parametrize(
    ("clients", "fraction", "groups", "K"), [(20, 0.5, 2, 5), (20, 0.1, 4, 1), (20, 0.35, 2, 4), (6, 1.0, 1, 6)]
)
def test_each_centre_draws_its_share_of_the_cohort_without_repetition(
    clients: int, fraction: float, groups: int, K: int
) -> None:
    with federation(clients=clients, fraction=fraction, groups=groups) as (method, fed, _):
        method.begin(fed)
        method.place(fed, fed.trainable)
        fed.start_round(1)
        for s in range(groups):
            drawn = method.chosen(fed, s, fed.trainable)
            assert len(drawn) == K
            assert set(drawn.values()) == {1.0}
            assert drawn == method.chosen(fed, s, fed.trainable)


@pytest.mark.integration
def test_clients_are_drawn_as_often_as_their_shares_say() -> None:
    """K = 1, over many rounds; also that rounds and centres draw differently."""
    with federation(fraction=0.1) as (method, fed, _):
        method.begin(fed)
        method.u = {c: [0.9, 0.1] if c < 2 else [1e-4, 1.0] for c in range(6)}
        draws = np.zeros((2, 6))
        for t in range(1, 2001):
            fed.start_round(t)
            for s in range(2):
                (client,) = method.chosen(fed, s, fed.trainable)
                draws[s, client] += 1
        weights = np.array([method.u[c] for c in range(6)]).T * [fed.samples[c] for c in range(6)]
        expected = 2000 * weights / weights.sum(axis=1, keepdims=True)
        assert np.abs(draws - expected).max() < 4 * np.sqrt(500)
        assert draws[0, 2:].sum() < 10


def test_it_selects_clients_itself_unless_told_not_to() -> None:
    cohorts: Sequence[int] = [0, 1]
    for selection in (True, False):
        with federation(clients=12, algorithm_options={"selection": selection}) as (method, fed, _):
            engine = fed.wrap_engine(RecordingEngine)
            method.begin(fed)
            for t in (1, 2, 3):
                fed.start_round(t)
                method.round(fed, cohorts)
            drawn = {client for t in (1, 2, 3) for client in engine.asked(t, "train")}
            assert (drawn == {0, 1}) is not selection


# Trouble


def test_who_was_away_when_shares_were_estimated_is_asked_in_the_next_round() -> None:
    away = {1: {0, 1, 2}, 2: {1}, 3: set(), 4: set()}
    with federation(algorithm_options={"tau": 10}) as (method, fed, _):
        engine = fed.wrap_engine(silent(lambda client, t: client in away[t]))
        play(method, fed, 4)
        assert [engine.asked(t, "losses") for t in (1, 2, 3, 4)] == [list(range(6)), [0, 1, 2], [1], []]
        assert not {0, 1, 2} & {*engine.asked(1, "train")}
        assert set(method.memberships()) == set(range(6))


def test_a_centre_is_the_mean_of_those_of_its_own_who_answered_and_else_stays() -> None:
    with federation(clients=12, fraction=1.0, groups=3) as (method, fed, _):
        late: set[int] = set()
        engine = fed.wrap_engine(silent(lambda client, t: client in late and t == 2))
        play(method, fed, 1)
        fed.start_round(2)
        before = list(method.models)
        chosen = [method.chosen(fed, s, fed.trainable) for s in range(3)]
        late |= set(chosen[0]) | {next(c for c in chosen[1] if c not in chosen[0])}
        method.round(fed, fed.cohort(2))
        assert method.models[0] is before[0]
        for s in (1, 2):
            own = [engine.replies[2, c, "train"].answer(TrainReply).params for c in chosen[s] if c not in late]
            assert 0 < len(own) <= 4
            assert np.allclose(flat(method.models[s]), np.mean([flat(p) for p in own], axis=0), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("selection", [True, False])
def test_nobody_answers(selection: bool) -> None:
    with federation(algorithm_options={"selection": selection}) as (method, fed, _):
        fed.wrap_engine(silent(lambda client, t: True))
        method.begin(fed)
        before = list(method.models)
        for t in (1, 2):
            fed.start_round(t)
            method.round(fed, fed.cohort(fed.round))
        assert all(a is b for a, b in zip(method.models, before, strict=True))
        assert method.memberships() == {}
        assert method.model_for(0) is method.models[0]


@pytest.mark.integration
@pytest.mark.parametrize("faults", [{"drop": 0.3}, {"hostile": 0.3}, {"drop": 0.2, "straggle": 0.2, "hostile": 0.2}])
def test_missing_and_hostile_clients_do_no_harm(faults: dict[str, float]) -> None:
    result = small_run("fedsoft", **{**DIGITS, "rounds": 12}, groups=4, **faults)
    assert result.accuracy["L"] > 0.6
    assert None not in result.groups


@pytest.mark.parametrize("groups", [1, 4])
@pytest.mark.parametrize("selection", [True, False])
def test_one_client(groups: int, selection: bool) -> None:
    settings = {"dataset": "digits", "clients": 1, "groups": groups}
    result = small_run("fedsoft", **settings, algorithm_options={"selection": selection})
    assert result.accuracy["L"] > 0.3


def test_updates_of_zero_leave_centres_at_the_clients_models() -> None:
    """Clients that do not move answer with their own models, which are θ⁰."""
    with federation(lr=1e-30) as (method, fed, _):
        play(method, fed, 3)
        assert all(np.array_equal(flat(model), flat(fed.initial())) for model in method.models)
        assert all(u == [1.0, 1e-4] for u in method.memberships().values())  # equal centres: the first wins


# Groups on real data


@pytest.mark.integration
@pytest.mark.parametrize(("seed", "selection"), [(0, True), (2, False)])
def test_it_finds_the_rotations(seed: int, selection: bool) -> None:
    result = small_run("fedsoft", **DIGITS, groups=4, seed=seed, algorithm_options={"selection": selection})
    assert result.ari == 1
    assert result.accuracy["L"] > 0.85


@pytest.mark.integration
@pytest.mark.parametrize("join_at", [12, None])
def test_newcomers_find_their_rotation(join_at: int | None) -> None:
    late = {"newcomers": 0.3, "join_at": join_at, "newcomer_epochs": 5, "rounds": 16}
    result = small_run("fedsoft", **{**DIGITS, **late}, groups=4, algorithm_options={"selection": False})
    assert len(result.newcomers["clients"]) == 6
    assert result.ari == 1
    assert result.newcomers["accuracy"]["L"] > 0.8


# What is kept


@pytest.mark.integration
@pytest.mark.parametrize(
    "check",
    [repeats_itself, goes_on_after_an_interruption, needs_nothing_but_messages],
    ids=lambda check: check.__name__,
)
def test_the_battery_holds_without_selection(check: Callable[..., None], tmp_path: Path) -> None:
    late = {"newcomers": 0.34, "join_at": 2}
    check("fedsoft", tmp_path, groups=3, **late, algorithm_options={"selection": False, "tau": 3})


def test_a_state_that_was_saved_goes_on_as_the_one_that_was_not(tmp_path: Path) -> None:
    path = tmp_path / "checkpoint.safetensors"
    with federation(clients=12, groups=3, algorithm_options={"tau": 4}) as (method, fed, _):
        play(method, fed, 2)
        save_checkpoint(path, method.save())
        restored = FedSoft(tau=4)
        restored.load(load_checkpoint(path))
        assert restored.memberships() == method.memberships()
        for t in (3, 5):
            fed.start_round(t)
            for each in (method, restored):
                each.round(fed, fed.cohort(fed.round))
                fed.start_round(fed.round)  # so that clients may be asked by both
        assert restored.memberships() == method.memberships()
        assert restored.groups() == method.groups()
        assert all(np.array_equal(flat(a), flat(b)) for a, b in zip(restored.models, method.models, strict=True))
