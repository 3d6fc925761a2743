"""The messages of Sub-FedAvg: what is asked, how many bytes are counted, and which forged replies are refused."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from pruned_runs import EAGER, HY, UN, federation, play

from coterie.algorithms.sub_fedavg import SubFedAvgHy, SubFedAvgUn, owner_mean
from coterie.messages import ModelSpec, Plan, Prune, PruneReply, Reply, Request, Schedule, Train, wire
from coterie.results.costs import paper_megabits, sub_fedavg_bytes

# What is asked.


def test_what_is_asked() -> None:
    with federation({**UN, "rounds": 2}) as (method, run, _, heard):
        play(run)
        for (t, _), request in heard.asked_to_train.items():
            train, prune = request.verbs
            assert isinstance(train, Train)
            assert (train.plan.mask, train.plan.snapshots, train.plan.holdout) == ("own", (1,), 0.1)
            assert (train.send, train.keep, train.start) == (False, True, ("model",))
            assert prune == Prune(("fc1.weight", "fc2.weight"), distance=0.0, accuracy=0.0)
            assert set(request.models) == {"model"}
            if t == 1:
                assert request.models["model"].keys() == method.model.keys()
                np.testing.assert_array_equal(request.models["model"]["fc1.weight"], run.fed.initial()["fc1.weight"])
    with federation({**UN, "algorithm_options": {"validation": "test", "last_rate": 0.05}}) as (method, run, _, heard):
        method.begin(run.fed)
        run.fed.start_round(1)
        method.round(run.fed, [0])
        train, prune = heard.asked_to_train[1, 0].verbs
        assert (train.plan.holdout, prune.on, prune.last_rate) == (0.0, "test", 0.05)


def test_without_new_options_messages_are_as_they_were() -> None:
    """Fields that came later travel only where they are set."""
    prune = SubFedAvgHy().asked(ModelSpec("lenet5-bn", (3, 32, 32), 10))
    assert b"scales_of" not in wire.pack(prune)
    assert b"l1" not in wire.pack(Plan(Schedule(0.1)))
    later = replace(prune, scales_of="network")
    assert wire.unpack(wire.pack(later)) == later
    assert SubFedAvgHy(threshold="network").asked(ModelSpec("lenet5-bn", (3, 32, 32), 10)) == later


def test_biases_and_normalisations_are_never_pruned() -> None:
    verb = SubFedAvgUn().asked(ModelSpec("lenet5-bn", (3, 32, 32), 10))
    assert verb.weights == ("conv1.weight", "conv2.weight", "fc1.weight", "fc2.weight", "fc3.weight")
    assert verb.channels == ()
    verb = SubFedAvgUn().asked(ModelSpec("lstm", (25, 300), 2))
    assert set(verb.weights) == {f"lstm.weight_{k}h_l{layer}" for k in "ih" for layer in "01"} | {
        "fc1.weight",
        "fc2.weight",
    }


# Bytes.


def test_the_ledger_counts_what_is_left_and_the_bitmaps() -> None:
    with federation({**UN, "rounds": 9, "fraction": 1.0}) as (method, run, store, heard):
        play(run)
        for t in (1, 5, 9):
            replies = [reply for reply in heard.trained if reply.round == t]
            assert run.fed.ledger.by_round[t]["up"] == sum(len(wire.encode(reply)) for reply in replies)
        for client in run.fed.clients:
            answer, mask = heard.pruned[9, client], store.load(client, before=99)["mask"]
            sizes = {name: value.size for name, value in method.model.items()}
            left = sum(int(mask[name].sum()) for name in mask) + sizes["fc1.bias"] + sizes["fc2.bias"]
            bits = sum(math.ceil(sizes[name] / 8) for name in mask)
            assert sum(a.nbytes for a in (*answer.params.values(), *answer.bitmaps.values())) == 4 * left + bits
        first, last = (run.fed.ledger.by_round[t]["up"] for t in (1, 9))
        assert last < 0.75 * first


@pytest.mark.integration
def test_the_papers_formula_is_near_what_was_counted() -> None:
    """It takes the final masks for all rounds, a bit for pruned weights only, and no message around them."""
    big = {"model_options": {"hidden": 200}, "rounds": 12, "fraction": 1.0, "algorithm_options": {**EAGER, "rate": 0.4}}
    with federation({**UN, **big}) as (method, run, _, _):
        play(run)
        ledger, d = run.fed.ledger, method.whole.parameters
        paper = sub_fedavg_bytes(1, 6, d, method.pruned)
        assert sum(ledger.by_round[12].values()) == pytest.approx(paper, rel=0.06)
        assert 8e-6 * paper / 6 == pytest.approx(paper_megabits(1, 1.0, method.transfers, d))


# Replies that can't be.


def spoilt(
    change: Callable[[PruneReply], PruneReply], whose: Callable[[Reply], bool] = lambda reply: True
) -> Callable[[Reply, Request], Reply]:
    def spoil(reply: Reply, request: Request) -> Reply:
        if request.kind != "train" or not whose(reply):
            return reply
        *others, pruned = reply.answers
        assert isinstance(pruned, PruneReply)
        return replace(reply, answers=(*others, change(pruned)))

    return spoil


def with_params(name: str, change: Callable[[np.ndarray], np.ndarray]) -> Callable[[PruneReply], PruneReply]:
    return lambda p: replace(p, params={**p.params, name: change(p.params[name])})


def with_bits(name: str, change: Callable[[np.ndarray], np.ndarray]) -> Callable[[PruneReply], PruneReply]:
    return lambda p: replace(p, bitmaps={**p.bitmaps, name: change(p.bitmaps.get(name, np.zeros(2, np.uint8)))})


def flipped(bits: np.ndarray) -> np.ndarray:
    return np.bitwise_xor(bits, np.eye(1, len(bits), dtype=np.uint8)[0])


FORGED: dict[str, Callable[[PruneReply], PruneReply]] = {
    "a NaN among what is left": with_params("fc1.weight", lambda w: np.full_like(w, np.nan)),
    "an infinity in a whole tensor": with_params("fc1.bias", lambda w: np.full_like(w, np.inf)),
    "too few weights": with_params("fc1.weight", lambda w: w[1:]),
    "too many weights": with_params("fc1.weight", lambda w: np.append(w, np.float32(1))),
    "weights in rows": with_params("fc1.weight", lambda w: w[None]),
    "other numbers": with_params("fc1.weight", lambda w: w.astype(np.float64)),
    "another bit": with_bits("fc1.weight", flipped),
    "a short bitmap": with_bits("fc1.weight", lambda b: b[:-1]),
    "a long bitmap": with_bits("fc1.weight", lambda b: np.append(b, np.uint8(0))),
    "bits of another type": with_bits("fc1.weight", lambda b: b.astype(np.int64)),
    "bits in rows": with_bits("fc1.weight", lambda b: b[None]),
    "bits behind the end": with_bits("fc2.weight", lambda b: np.append(b[:-1], b[-1] | np.uint8(1))),
    "a bitmap of a bias": with_bits("fc1.bias", lambda b: b),
    "a bitmap of nothing": with_bits("fc7.weight", lambda b: b),
    "no bitmaps": lambda p: replace(p, bitmaps={}),
    "a tensor less": lambda p: replace(p, params={n: v for n, v in p.params.items() if n != "fc2.bias"}),
    "a tensor more": lambda p: replace(p, params={**p.params, "x": np.zeros(1, np.float32)}),
    "a verdict on channels": lambda p: replace(p, channels="pruned"),
}  # fmt: skip


@pytest.mark.parametrize("kind", FORGED)
def test_forged_replies_are_refused(kind: str) -> None:
    """With 15 hidden units the last bitmap has bits to spare."""
    odd = {"dataset": "synthetic", "model_options": {"hidden": 15}, "rounds": 2, "fraction": 1.0, "clients": 3}
    with federation({**UN, **odd}) as (method, run, _, heard):
        heard.change = spoilt(FORGED[kind], lambda reply: (reply.client, reply.round) == (1, 2))
        play(run)
        good = heard.pruned[1, 1]
        assert set(good.bitmaps) == {"fc1.weight", "fc2.weight"}
        assert 15 * run.fed.spec.classes % 8
        (event,) = run.fed.events.save()
        assert (event["kind"], event["count"]) == ("invalid", 1)
        rest = [heard.pruned[2, 0], heard.pruned[2, 2]]
        before = owner_mean(run.fed.initial(), [heard.pruned[1, c] for c in range(3)])
        expected = owner_mean(before, rest)
        for name in expected:
            np.testing.assert_array_equal(method.model[name], expected[name])


def test_a_reply_that_lost_all_weights_does_no_harm() -> None:
    nothing = {"fc1.weight": (16, 64), "fc2.weight": (10, 16)}

    def emptied(pruned: PruneReply) -> PruneReply:
        params = {**pruned.params, **{name: np.zeros(0, np.float32) for name in nothing}}
        return replace(
            pruned, params=params, bitmaps={n: np.zeros(a * b // 8, np.uint8) for n, (a, b) in nothing.items()}
        )

    with federation({**UN, "rounds": 1, "fraction": 1.0}) as (method, run, _, heard):
        heard.change = spoilt(emptied)
        play(run)
        assert run.fed.events.save() == []
        np.testing.assert_array_equal(method.model["fc1.weight"], run.fed.initial()["fc1.weight"])
        assert np.isfinite(method.model["fc1.bias"]).all()
        assert method.details()["pruned"] == 1.0


@pytest.mark.integration
def test_forged_channels_are_refused() -> None:
    small = {**HY, "rounds": 2, "fraction": 1.0, "clients": 3}
    forgeries: list[Callable[[PruneReply], PruneReply]] = [
        lambda p: replace(p, channels=None),
        with_bits("fc1.bias", lambda b: b),
        with_bits("bn1.num_batches_tracked", lambda b: b[:1]),
        lambda p: replace(p, params={**p.params, "bn1.running_mean": p.params["bn1.running_mean"] * np.nan}),
        lambda p: replace(p, params={**p.params, "bn1.num_batches_tracked": np.float32(3).reshape(())}),
    ]
    for forge in forgeries:
        with federation(small) as (_, run, _, heard):
            heard.change = spoilt(forge, lambda reply: reply.client == 1)
            run.algorithm.begin(run.fed)
            run.fed.start_round(1)
            run.algorithm.round(run.fed, [0, 1])
            assert [(event["kind"], event["count"]) for event in run.fed.events.save()] == [("invalid", 1)]
