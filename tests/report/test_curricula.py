"""Pictures of curricula: what is drawn is what was given, and each is a picture that can be opened."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from coterie.report.curricula import consistency_plot, order_plot, pacing_plot
from coterie.studies.curricula import pacing_curves


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The axes of the pictures that are saved."""
    from matplotlib.figure import Figure

    axes: list[Any] = []
    save = Figure.savefig

    def noting(figure: Any, *given: Any, **more: Any) -> None:
        axes.extend(figure.axes)
        save(figure, *given, **more)

    monkeypatch.setattr(Figure, "savefig", noting)
    return axes


def is_png(path: Path) -> bool:
    return path.read_bytes().startswith(b"\x89PNG") and path.stat().st_size > 5000


def legend(axes: Any) -> list[str]:
    return [text.get_text() for text in axes.get_legend().get_texts()]


def test_pacing_curves(drawn: list[Any], tmp_path: Path) -> None:
    curves = pacing_curves(a=0.5, b=0.1, steps=100)
    pacing_plot(curves, "Pacing", tmp_path / "pacing.png")
    assert is_png(tmp_path / "pacing.png")
    (axes,) = drawn
    assert legend(axes) == ["exponential", "step", "root", "linear", "quadratic"]
    for line in axes.get_lines():
        x, y = line.get_xdata(), line.get_ydata()
        assert y[0] == pytest.approx(10)
        assert (np.diff(y) >= 0).all()
        assert (y[x >= 0.5] == 100).all()
        assert y[x < 0.5].max() < 100
    linear = axes.get_lines()[3]
    np.testing.assert_allclose(linear.get_ydata()[:50], 10 + 90 * np.arange(50) / 50, atol=1e-3)


def test_accuracy_by_order_and_pacing(drawn: list[Any], tmp_path: Path) -> None:
    accuracies = {
        "curriculum": {"linear": [0.4, 0.5, 0.6], "step": [0.3]},
        "anti": {"step": [0.2, 0.2], "root": [0.1, 0.3]},
    }
    order_plot(accuracies, [0.35, 0.45], "Orders", tmp_path / "orders.png")
    assert is_png(tmp_path / "orders.png")
    (axes,) = drawn
    assert sorted(legend(axes)) == ["anti", "curriculum", "vanilla"]
    assert [tick.get_text() for tick in axes.get_xticklabels()] == ["linear", "step", "root"]
    points = {(round(float(bar[0].get_xdata()[0])), round(float(bar[0].get_ydata()[0]), 6)) for bar in axes.containers}
    assert points == {(0, 50.0), (1, 30.0), (1, 20.0), (2, 20.0)}
    dashed = next(line for line in axes.get_lines() if line.get_linestyle() == "--")
    assert list(dashed.get_ydata()) == pytest.approx([40, 40])


def test_results_without_vanilla_and_without_anything(drawn: list[Any], tmp_path: Path) -> None:
    order_plot({"curriculum": {"linear": [0.5]}}, [], "One", tmp_path / "one.png")
    assert legend(drawn[-1]) == ["curriculum"]
    order_plot({}, [], "None", tmp_path / "none.png")
    assert drawn[-1].get_legend() is None


def test_consistency_by_client(drawn: list[Any], tmp_path: Path) -> None:
    consistency_plot({"f_ord = 0": [0.6, 0.4], "f_ord = 1": [0.3, 0.1, 0.2]}, "Consistency", tmp_path / "c.png")
    assert is_png(tmp_path / "c.png")
    (axes,) = drawn
    assert legend(axes) == ["f_ord = 0 (mean 0.50)", "f_ord = 1 (mean 0.20)"]
    curves = [line for line in axes.get_lines() if line.get_linestyle() == "-"]
    assert [list(line.get_ydata()) for line in curves] == [[0.4, 0.6], [0.1, 0.2, 0.3]]
