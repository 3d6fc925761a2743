"""Results as a program and a notebook see them."""

from __future__ import annotations

import copy
import pickle
import sys
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
import torch

import coterie
from coterie.run import trained_models
from coterie.testing import small_run


@pytest.fixture(scope="module")
def result() -> coterie.Result:
    """Of a run without a folder."""
    return small_run("pacfl", groups=2, clients=8)


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> coterie.Result:
    """The same with a folder."""
    return small_run("pacfl", groups=2, clients=8, out=tmp_path_factory.mktemp("runs") / "run")


class Words(HTMLParser):
    """The text of a page, and its tags."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.text, self.tags = "", set[str]()
        self.feed(page)

    def handle_data(self, data: str) -> None:
        self.text += data + " "

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.tags.add(tag)


def test_its_repr_is_one_line(result: coterie.Result) -> None:
    assert repr(result).startswith("Result(pacfl on digits-rotated, 8 clients, 4 rounds, seed 0: L ")
    assert "2 groups" in repr(result)
    assert len(repr(result)) < 160


def test_its_html_has_the_protocols_and_groups_and_nothing_else_runs(result: coterie.Result) -> None:
    page = Words(replace(result, data="<script>x</script>")._repr_html_())
    assert page.tags == {"div", "b", "table", "tr", "th", "td"}
    assert "<script>x</script>" in page.text  # as text
    assert f"{100 * result.accuracy['C']:.2f}" in page.text  # type: ignore[operator]
    assert "the model that each client would receive now" in page.text
    for group in (0, 1):
        members = " ".join(str(client) for client, label in enumerate(result.groups or []) if label == group)
        assert members in page.text


def test_plots_are_of_what_was_measured(result: coterie.Result) -> None:
    pyplot = pytest.importorskip("matplotlib.pyplot")
    axes = result.plot()
    lines = {line.get_label(): line.get_ydata() for line in axes.lines}
    measured = [100 * row["C"] for row in result.history]
    assert np.allclose(lines["PACFL (C)"], measured)
    _, own = pyplot.subplots()
    assert result.plot("clients", ax=own) is own
    heights = sorted(round(bar.get_height(), 6) for bar in own.patches if bar.get_height() > 0)
    assert heights == sorted(round(100 * value, 6) for value in result.per_client["C"] if value)
    with pytest.raises(coterie.CoterieError, match="there is no 'group': say 'rounds' or 'clients'"):
        result.plot("group")  # type: ignore[arg-type]
    pyplot.close("all")


def test_frames_hold_rounds_and_clients(result: coterie.Result) -> None:
    pytest.importorskip("pandas")
    rounds = result.to_frame()
    assert rounds.index.tolist() == [row["round"] for row in result.history]
    assert rounds["L"].tolist() == [row["L"] for row in result.history]
    clients = result.to_frame("clients")
    assert clients["group"].tolist() == result.groups
    assert np.isclose(clients["C"].mean(), result.accuracy["C"])


def test_without_pandas_it_says_what_to_install(result: coterie.Result, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(coterie.CoterieError, match=r"pip install 'coterie\[notebook\]'"):
        result.to_frame()


def raw(samples: int) -> np.ndarray:
    """Inputs as the data have them."""
    return np.random.default_rng(0).integers(0, 17, (samples, 8, 8)).astype(np.uint8)


@pytest.mark.parametrize("whose", [{"group": 0}, {"group": 1}, {"client": 2}, {"client": 5}])
def test_models_are_modules_and_the_same_with_and_without_a_folder(
    result: coterie.Result, written: coterie.Result, whose: dict[str, int]
) -> None:
    module, x = result.model(**whose), raw(40)
    assert not module.training
    with torch.no_grad():
        outputs = module(torch.from_numpy(x))
        assert torch.equal(outputs, written.model(**whose)(torch.from_numpy(x)))
        assert torch.equal(outputs, module(torch.from_numpy(x[:, None])))
    labels = outputs.argmax(1).numpy()
    assert (labels == coterie.predict(result, x, **whose)).all()
    assert (labels == coterie.predict(written.folder, x, **whose)).all()  # type: ignore[arg-type]
    with pytest.raises(coterie.CoterieError, match=r"the network takes \(n, 1, 8, 8\)"):
        module(torch.zeros(3, 64))


def test_a_clients_model_has_its_label_offset() -> None:
    """Logits differ from the group's by the client's offset, where the client has not trained itself."""
    skewed = {"dataset": "digits", "partition": "label-skew:rho=0.3", "algorithm_options": {"labels": "served"}}
    result = small_run("fedavg", **skewed, rounds=1, fraction=0.2)
    kept = result.kept
    assert kept is not None
    untrained = next(c for c in range(6) if kept.own_model(c) is None)
    x = torch.from_numpy(raw(5))
    with torch.no_grad():
        more = result.model(client=untrained)(x) - result.model()(x)
    offset = result.trained_model(untrained, None).label_offset
    assert offset is not None
    assert np.ptp(offset) > 0.1
    assert np.allclose(more.numpy(), np.tile(offset, (5, 1)), atol=1e-4)


def test_own_models_that_are_too_large_are_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    from coterie.run import runner

    monkeypatch.setattr(runner, "MEMORY_FOR_OWN", 10)
    result = small_run("fedavg", rounds=1)
    result.model()
    with pytest.raises(coterie.CoterieError, match=r"were not kept: give the run a folder, coterie.run\(out="):
        result.model(client=0)
    assert trained_models.MEMORY_FOR_OWN > 10


def test_a_copy_for_another_process_leaves_the_models_behind(result: coterie.Result) -> None:
    sent = pickle.loads(pickle.dumps(result))
    assert sent == result == copy.deepcopy(result)
    with pytest.raises(coterie.CoterieError, match="has no models with it"):
        sent.model(group=0)


def test_exports_of_a_result(result: coterie.Result, tmp_path: Path) -> None:
    from coterie.run.export import load_exported

    path = coterie.export(result, tmp_path / "model.safetensors", group=1)
    network, _ = load_exported(path)
    ours = result.model(group=1).network
    assert all(torch.equal(network.state_dict()[name], value) for name, value in ours.state_dict().items())
    with pytest.raises(coterie.CoterieError, match="this run has no folder: say where"):
        coterie.export(result, group=1)
