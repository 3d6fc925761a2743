"""Protocols L, C, G, + and W-max, against direct computation from the definitions."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import coterie
from coterie.client import MemoryStore
from coterie.data import FederatedData
from coterie.federation.loop import rounds
from coterie.messages import ModelSpec, Params, Train
from coterie.models import build, initial
from coterie.run.building import Session, completed, load_data, session
from coterie.run.settings import settings_to_config
from coterie.testing import SMALL
from coterie.training.torch_trainer import TorchTrainer


def images(path: Path) -> str:
    """A data set with a test part of its own, of two easily told classes and eight others."""
    rng = np.random.default_rng(0)
    y, y_test = np.arange(600) % 10, np.arange(203) % 10
    centres = rng.normal(0, 60, (10, 64))
    for name, labels in (("train", y), ("test", y_test)):
        x = centres[labels] + rng.normal(0, 40, (len(labels), 64)) + 128
        globals()[f"x_{name}"] = np.clip(x, 0, 255).astype(np.uint8).reshape(-1, 8, 8)
    np.savez(path, x_train=globals()["x_train"], y_train=y, x_test=globals()["x_test"], y_test=y_test)
    return str(path)


def accuracy(spec: ModelSpec, params: Params, data: FederatedData, positions: np.ndarray) -> float:
    import torch

    module = build(spec)
    module.load_state_dict({name: torch.tensor(value) for name, value in params.items()})
    with torch.no_grad():
        outputs = module(torch.from_numpy(data.normalise(data.test.x[positions])))
    return float((outputs.argmax(1).numpy() == data.test.y[positions]).mean())


@pytest.mark.integration
@pytest.mark.parametrize("own_test_set", [False, True])
@pytest.mark.parametrize("method", ["fedavg", "solo"])
def test_protocols(method: str, own_test_set: bool, tmp_path: Path) -> None:
    settings = {**SMALL, "algorithm": method}
    if own_test_set:
        settings |= {"dataset": images(tmp_path / "images.npz"), "partition": "label-skew:rho=0.3"}
    config = settings_to_config(None, settings)
    data = load_data(config)
    store = MemoryStore()
    with session(completed(config, data), data, store, TorchTrainer()) as run:
        evaluations = [e for _, e in rounds(run.fed, run.algorithm, run.evaluator, every=2) if e is not None]
        last, fed = evaluations[-1], run.fed
        start = initial(fed.spec, fed.seed)
        own = [store.load(i, before=99).get("model", start) for i in range(data.clients)]
        parts = data.test_parts
        by_hand = [accuracy(fed.spec, own[i], data, parts[i]) for i in range(data.clients)]
        assert pytest.approx(np.mean(by_hand)) == last.L
        model = run.algorithm.model_for(0)
        if method == "solo":
            assert (last.C, last.G, last.W, run.evaluator.fine_tune()) == (None, None, None, None)
            return
        assert model is not None
        received = [accuracy(fed.spec, model, data, parts[i]) for i in range(data.clients)]
        sizes = [len(part) for part in parts]
        assert pytest.approx(np.mean(received)) == last.C
        assert pytest.approx(np.average(received, weights=sizes)) == last.W
        assert pytest.approx(accuracy(fed.spec, model, data, np.arange(len(data.test)))) == last.G
        assert len(data.test) == (203 if own_test_set else sum(sizes))
        plus = run.evaluator.fine_tune()
        assert plus is not None
        assert plus > last.C
        assert own == [store.load(i, before=99).get("model", start) for i in range(data.clients)]  # nothing kept


def evaluate_requests(run: Session) -> int:
    """How many clients the last evaluation asked."""
    asked = []
    plain = run.fed.ask
    run.fed.ask = lambda requests: asked.append(len(requests)) or plain(requests)  # type: ignore
    run.evaluator.evaluate()
    run.fed.ask = plain  # type: ignore[method-assign]
    return sum(asked)


def test_only_what_changed_is_asked_for() -> None:
    config = settings_to_config(None, SMALL)
    data = load_data(config)
    with session(completed(config, data), data, MemoryStore(), TorchTrainer()) as run:
        for _ in rounds(run.fed, run.algorithm, run.evaluator, every=1):
            before = run.evaluator.save()
            assert evaluate_requests(run) == (6 if run.fed.round == 0 else 0)
            if run.fed.round:
                assert run.evaluator.save() == before
    with session(completed(settings_to_config(None, {**SMALL, "algorithm": "solo"}), data), data, MemoryStore(),
                 TorchTrainer()) as run:  # fmt: skip
        run.evaluator.evaluate()
        run.fed.start_round(1)
        run.fed.ask({3: run.fed.request(Train(run.fed.plan, start=("own",), send=False))})
        assert evaluate_requests(run) == 1


def test_w_max_is_the_maximum_over_evaluations_and_targets_the_first_reaching_round() -> None:
    result = coterie.run(**SMALL | {"rounds": 10, "eval_every": 1, "lr": 0.5, "target": ["C=0.2", "L=0.999999"]})
    rows = result.history
    assert [row["round"] for row in rows] == list(range(1, 11))
    assert result.accuracy["W_max"] == max(row["W"] for row in rows)
    reached, missed = result.targets
    first = next(row for row in rows if row["C"] >= 0.2)
    assert reached == {
        "protocol": "C", "value": 0.2, "round": first["round"], "bytes": first["up_bytes"] + first["down_bytes"]
    }  # fmt: skip
    assert missed["round"] is None


def test_clients_without_test_samples_are_left_out_and_counted(tmp_path: Path) -> None:
    """Two clients share three samples: with one sample there is nothing to hold out."""
    rng = np.random.default_rng(0)
    np.savez(tmp_path / "few.npz", x_train=rng.random((4, 8), np.float32), y_train=np.array([0, 1, 0, 1]))
    settings = {"clients": 2, "rounds": 2, "epochs": 1, "fraction": 1.0, "model": "mclr"}
    runs = [coterie.run(dataset=str(tmp_path / "few.npz"), seed=seed, **settings) for seed in range(4)]
    result = runs[0]
    untested = [event for event in result.events if event["kind"] == "untested"]
    assert [event["count"] for event in untested] == [sum(a is None for a in result.per_client["L"])]
    assert untested[0]["count"] == 1
    best = [max(run.history, key=lambda row: row["L"])["L"] for run in runs]
    assert [run.accuracy["L_best"] for run in runs] == best  # the other client's, alone in both means
    assert max(best) > 0
