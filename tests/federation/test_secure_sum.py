"""Secure sums inside groups: methods get the means that they would have got, whoever drops out when."""

from collections.abc import Callable, Collection
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("cryptography")

import coterie
from coterie.errors import CoterieError
from coterie.federation.loop import rounds
from coterie.federation.private_mean import PrivateTraining
from coterie.messages import ClientId, Failure, KeysReply, MaskedReply, Params, Reply, Request, TrainReply, UnmaskReply
from coterie.run.progress import Progress
from coterie.testing import RecordingEngine, needs_nothing_but_messages, outcome, small_federation, small_run

SECURE = {"secure": True, "secure_min": 3}
UNEQUAL: dict[str, Any] = {
    "dataset": "digits",
    "partition": "dirichlet",
    "partition_options": {"alpha": 1.0},
    "fraction": 1.0,
    "rounds": 2,
    "epochs": 2,
}
Change = Callable[[Reply, Request], Reply | Failure]


def models(
    method: str, change: Change = lambda reply, request: reply, **settings: Any
) -> tuple[list[Params], Any, Any]:
    """Run a method, and return what clients would receive then, what passed, and the federation."""
    with small_federation(method, **{**UNEQUAL, **settings}) as (run, _):
        passed = run.fed.wrap_engine(lambda engine: RecordingEngine(engine, change))
        for _ in rounds(run.fed, run.algorithm, run.evaluator, every=0):
            pass
        served = [run.algorithm.model_for(client) for client in run.fed.clients]
        flat = [getattr(model, "params", getattr(model, "layers", model)) for model in served]
        return [model for model in flat if isinstance(model, dict)], passed, run.fed


def apart(a: list[Params], b: list[Params]) -> float:
    assert len(a) == len(b)
    assert a
    return max(float(np.abs(x[name] - y[name]).max()) for x, y in zip(a, b, strict=True) for name in x)


@pytest.mark.integration
@pytest.mark.parametrize(
    ("method", "settings"),
    [
        ("fedavg", {}),
        ("fednova", {}),
        ("scaffold", {}),
        ("mr-mtl", {}),
        ("ditto", {}),
        ("pacfl", {"dataset": "digits-rotated", "partition": None, "partition_options": {}, "groups": 2, "clients": 8}),
        ("lg-fedavg", {}),
        ("fedbabu", {"algorithm_options": {"tune_epochs": 1}}),
    ],
)
def test_models_are_those_without_masks(method: str, settings: dict[str, Any]) -> None:
    """To within rounding; of clients with other numbers of samples, and so of steps."""
    plain, _, fed = models(method, **settings)
    assert len({*fed.samples.values()}) > 3 or method == "pacfl"
    start, _, _ = models(method, **settings, drop=1.0)
    secure, passed, _ = models(method, **settings, **SECURE)
    assert apart(secure, plain) < 2e-5
    assert apart(start, plain) > 1e-2
    told = [reply for (round, client, kind), reply in passed.replies.items() if kind == "train"]
    assert not any(isinstance(part, TrainReply) for reply in told for part in reply.answers)


@pytest.mark.integration
def test_weights_are_capped_and_updates_cut_by_the_client() -> None:
    plain, _, _ = models("fedavg", max_weight=1.0)
    secure, _, _ = models("fedavg", max_weight=1.0, **SECURE)
    assert apart(secure, plain) < 2e-5
    assert apart(plain, models("fedavg")[0]) > 1e-4
    short, _, fed = models("fedavg", rounds=1, **SECURE, secure_clip=0.01)
    start, _, _ = models("fedavg", rounds=1, drop=1.0)
    assert np.sqrt(sum(np.square(short[0][name] - start[0][name]).sum() for name in short[0])) <= 0.01 * 1.001
    assert fed.events.kinds["clipped"]["example"] == (
        "round 1: 6 of 6 updates of a group were longer than 0.01, and were cut by the client"
    )


def lost(clients: Collection[ClientId], step: str) -> Change:
    """Lose what these clients answer in a step."""

    def change(reply: Reply, request: Request) -> Reply | Failure:
        asked = {type(verb).__name__ for verb in request.verbs}
        gone = reply.client in clients and step in asked
        return Failure(reply.client, request.round, "dropped") if gone else reply

    return change


@pytest.mark.integration
@pytest.mark.parametrize("step", ["Keys", "Shares", "MaskedTrain", "Unmask"])
def test_who_drops_out_in_a_step_is_not_in_the_sum(step: str) -> None:
    """As if it had dropped out without masks; in the last step its input is in the sum already."""
    missing = [] if step == "Unmask" else [4]
    plain, _, _ = models("fedavg", lost(missing, "Train"))
    secure, _, fed = models("fedavg", lost([4], step), **SECURE)
    assert apart(secure, plain) < 2e-5
    assert fed.events.kinds["dropped"]["clients"] == {4: 2}
    assert "too few" not in fed.events.kinds


@pytest.mark.integration
@pytest.mark.parametrize("step", ["Keys", "Shares", "MaskedTrain", "Unmask"])
def test_with_too_few_a_group_keeps_its_model_and_nothing_is_unmasked(step: str) -> None:
    start, _, _ = models("fedavg", drop=1.0)
    secure, passed, fed = models("fedavg", lost([0, 1, 2, 4], step), **SECURE)
    assert apart(secure, start) == 0
    assert fed.events.kinds["too few"]["count"] == 2
    steps = [{type(verb).__name__ for verb in request.verbs} for each in passed.exchanges for request in each.values()]
    assert step == "Unmask" or {"Unmask"} not in steps
    assert fed.training.mean_loss is None


def steps(passed: RecordingEngine, round: int) -> list[set[str]]:
    """Return what clients were asked in each exchange of a round that does not only measure."""
    asked = [[r for r in exchange.values() if r.round == round and not r.measures] for exchange in passed.exchanges]
    return [{type(verb).__name__ for request in each for verb in request.verbs} for each in asked if each]


FOUR = [{"Keys"}, {"Shares"}, {"MaskedTrain", "Keys"}, {"Unmask", "Shares"}]


@pytest.mark.integration
def test_where_the_same_clients_take_part_again_a_round_is_two_exchanges() -> None:
    plain, _, _ = models("fedavg", rounds=3)
    secure, passed, _ = models("fedavg", rounds=3, **SECURE)
    assert apart(secure, plain) < 2e-5
    assert [steps(passed, round) for round in (1, 2, 3)] == [FOUR, FOUR[2:], [{"MaskedTrain"}, {"Unmask"}]]
    keys = [
        passed.replies[round, 3, kind].answer(KeysReply) for round, kind in ((1, "keys"), (1, "train"), (2, "train"))
    ]
    assert len({key for pair in keys for key in (pair.mask, pair.share)}) == 6  # fresh in every round


@pytest.mark.integration
@pytest.mark.parametrize("step", ["MaskedTrain", "Unmask"])
def test_who_is_missing_once_shares_anew_with_all_others(step: str) -> None:
    """What the others have shared ahead is of no use then, and they begin the next round anew."""

    def change(reply: Reply, request: Request) -> Reply | Failure:
        return lost([4] if request.round == 1 else [], step)(reply, request)

    def without(reply: Reply, request: Request) -> Reply | Failure:
        return lost([4] if request.round == 1 and step != "Unmask" else [], "Train")(reply, request)

    plain, _, _ = models("fedavg", without, rounds=3)
    secure, passed, fed = models("fedavg", change, rounds=3, **SECURE)
    assert apart(secure, plain) < 2e-5
    assert [steps(passed, round) for round in (2, 3)] == [FOUR, [{"MaskedTrain"}, {"Unmask"}]]
    assert {*fed.events.kinds} == {"dropped"}


@pytest.mark.integration
def test_where_others_take_part_or_clients_choose_anew_nothing_is_asked_ahead() -> None:
    for method, settings in (("fedavg", {"fraction": 0.7, "clients": 6}), ("ifca", {"groups": 2})):
        _, passed, _ = models(method, **{**SECURE, **settings})
        asked = [*steps(passed, 1), *steps(passed, 2)]
        assert {"MaskedTrain"} in asked
        assert not [each for each in asked if {"Keys", "MaskedTrain"} <= each or {"Shares", "Unmask"} <= each]


@pytest.mark.integration
def test_a_sum_that_no_honest_clients_can_have_changes_nothing() -> None:
    """Of one whose shares are wrong the own mask of others is restored wrongly: the sum is random words."""

    def change(reply: Reply, request: Request) -> Reply | Failure:
        wrong = [
            UnmaskReply(tuple("00" * 33 for _ in part.shares)) if isinstance(part, UnmaskReply) else part
            for part in reply.answers
        ]
        return replace(reply, answers=tuple(wrong)) if reply.client == 0 else reply

    start, _, _ = models("fedavg", drop=1.0)
    secure, _, fed = models("fedavg", change, **SECURE)
    assert apart(secure, start) == 0
    assert fed.events.kinds["invalid"]["count"] == 2
    assert "a secure sum is wrong" in fed.events.kinds["invalid"]["example"]


@pytest.mark.integration
@pytest.mark.parametrize("own", ["00" * 32, None])
def test_a_client_with_useless_keys_spoils_no_sum(own: str | None) -> None:
    """Its neighbours would refuse a point that leads to a known secret, or another's keys (None), and so the sum."""
    first: dict[int, KeysReply] = {}

    def change(reply: Reply, request: Request) -> Reply | Failure:
        parts = [
            (replace(part, mask=own) if own else first.get(request.round, part))
            if isinstance(part, KeysReply)
            else part
            for part in reply.answers
        ]
        if reply.client == 0:
            first.update((request.round, part) for part in reply.answers if isinstance(part, KeysReply))
        return replace(reply, answers=tuple(parts)) if reply.client == 4 else reply

    plain, _, _ = models("fedavg", lost([4], "Train"))
    secure, passed, fed = models("fedavg", change, **SECURE)
    assert apart(secure, plain) < 2e-5
    assert fed.events.kinds["invalid"]["clients"].keys() == {4}
    assert steps(passed, 2)[-1] == {"Unmask"}


@pytest.mark.integration
def test_groups_are_of_those_who_chose_the_same_model() -> None:
    """Each group of IFCA has a sum of its own; one that is too small keeps its model."""
    settings: dict[str, Any] = {"clients": 12, "groups": 2, "fraction": 1.0, "rounds": 2, **SECURE}
    with small_federation("ifca", **settings) as (run, _):
        passed = run.fed.wrap_engine(RecordingEngine)
        for _ in rounds(run.fed, run.algorithm, run.evaluator, every=0):
            pass
        sent = {client: request for (round, client, kind), request in passed.requests.items() if kind == "train"}
        groups: dict[tuple[ClientId, ...], set[str]] = {}
        for request in sent.values():
            groups.setdefault(request.verbs[0].masking.clients, set()).update(request.models)  # type: ignore[attr-defined]
        assert all(len(names) == 1 for names in groups.values())
        assert sum(map(len, groups)) == len({client for clients in groups for client in clients}) == len(sent)
        members = run.algorithm.groups() or {}
        assert {client: f"model{group}" for client, group in members.items() if client in sent} == {
            client: next(iter(request.models)) for client, request in sent.items()
        }


@pytest.mark.integration
def test_what_clients_send_is_new_in_every_run_and_the_result_is_not(tmp_path: Path) -> None:
    first, second = (models("fedavg", **SECURE) for _ in range(2))
    assert apart(first[0], second[0]) == 0
    masked = [passed.replies[1, 3, "train"].answer(MaskedReply) for _, passed, _ in (first, second)]
    assert (masked[0].narrow == masked[1].narrow).mean() < 0.01
    runs = [small_run("pacfl", **SECURE, fraction=1.0, workers=w, drop=0.2, out=str(tmp_path / str(w))) for w in (1, 3)]
    assert outcome(runs[0]) == outcome(runs[1])


PRIVATE: dict[str, Any] = {"fraction": 1.0, "dp_training": "epsilon=8,delta=1e-4,clip=0.5,min_group=4"}


@pytest.mark.integration
def test_private_models_are_those_without_masks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Clients cut and count alike, and the server adds the same noise, where all of δ is for it."""
    pytest.importorskip("dp_accounting")
    monkeypatch.setattr("coterie.federation.private_mean.MISSED", 0.0)
    plain, _, _ = models("fedavg", **PRIVATE)
    secure, _, fed = models("fedavg", **PRIVATE, **SECURE)
    assert fed.events.kinds["clipped"]["count"] == 2
    assert apart(secure, plain) < 2e-5


@pytest.mark.integration
def test_the_noise_of_a_private_secure_sum() -> None:
    """Of updates that are 0, the model moves by N(0, (z S / q n)²) in each number."""
    pytest.importorskip("dp_accounting")
    settings: dict[str, Any] = {**PRIVATE, "lr": 1e-30, "rounds": 1}
    secure, _, fed = models("fedavg", **settings, **SECURE)
    start, _, _ = models("fedavg", rounds=1, drop=1.0)
    private = fed.settings.private_training
    assert private is not None
    moved = np.concatenate([(secure[0][name] - start[0][name]).ravel() for name in start[0]])
    expected = private.noise * 0.5 / len(fed.trainable)
    assert moved.std() == pytest.approx(expected, rel=4 / np.sqrt(2 * moved.size))
    assert abs(moved.mean()) < 4 * expected / np.sqrt(moved.size)
    assert private.noise_delta == pytest.approx(0.99e-4)


def test_private_secure_sums_that_might_not_be_there_are_refused() -> None:
    """Of 100 clients by coins of 0.1 fewer than five take part in one round of 50."""
    private = PrivateTraining(8.0, 1e-4, 1.0, 1.0, 0.1, min_group=10, least=5, rounds=10)
    assert "raise fraction" in str(private.error_in_sizes([100]))
    assert private.error_in_sizes([1000]) is None
    assert replace(private, least=0).error_in_sizes([100]) is None
    assert replace(private, rate=1.0).error_in_sizes([11, 10]) is None


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"algorithm": "cfl"}, "method 'cfl' .* it looks at what single clients trained"),
        ({"algorithm": "fesem"}, "method 'fesem' .* it looks at"),
        ({"algorithm": "flis-dc"}, "method 'flis-dc' .* it looks at"),
        ({"algorithm": "sub-fedavg-un"}, "of each weight over the clients that have not pruned it"),
        ({"algorithm": "sub-fedavg-st"}, "of each weight over the clients that have not pruned it"),
        ({"algorithm": "pacfl", "algorithm_options": {"diversity": 1}}, "method 'pacfl' .* it looks at"),
        ({"algorithm": "fedavg", "aggregation": "median"}, "'median' compares single updates"),
        ({"algorithm": "fedavg", "aggregation": "clipped"}, "clients themselves clip updates to secure_clip"),
        ({"algorithm": "fedavg", "oversample": 0.5}, "oversample leaves out clients"),
        ({"algorithm": "fedavg", "liars": 1, "hostile_kind": "flip"}, "'flip' is not played under masks"),
        ({"algorithm": "fedavg", "secure_min": 2}, "secure_min = 2"),
        ({"algorithm": "ifca", **PRIVATE}, "clients choose groups, of which any may be too small"),
        ({"algorithm": "fedavg", **PRIVATE, "drop": 0.1}, "count on clients that answer"),
        ({"algorithm": "fedavg", **PRIVATE, "secure_clip": 2.0}, "its clip that of secure_clip"),
    ],
)
def test_what_is_refused(settings: dict[str, Any], why: str) -> None:
    with pytest.raises(CoterieError, match=why):
        coterie.run(dataset="digits", **{"secure": True, **settings})


class BreaksOff(Progress):
    """Ends a run after a number of answers."""

    def __init__(self, answers: int) -> None:
        self.left = answers

    def clients(self, done: int, total: int) -> None:
        self.left -= 1
        if self.left < 0:
            raise InterruptedError


@pytest.mark.integration
@pytest.mark.parametrize("state", ["auto", "disk"])
def test_broken_off_in_any_step_it_goes_on_to_the_same_result(tmp_path: Path, state: str) -> None:
    """With six clients a round of four steps takes 24 answers; the sixth, drawn by the seed, drops out now and then."""
    settings: dict[str, Any] = {**SECURE, "fraction": 1.0, "rounds": 2, "eval_every": 2, "drop": 0.1, "state": state}
    whole = outcome(small_run("fedavg", **settings, out=str(tmp_path / "whole")))
    for answers in (3, 9, 15, 21, 40):
        folder = tmp_path / str(answers)
        with pytest.raises(InterruptedError):
            small_run("fedavg", **settings, out=str(folder), progress=BreaksOff(answers))
        assert outcome(coterie.resume(folder)) == whole
    assert not [*tmp_path.glob("*/clients/*/*.session")] or state == "disk"


@pytest.mark.integration
def test_bytes_change_nothing() -> None:
    """Messages of every step pass through their wire format, as on Flower."""
    needs_nothing_but_messages("fedavg", Path(), **SECURE, fraction=1.0)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["fedavg", "pacfl", "ifca", "scaffold"])
def test_accuracy_is_that_without_masks(method: str) -> None:
    """Within a point for each of five seeds, and their mean within 0.3; all clients take part.

    In ifca, of so many that each model always has clients enough for a sum; of fewer see the tests of hidden choices.
    """
    lost, groups = [], dict[str, Any]({"groups": 4} if method in ("ifca", "pacfl") else {})
    groups |= {"clients": 100, "algorithm_options": {"init_retry": 50}} if method == "ifca" else {}
    for seed in range(5):
        settings: dict[str, Any] = {"dataset": "digits-rotated", "fraction": 1.0, "rounds": 20, "seed": seed, **groups}
        plain, secure = (coterie.run(algorithm=method, **settings, **more) for more in ({}, {"secure": True}))
        assert not [event for event in secure.events if event["kind"] == "too few"]
        without, under = plain.accuracy["C"], secure.accuracy["C"]
        assert without is not None
        assert under is not None
        lost.append(100 * (without - under))
    assert max(map(abs, lost)) <= 1, lost
    assert abs(np.mean(lost)) <= 0.3, lost
