"""Sub-FedAvg (Un) and (Hy): the mean over owners, whole runs against NumPy, bytes, forgeries, and what may go wrong."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from torch import nn

from coterie.algorithms.sub_fedavg import SubFedAvgHy, SubFedAvgUn, owner_mean, prunable_channels
from coterie.client import MemoryStore
from coterie.errors import CoterieError
from coterie.federation.checkpoint import load_checkpoint, save_checkpoint
from coterie.federation.loop import afterwards, rounds
from coterie.federation.served_model import SharedLayers
from coterie.messages import (
    Channels,
    L1Penalty,
    ModelSpec,
    Params,
    Plan,
    Prune,
    PruneReply,
    Reply,
    Request,
    Schedule,
    Train,
    TrainReply,
    weighted_mean,
    wire,
)
from coterie.models import MODELS, initial
from coterie.results.costs import paper_megabits, sub_fedavg_bytes
from coterie.run.building import Session, completed, load_data, make_spec, make_trainer, session
from coterie.run.progress import Progress
from coterie.run.settings import settings_to_config
from coterie.streams import stream
from coterie.testing import (
    SMALL,
    RecordingEngine,
    outcome,
    small_run,
)
from coterie.training import steps
from coterie.training.torch_trainer import TorchTrainer

EAGER = {"distance": 0.0, "accuracy": 0.0}
"""Prunes wherever there is something to prune."""
UN: dict[str, Any] = {"algorithm": "sub-fedavg-un", "epochs": 2, "algorithm_options": EAGER}
HY: dict[str, Any] = {
    "algorithm": "sub-fedavg-hy",
    "epochs": 2,
    "batch_size": 20,
    "model": "lenet5-bn",
    "model_options": {},
    "algorithm_options": {**EAGER, "channel_distance": 0.0},
}


class Heard(RecordingEngine):
    """What was said about training, by round and client."""

    @property
    def trained(self) -> list[Reply]:
        return [reply for (_, _, kind), reply in self.replies.items() if kind == "train"]

    @property
    def pruned(self) -> dict[tuple[int, int], PruneReply]:
        return self.answers(PruneReply)

    @property
    def asked_to_train(self) -> dict[tuple[int, int], Request]:
        return {
            (reply.round, reply.client): self.requests[reply.round, reply.client, "train"] for reply in self.trained
        }


@contextmanager
def federation(settings: dict[str, Any], trainer: Any = None) -> Iterator[tuple[Any, Session, MemoryStore, Heard]]:
    config = settings_to_config(None, {**SMALL, **settings})
    data = load_data(config)
    config = completed(config, data)
    trainer = trainer or make_trainer(config, make_spec(config, data), Progress())
    store = MemoryStore()
    with session(config, data, store, trainer) as run:
        heard = run.fed.wrap_engine(Heard)
        yield run.algorithm, run, store, heard


def play(run: Session, every: int = 0) -> None:
    for _ in rounds(run.fed, run.algorithm, run.evaluator, every=every):
        pass


# The mean over owners.


def answers(
    seed: int, count: int, kept: float
) -> tuple[dict[str, np.ndarray], list[Params], list[Params], list[PruneReply]]:
    """A server model, clients' models and masks, and how these are sent."""
    rng = np.random.default_rng(seed)
    shapes = {"conv.weight": (4, 3, 2, 2), "conv.bias": (4,), "fc.weight": (5, 7)}

    def model() -> dict[str, np.ndarray]:
        return {name: rng.normal(size=shape).astype(np.float32) for name, shape in shapes.items()} | {
            "count": np.array(int(rng.integers(100)))
        }

    old, models = model(), [model() for _ in range(count)]
    masks = [{name: rng.random(shapes[name]) < kept for name in ("conv.weight", "fc.weight")} for _ in range(count)]
    sent = [PruneReply.of(m, k, m, "pruned", None) for m, k in zip(models, masks, strict=True)]
    return old, models, masks, sent


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize(("count", "kept"), [(1, 0.5), (2, 0.3), (7, 0.2), (4, 0.95)])
def test_each_weight_is_averaged_over_its_owners(seed: int, count: int, kept: float) -> None:
    old, models, masks, sent = answers(seed, count, kept)
    mean, unowned = owner_mean(old, sent), 0
    for name in ("conv.weight", "conv.bias", "fc.weight"):
        for place in np.ndindex(old[name].shape):
            mine = [
                float(m[name][place]) for m, k in zip(models, masks, strict=True) if name not in k or k[name][place]
            ]
            unowned += not mine
            expected = sum(mine) / len(mine) if mine else old[name][place]
            assert mean[name][place] == pytest.approx(expected, rel=1e-6, abs=1e-7)
            if not mine:
                assert mean[name][place] == old[name][place]
    assert kept > 0.9 or unowned > 0
    assert mean["count"] == max(int(m["count"]) for m in models)
    assert all(mean[name].dtype == old[name].dtype for name in old)


def test_whole_masks_make_it_the_plain_mean() -> None:
    old, models, _, _ = answers(0, 5, 1.0)
    sent = [PruneReply.of(m, {}, m, "unchanged", None) for m in models]
    mean, plain = owner_mean(old, sent), weighted_mean(models, [1] * 5)
    for name in old:
        np.testing.assert_allclose(mean[name], plain[name], rtol=1e-6)


def test_what_everybody_has_pruned_keeps_its_value() -> None:
    old, models, _, _ = answers(1, 3, 1.0)
    nobody = {"fc.weight": np.zeros((5, 7), bool)}
    mean = owner_mean(old, [PruneReply.of(m, nobody, m, "pruned", None) for m in models])
    assert mean["fc.weight"].tobytes() == old["fc.weight"].tobytes()
    assert not np.allclose(mean["conv.bias"], old["conv.bias"])


def test_nobody_answers() -> None:
    old, *_ = answers(2, 1, 1.0)
    assert owner_mean(old, []) is old


# Whole runs.


def test_without_a_target_it_is_fedavg_where_clients_have_as_many_samples(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    y = np.arange(227) % 4  # of which the server takes 11
    x = (rng.normal(0, 1, (227, 12)) + np.eye(4, 12)[y] * 3).astype(np.float32)
    np.savez(tmp_path / "equal.npz", x_train=x, y_train=y, x_test=x[:40], y_test=y[:40])
    same = {"dataset": str(tmp_path / "equal.npz"), "momentum": 0.5, "epochs": 3}
    options = {"target": 0.0, "validation": "test"}

    def curves(method: str, **settings: Any) -> list[list[float]]:
        return [[row[key] for key in ("L", "C", "G", "loss")] for row in small_run(method, **same, **settings).history]

    np.testing.assert_allclose(curves("sub-fedavg-un", algorithm_options=options), curves("fedavg"), rtol=1e-5)


def test_a_mean_is_not_weighted_by_samples() -> None:
    unequal = {"dataset": "digits", "partition": "dirichlet:alpha=0.5", "rounds": 1, "fraction": 1.0}
    with federation({**UN, **unequal, "algorithm_options": {"target": 0.0}}) as (method, run, _, heard):
        play(run)
        samples = [reply.answer(TrainReply).samples for reply in heard.trained]
        sent = [answer.params for answer in heard.pruned.values()]
        assert len(set(samples)) > 2
        for name, value in method.model.items():
            np.testing.assert_allclose(value, np.mean([s[name] for s in sent], axis=0), atol=1e-7)
            weighted = weighted_mean(sent, samples)[name]
            assert np.abs(value - weighted).max() > 1e-4


def gradient(w: np.ndarray, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    z = x @ w
    p = np.exp(z - z.max(1, keepdims=True))
    p /= p.sum(1, keepdims=True)
    p[np.arange(len(y)), y] -= 1
    return x.T @ p / len(y)


@pytest.mark.integration
def test_three_rounds_against_numpy() -> None:
    """Softmax regression, written down once more: hold-out, masked SGD, percentile, distance, gate, owners."""
    settings = {**SMALL, **UN, "dataset": "digits", "partition": "label-skew:rho=0.4", "model": "mclr"}
    settings |= {
        "model_options": {},
        "rounds": 4,
        "epochs": 3,
        "momentum": 0.5,
        "algorithm_options": {"accuracy": 0.95},
    }
    with federation(settings, TorchTrainer()) as (method, run, store, heard):
        fed, data = run.fed, load_data(settings_to_config(None, settings))

        def samples(index: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            x = data.normalise(data.train.x[index]).reshape(len(index), -1).astype(np.float64)
            return np.hstack([x, np.ones((len(x), 1))]), data.train.y[index]

        def proposal(w: np.ndarray, mask: np.ndarray, rate: float) -> np.ndarray:
            kept = mask & (np.abs(w) >= np.percentile(np.abs(w[mask]), 100 * rate))
            for c in range(w.shape[1]):
                if not kept[:, c].any():
                    kept[np.argmax(np.abs(w[:, c]) * mask[:, c]), c] = True
            return kept

        start = initial(fed.spec, fed.seed)
        server = np.vstack([start["fc.weight"].T, start["fc.bias"]]).astype(np.float64)
        masks = {i: np.ones((64, 10), bool) for i in range(6)}
        verdicts = []
        for t in range(1, fed.settings.rounds + 1):
            models = []
            for i in fed.cohort(t):
                part = data.train_parts[i]
                shuffled = stream(fed.seed, "holdout", i).permutation(part)
                held, used = shuffled[: len(part) // 10], np.sort(shuffled[len(part) // 10 :])
                x, y = samples(used)
                whole = np.vstack([masks[i], np.ones((1, 10), bool)])
                w, v, ends = server * whole, np.zeros_like(server), []
                batches = [b for (b,) in steps(len(y), fed.plan, stream(fed.seed, "train", i, t))]
                for step, b in enumerate(batches, start=1):
                    v = 0.5 * v + gradient(w, x[b], y[b])
                    w = (w - 0.05 * v) * whole
                    if step in (len(batches) // 3, len(batches)):
                        ends.append(w[:-1].copy())
                early, late = (proposal(end, masks[i], 0.1) for end in ends)
                pruned = 1 - masks[i].mean()
                verdict = "target" if pruned >= 0.5 else "unchanged"
                if pruned < 0.5 and np.mean(early != late) > 1e-4:
                    candidate = w * np.vstack([late, np.ones((1, 10), bool)])
                    x, y = samples(held)
                    verdict = "reverted"
                    if np.mean((x @ candidate).argmax(1) == y) > 0.95:
                        w, masks[i], verdict = candidate, late, "pruned"
                verdicts.append(verdict)
                models.append((w, np.vstack([masks[i], np.ones((1, 10), bool)])))
            owners = sum(m.astype(int) for _, m in models)
            server = np.where(owners > 0, sum(w * m for w, m in models) / np.maximum(owners, 1), server)

        play(run)
        ours = np.vstack([method.model["fc.weight"].T, method.model["fc.bias"]])
        np.testing.assert_allclose(ours, server, atol=2e-5)
        for i, mask in masks.items():
            kept = store.load(i, before=99).get("mask", {}).get("fc.weight", np.ones((10, 64), bool))
            np.testing.assert_array_equal(kept.T, mask)
        assert [answer.weights for _, answer in sorted(heard.pruned.items(), key=lambda item: item[0])] == verdicts
        assert {"pruned", "reverted"} <= set(verdicts)


def test_masks_live_with_clients_and_only_shrink() -> None:
    with federation({**UN, "rounds": 10, "fraction": 1.0}) as (method, run, store, _):
        fed, seen = run.fed, {}
        for t, _ in rounds(fed, run.algorithm, run.evaluator, every=0):
            for client in fed.clients if t else ():
                state = store.load(client, before=t + 1)
                mask = state["mask"]
                assert set(mask) == {"fc1.weight", "fc2.weight"}
                for name, kept in mask.items():
                    assert (state["model"][name][~kept] == 0).all()
                    assert kept.any(axis=1).all()
                    assert (kept <= seen.get((client, name), True)).all()
                    seen[client, name] = kept
        for client in fed.clients:
            share = 1 - sum(seen[client, n].sum() for n in mask) / sum(seen[client, n].size for n in mask)
            assert share == pytest.approx(0.5, abs=0.003)
            assert method.details()["pruned_by_client"][str(client)] == pytest.approx(share)
        model = sum(value.nbytes for value in method.model.values())
        assert model < len(wire.pack(method.save())) < 1.5 * model  # no masks


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


@pytest.mark.parametrize("settings", [{"epochs": 1}, {"epochs": 2, "algorithm_options": {"target": 0.0}}])
def test_where_nothing_can_be_pruned_no_sample_is_kept_out_of_training(settings: dict[str, Any]) -> None:
    """Then it is FedAvg of clients that count alike."""
    even = {"partition": "iid", "dataset": "digits", "clients": 4, "fraction": 1.0, "rounds": 2, **settings}
    ours, fedavg = small_run("sub-fedavg-un", **even), small_run("fedavg", **{**even, "algorithm_options": {}})
    assert ours.accuracy["C"] == pytest.approx(fedavg.accuracy["C"], abs=0.02)
    assert [round(row["loss"], 3) for row in ours.history[:1]] == [round(row["loss"], 3) for row in fedavg.history[:1]]


@pytest.mark.integration
@pytest.mark.parametrize("options", [{"target": 0.0}, {"structured_only": True}])
def test_channels_are_gated_on_samples_that_were_not_trained_on(options: dict[str, Any]) -> None:
    """Also where no weight of a linear layer goes by its size: those of channels that stay are all there."""
    chosen = {**HY["algorithm_options"], **options}
    settings = {**HY, "clients": 3, "fraction": 1.0, "rounds": 2, "algorithm_options": chosen}
    with federation(settings) as (method, run, _, heard):
        play(run)
        parts = load_data(run.config).train_parts
        for request in heard.asked_to_train.values():
            train, prune = request.verbs
            assert isinstance(train, Train)
            assert isinstance(prune, Prune)
            assert (prune.on, train.plan.holdout) == ("holdout", prune.share)
            assert prune.weights == (() if "structured_only" in options else ("fc1.weight", "fc2.weight", "fc3.weight"))
        for reply in heard.trained:
            n = len(parts[reply.client])
            assert reply.answer(TrainReply).samples == n - n // 10 < n
        assert any(answer.channels == "pruned" for answer in heard.pruned.values())
        for answer in heard.pruned.values():
            alive = answer.mask("bn2.weight", (16,))
            columns = np.repeat(alive, method.model["fc1.weight"].shape[1] // 16)
            np.testing.assert_array_equal(
                answer.mask("fc1.weight", method.model["fc1.weight"].shape),
                np.broadcast_to(columns, (120, len(columns))),
            )
            assert not {"fc2.weight", "fc3.weight"} & set(answer.bitmaps)
        assert any("weights" in verdict for verdict in method.verdicts) == ("target" in options)
        assert method.details()["multiply_adds"]["reduction"] > 1.2


@pytest.mark.integration
def test_an_l1_penalty_draws_scales_to_zero() -> None:
    few = {**HY, "clients": 2, "fraction": 1.0, "rounds": 1, "algorithm_options": {"accuracy": 1.0}}

    def scales(strength: float) -> list[float]:
        options = {**few["algorithm_options"], "l1": strength}
        with federation({**few, "algorithm_options": options}) as (method, run, _, heard):
            play(run)
            train = heard.asked_to_train[1, 0].verbs[0]
            assert isinstance(train, Train)
            expected = L1Penalty(strength, ("bn1.weight", "bn2.weight")) if strength else None
            assert train.plan.l1 == expected
            return [float(np.abs(method.model[f"bn{k}.weight"]).mean()) for k in (1, 2)]

    plain, weak, strong = scales(0.0), scales(0.02), scales(0.05)
    assert plain[0] > weak[0] > strong[0]
    assert plain[1] > weak[1] > strong[1]


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


def test_what_is_observed_tells_of_those_who_trained_since_and_changes_nothing() -> None:
    with federation({**UN, "rounds": 3}) as (method, run, _, heard):
        play(run, every=1)
        scores = run.evaluator.own
        for since in (0, 1, 2, 3):
            recent = {str(client) for t, client in heard.pruned if t > since}
            for _ in range(2):
                assert set(method.observed(scores, since)["pruning"]) == recent


def test_one_epoch_is_noted_and_runs_without_pruning() -> None:
    with federation({**UN, "epochs": 1}) as (method, run, _, heard):
        play(run)
        details = method.details()
        assert details["pruned"] == 0.0
        assert len(details["notes"]) == 1
        assert "one local epoch" in details["notes"][0]
        assert set(details["verdicts"]) == {"weights unchanged"}
        assert all(answer.bitmaps == {} for answer in heard.pruned.values())
        assert method.transfers == 2.0
    with federation(UN) as (method, run, _, _):
        play(run)
        assert method.details()["notes"] == []
        assert method.details()["pruned"] > 0


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


# Trouble.


def test_late_clients_keep_their_masks_and_go_on_from_them() -> None:
    with federation({**UN, "rounds": 6, "straggle": 0.5, "fraction": 1.0}) as (method, run, store, heard):
        play(run)
        told = {client for _, client in heard.pruned}
        assert len(heard.trained) < 36
        assert set(method.sizes) == told
        for client in run.fed.clients:
            assert not store.load(client, before=99)["mask"]["fc1.weight"].all()
        for (t, _), answer in heard.pruned.items():
            mask = answer.mask("fc1.weight", (16, 64))
            assert mask.sum() == pytest.approx(1024 * 0.9**t, abs=t + 1) or mask.sum() == pytest.approx(512, abs=8)


def test_if_nobody_answers_nothing_changes() -> None:
    with federation({**UN, "drop": 1.0}) as (method, run, store, _):
        play(run)
        assert all(np.array_equal(method.model[n], v) for n, v in run.fed.initial().items())
        details = method.details()
        assert (details["pruned"], details["pruned_by_client"], details["verdicts"]) == (0.0, {}, {})
        assert details["parameters"]["left"] == details["parameters"]["whole"]
        assert store.load(0, before=99) == {}


@pytest.mark.parametrize("join_at", [None, 3])
def test_newcomers_are_dense(join_at: int | None) -> None:
    late = {**UN, "rounds": 5, "fraction": 1.0, "newcomers": 0.34, "join_at": join_at, "newcomer_epochs": 1}
    with federation(late) as (method, run, store, heard):
        came = {}
        for t, _ in rounds(run.fed, method, run.evaluator, every=0):
            came |= {client: store.load(client, before=t + 1) for client in run.fed.joined if client not in came}
        afterwards(run.fed, method, run.evaluator)
        came |= {client: store.load(client, before=7) for client in run.fed.joined if client not in came}
        assert len(came) == 2
        for client, state in came.items():
            assert set(state) == {"model"}
            assert all((state["model"][name] != 0).all() for name in ("fc1.weight", "fc2.weight"))
            if join_at:  # from then on it prunes as others did before
                assert len(heard.pruned[4, client].params["fc1.weight"]) == pytest.approx(0.9 * 1024, abs=1)
                assert len(heard.pruned[5, client].params["fc1.weight"]) == pytest.approx(0.81 * 1024, abs=2)
        assert method.model_for(5) is method.model


@pytest.mark.integration
def test_details_and_state_survive_a_checkpoint(tmp_path: Path) -> None:
    for settings in (UN, HY):
        with federation({**settings, "rounds": 2}) as (method, run, _, _):
            play(run)
            save_checkpoint(tmp_path / "state.safetensors", {"algorithm": method.save()})
            other = type(method)(**settings["algorithm_options"])
            other.load(load_checkpoint(tmp_path / "state.safetensors")["algorithm"])
            assert other.details() == json.loads(json.dumps(method.details()))
            assert other.prune == method.prune
            assert other.transfers == method.transfers
            assert all(np.array_equal(other.model[name], value) for name, value in method.model.items())


# Hy.


def test_the_channels_of_lenet() -> None:
    """Floors of 3 and 8 channels; the first linear layer reads those of the second convolution."""
    verb = SubFedAvgHy().asked(ModelSpec("lenet5-bn", (3, 32, 32), 10))
    assert verb.channels == (Channels("conv1", "bn1", "conv2", 3), Channels("conv2", "bn2", "fc1", 8))
    assert verb.weights == ("fc1.weight", "fc2.weight", "fc3.weight")
    assert (verb.rate, verb.target, verb.distance, verb.channel_rate) == (0.1, 0.5, 5e-4, 0.45)


@pytest.mark.parametrize(("name", "shape"), [("lenet5", (1, 28, 28)), ("resnet9", (3, 32, 32)), ("mlp", (60,))])
def test_networks_without_batchnorm_are_refused(name: str, shape: tuple[int, ...]) -> None:
    with pytest.raises(
        CoterieError, match=f"'{name}' has no convolution with a BatchNorm2d.*use the model 'lenet5-bn'"
    ):
        SubFedAvgHy().asked(ModelSpec(name, shape, 10))


@contextmanager
def registered(make: Callable[[], nn.Module]) -> Iterator[ModelSpec]:
    MODELS.register("odd")(lambda shape, classes: make())  # type: ignore[arg-type,return-value]
    try:
        yield ModelSpec("odd", (3, 32, 32), 10)
    finally:
        del MODELS._items["odd"]


def chain(*layers: nn.Module) -> list[Channels]:
    with registered(lambda: nn.Sequential(*layers)) as spec:
        return list(prunable_channels(spec, 0.5))


def test_which_channels_can_be_removed() -> None:
    head = nn.Flatten(), nn.Linear(7 * 4, 5)
    assert chain(nn.Conv2d(3, 7, 3), nn.BatchNorm2d(7), nn.ReLU(), nn.Dropout(), *head) == [Channels("0", "1", "5", 4)]
    assert chain(nn.Conv2d(3, 7, 3), nn.BatchNorm2d(7), nn.Conv2d(7, 2, 1)) == [Channels("0", "1", "2", 4)]
    inner = nn.Sequential(nn.Conv2d(3, 7, 3), nn.BatchNorm2d(7))
    assert chain(nn.Sequential(inner, nn.ReLU()), *head) == [Channels("0.0.0", "0.0.1", "2", 4)]
    for layers in (
        (nn.Conv2d(3, 7, 3), nn.ReLU(), *head),
        (nn.Conv2d(3, 7, 3), nn.GroupNorm(1, 7), *head),
        (nn.Conv2d(3, 7, 3), nn.BatchNorm2d(7, affine=False), *head),
        (nn.Conv2d(3, 7, 3), nn.BatchNorm2d(7), nn.LayerNorm(4), *head),  # mixes what it reads
        (nn.Conv2d(3, 6, 3), nn.BatchNorm2d(6), nn.Conv2d(6, 6, 3, groups=6), *head),
        (nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.PixelShuffle(2), nn.Conv2d(2, 6, 3), *head),
        (nn.Conv2d(3, 7, 3), nn.BatchNorm2d(7), nn.Linear(28, 5)),  # along the last dimension
        (nn.Conv2d(3, 7, 3), nn.BatchNorm2d(7), nn.ReLU()),
        (nn.Conv2d(3, 7, 3), nn.BatchNorm2d(7)),
        (),
    ):
        assert chain(*layers) == []


def test_a_network_that_is_no_sequence_is_refused() -> None:
    """In which order its layers run is not known."""

    class Own(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv, self.norm, self.fc = nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.Linear(4, 2)

    with registered(Own) as spec, pytest.raises(CoterieError, match=r"in a torch\.nn\.Sequential"):
        SubFedAvgHy().asked(spec)


@pytest.fixture(scope="module")
def hybrid() -> Iterator[tuple[SubFedAvgHy, Session, MemoryStore, Heard, list[Params]]]:
    with federation({**HY, "rounds": 4, "fraction": 1.0, "clients": 4}) as (method, run, store, heard):
        models = []
        for _ in rounds(run.fed, method, run.evaluator, every=2):
            models.append(method.model)
        yield method, run, store, heard, models


Run = tuple[SubFedAvgHy, Session, MemoryStore, Heard, list[Params]]


@pytest.mark.integration
def test_scales_start_at_a_half(hybrid: Run) -> None:
    _, run, _, heard, _ = hybrid
    sent = heard.asked_to_train[1, 0].models["model"]
    start = run.fed.initial()
    for name, value in sent.items():
        expected = np.full_like(value, 0.5) if name in ("bn1.weight", "bn2.weight") else start[name]
        np.testing.assert_array_equal(value, expected)


@pytest.mark.integration
def test_channels_are_owned_whole(hybrid: Run) -> None:
    """Convolutions by owners of both channels; biases, scales, shifts, statistics by owners of the channel."""
    _, run, _, heard, models = hybrid
    assert any(answer.channels == "pruned" for answer in heard.pruned.values())
    for t in range(1, 5):
        answers = [heard.pruned[t, client] for client in run.fed.clients]
        old, new = models[t - 1], models[t]
        alive = [{k: a.mask(f"bn{k}.weight", old[f"bn{k}.weight"].shape) for k in (1, 2)} for a in answers]
        dense = []
        for answer in answers:
            whole = {name: np.zeros_like(value) for name, value in old.items()}
            for name, value in answer.params.items():
                if value.ndim:
                    whole[name][answer.mask(name, old[name].shape)] = value.ravel()
            dense.append(whole)
        for k in (1, 2):
            for name in (f"conv{k}.bias", *(f"bn{k}.{p}" for p in ("weight", "bias", "running_mean", "running_var"))):
                for c in range(len(old[name])):
                    mine = [d[name][c] for d, a in zip(dense, alive, strict=True) if a[k][c]]
                    assert new[name][c] == (
                        pytest.approx(np.mean(mine, dtype=float), rel=1e-5) if mine else old[name][c]
                    )
        for o in range(16):
            for i in range(6):
                mine = [d["conv2.weight"][o, i] for d, a in zip(dense, alive, strict=True) if a[2][o] and a[1][i]]
                expected = np.mean(mine, axis=0, dtype=float) if mine else old["conv2.weight"][o, i]
                np.testing.assert_allclose(new["conv2.weight"][o, i], expected, rtol=1e-4, atol=1e-7)
        for name in ("fc1.bias", "fc2.bias", "fc3.bias"):
            np.testing.assert_allclose(new[name], np.mean([d[name] for d in dense], axis=0), rtol=1e-4, atol=1e-7)
        assert new["bn1.num_batches_tracked"] == max(a.params["bn1.num_batches_tracked"] for a in answers)


@pytest.mark.integration
def test_dead_channels_say_nothing(hybrid: Run) -> None:
    """Everything of them is 0 in the client's own model, through training with BatchNorm; the floors hold."""
    _, run, store, _, _ = hybrid
    removed = 0
    for client in run.fed.clients:
        state = store.load(client, before=99)
        model, mask = state["model"], state["mask"]
        for k, floor in ((1, 3), (2, 8)):
            dead = ~mask[f"bn{k}.weight"]
            removed += dead.sum()
            assert floor <= (~dead).sum()
            for name in (f"conv{k}.weight", f"conv{k}.bias", f"bn{k}.weight", f"bn{k}.bias", f"bn{k}.running_mean"):
                assert not model[name][dead].any()
            assert (model[f"bn{k}.running_var"][dead] == 1).all()
        assert not model["conv2.weight"][:, ~mask["bn1.weight"]].any()
        h_w = model["fc1.weight"].shape[1] // 16
        assert not model["fc1.weight"][:, np.repeat(~mask["bn2.weight"], h_w)].any()
    assert removed > 0


@pytest.mark.integration
def test_multiply_adds_are_reported(hybrid: Run) -> None:
    method, run, store, _, _ = hybrid
    details = method.details()
    counts = []
    for client in run.fed.clients:
        mask = store.load(client, before=99)["mask"]
        a, b = int(mask["bn1.weight"].sum()), int(mask["bn2.weight"].sum())
        counts.append(25 * (a * 12**2 + a * b * 2**2))  # one channel of 16×16 pixels
    whole = 25 * (6 * 12**2 + 96 * 2**2)
    assert details["multiply_adds"] == {
        "whole": whole,
        "left": np.mean(counts),
        "reduction": pytest.approx(whole / np.mean(counts)),
    }
    assert details["multiply_adds"]["reduction"] > 1.5
    assert sum(n for name, n in details["verdicts"].items() if name.startswith("channels")) == 16
    json.dumps(details)


@pytest.mark.integration
def test_statistics_may_stay_with_clients() -> None:
    local = {
        **HY,
        "algorithm_options": {**HY["algorithm_options"], "statistics": "local"},
        "rounds": 3,
        "fraction": 1.0,
    }
    with federation({**local, "clients": 3}) as (method, run, store, heard):
        play(run, every=1)
        statistics = {f"bn{k}.{p}" for k in (1, 2) for p in ("running_mean", "running_var", "num_batches_tracked")}
        assert set(run.fed.initial()) - set(method.model) == statistics
        for key, request in heard.asked_to_train.items():
            assert request.verbs[0].start == ("own", "model")  # type: ignore[union-attr]
            assert not statistics & (set(request.models["model"]) | set(heard.pruned[key].params))
        assert isinstance(method.model_for(0), SharedLayers)
        own = [store.load(client, before=99)["model"]["bn1.running_mean"] for client in range(3)]
        assert not np.allclose(own[0], own[1])
        for client in range(3):  # counted through all rounds
            steps = sum(r.answer(TrainReply).steps for r in heard.trained if r.client == client)
            assert store.load(client, before=99)["model"]["bn1.num_batches_tracked"] == steps > 0
        assert run.evaluator.received  # C is measured with one's own statistics
        assert run.fed.events.save() == []


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


# Learning.


@pytest.mark.integration
def test_it_learns_while_it_prunes() -> None:
    """On label-skewed digits: half of the weights gone, and personal models far better than the common one."""
    skewed = {"dataset": "digits", "partition": "label-skew:rho=0.3", "clients": 10, "rounds": 20, "epochs": 5}
    with federation({**UN, **skewed, "algorithm_options": {}, "momentum": 0.5}) as (method, run, _, _):
        play(run)
        assert method.pruned == pytest.approx(0.5, abs=0.02)
        evaluation = run.evaluator.evaluate()
        assert evaluation.L is not None
        assert evaluation.L > 0.93
        assert evaluation.C is not None
        assert evaluation.L > evaluation.C + 0.02


def test_options_are_checked() -> None:
    for wrong in ({"rate": 0.0}, {"rate": 1.0}, {"target": 1.0}, {"target": -0.1}, {"validation": "train"}):
        with pytest.raises(CoterieError, match=next(iter(wrong))):
            settings_to_config(None, {**SMALL, **UN, "algorithm_options": wrong})
    for wrong in ({"channel_rate": 1.5}, {"channel_floor": 0.0}, {"statistics": "none"}):
        with pytest.raises(CoterieError, match=next(iter(wrong))):
            settings_to_config(None, {**SMALL, **HY, "algorithm_options": wrong})


@pytest.mark.integration
def test_a_repeated_run_gives_the_same() -> None:
    settings = {k: v for k, v in HY.items() if k != "algorithm"}
    assert outcome(small_run("sub-fedavg-hy", **settings)) == outcome(small_run("sub-fedavg-hy", **settings))
