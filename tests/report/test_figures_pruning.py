"""Accuracy against pruning: the rows of a run tell it, and the picture shows it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import coterie
from coterie.report.figures import pruning_curves, pruning_plot


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> coterie.Result:
    return coterie.run(
        algorithm="sub-fedavg-un:distance=0,accuracy=0,target=0.3",
        dataset="digits-rotated",
        model="mlp",
        clients=8,
        fraction=0.5,
        rounds=6,
        epochs=2,
        eval_every=2,
        out=str(tmp_path_factory.mktemp("pruned") / "run"),
    )


def test_rows_tell_of_those_who_trained_since_the_last(result: coterie.Result) -> None:
    for row in result.history:
        assert 1 <= len(row["pruning"]) <= 8
        assert all(0 < pruned <= 0.301 and 0 <= accuracy <= 1 for pruned, accuracy in row["pruning"].values())
    curves = pruning_curves(result.history)
    assert result.details is not None
    assert {str(client): curve[-1][0] for client, curve in curves.items()} == result.details["pruned_by_client"]
    for client, curve in curves.items():
        assert np.all(np.diff([pruned for pruned, _ in curve]) >= 0)
        assert curve[-1][1] == result.per_client["L"][client]
    assert result.history[-1]["pruned"] == result.details["pruned"]


def test_the_picture_shows_clients_and_the_mean(
    result: coterie.Result, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from matplotlib.figure import Figure

    axes: list[Any] = []
    monkeypatch.setattr(Figure, "savefig", lambda figure, path, **_: axes.extend(figure.axes))
    pruning_plot(result.history, "some", tmp_path / "x.png", clients=[1, 2])
    lines = {line.get_label(): line for line in axes[0].lines}
    curve = pruning_curves(result.history)[1]
    assert np.allclose(lines["client 1"].get_xydata(), 100 * np.asarray(curve))
    last = {client: curve[-1] for client, curve in pruning_curves(result.history).items()}
    assert np.allclose(lines["mean"].get_xydata()[-1], 100 * np.mean([*last.values()], axis=0))
    assert len(lines["mean"].get_xydata()) == len(result.history)
    assert "client 2" in lines
    assert "client 3" not in lines


def test_of_another_method_the_picture_is_empty(tmp_path: Path) -> None:
    pruning_plot([{"round": 0, "L": 0.5}], "none", tmp_path / "none.png")
    assert (tmp_path / "none.png").read_bytes().startswith(b"\x89PNG")
