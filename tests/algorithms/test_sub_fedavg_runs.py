"""Whole runs of Sub-FedAvg: against FedAvg and NumPy, with clients that are late or new, and how well it learns."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pruned_runs import HY, UN, federation, play
from softmax_regression import gradient

from coterie.errors import CoterieError
from coterie.federation.checkpoint import load_checkpoint, save_checkpoint
from coterie.federation.loop import afterwards, rounds
from coterie.messages import TrainReply, weighted_mean, wire
from coterie.models import initial
from coterie.run.building import load_data
from coterie.run.settings import settings_to_config
from coterie.streams import stream
from coterie.testing import SMALL, outcome, small_run
from coterie.training import steps
from coterie.training.torch_trainer import TorchTrainer


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


@pytest.mark.parametrize("settings", [{"epochs": 1}, {"epochs": 2, "algorithm_options": {"target": 0.0}}])
def test_where_nothing_can_be_pruned_no_sample_is_kept_out_of_training(settings: dict[str, Any]) -> None:
    """Then it is FedAvg of clients that count alike."""
    even = {"partition": "iid", "dataset": "digits", "clients": 4, "fraction": 1.0, "rounds": 2, **settings}
    ours, fedavg = small_run("sub-fedavg-un", **even), small_run("fedavg", **{**even, "algorithm_options": {}})
    assert ours.accuracy["C"] == pytest.approx(fedavg.accuracy["C"], abs=0.02)
    assert [round(row["loss"], 3) for row in ours.history[:1]] == [round(row["loss"], 3) for row in fedavg.history[:1]]


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
