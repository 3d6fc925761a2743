"""Scores of many clients in checkpoints: exact, written once, and read back however many there are."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from coterie.federation.by_client import SMALL
from coterie.federation.checkpoint import WriteOnce, load_checkpoint, save_checkpoint
from coterie.federation.scores import Scores
from coterie.federation.state import _saved_fields


def filled(clients: int, metric: bool = False) -> Scores:
    rng, scores = np.random.default_rng(0), Scores()
    order = rng.permutation(clients).tolist()
    right = rng.random(clients).tolist() if metric else rng.integers(0, 5, clients).tolist()
    scores.own = {client: (right[client], 4) for client in order}
    scores.received, scores.tuned = {**scores.own, order[0]: (0, 0)}, scores.own
    scores.seen = {client: f"model {client % 7} 0.5" for client in order[::2]}
    scores.best = {client: right[client] / 4 for client in order}
    return scores


def everything(scores: Scores) -> dict[str, object]:
    return {field.name: [*getattr(scores, field.name).items()] for field in _saved_fields(scores)}


def through_a_file(state: object, path: Path) -> Scores:
    save_checkpoint(path, {"evaluator": state})
    loaded = Scores()
    loaded.load(load_checkpoint(path)["evaluator"])
    return loaded


@pytest.mark.parametrize("metric", [True, False])
@pytest.mark.parametrize("clients", [SMALL, SMALL + 1])
def test_scores_come_back_as_they_were(tmp_path: Path, clients: int, metric: bool) -> None:
    scores = filled(clients, metric)
    loaded = through_a_file(scores.save(), tmp_path / "checkpoint.safetensors")
    assert everything(loaded) == everything(scores)
    assert all(type(n) is (float if metric else int) for n, samples in loaded.own.values() if samples)
    assert Scores().save().keys() == everything(scores).keys()


def test_many_scores_are_written_once_for_each_evaluation(tmp_path: Path) -> None:
    scores = filled(SMALL + 1)
    part = scores.save()["whole"]
    assert isinstance(part, WriteOnce)
    assert scores.save()["whole"] is part
    loaded = through_a_file(scores.save(), tmp_path / "checkpoint.safetensors")
    assert loaded.save()["whole"].is_written  # nor does a resumed run write them again
    loaded.changing()
    loaded.own[0] = (3, 4)
    assert loaded.save()["whole"].name != part.name


def test_scores_are_read_back_however_many_there_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("coterie.messages.wire.MOST_VALUES", 20_000)  # beside arrays; 2,000,000 without this
    scores = filled(10_000)
    assert through_a_file(scores.save(), tmp_path / "checkpoint.safetensors").received == scores.received
