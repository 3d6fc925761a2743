"""Paths, NumPy's numbers, arrays, networks and functions in place of names and plain values."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_digits
from torch import nn

import coterie
from coterie.data.in_memory import hold
from coterie.models import MODELS
from coterie.run.given import named
from coterie.run.progress import Progress
from coterie.run.settings import settings_to_config
from coterie.testing import outcome

X, Y = load_digits(return_X_y=True)
X, Y = X[:400].astype(np.uint8).reshape(-1, 8, 8), Y[:400]
FEW: dict[str, Any] = {"clients": 4, "fraction": 1.0, "rounds": 2, "epochs": 1, "seed": 1}


class Linear(nn.Sequential):
    """One layer."""

    def __init__(self, shape: tuple[int, ...], classes: int) -> None:
        super().__init__(nn.Flatten(), nn.Linear(int(np.prod(shape)), classes))


def numbers(result: coterie.Result) -> dict[str, Any]:
    """All but times and names."""
    return {key: value for key, value in outcome(result).items() if key not in ("data", "model", "versions")}


def test_paths_and_numpys_numbers_are_plain_values(tmp_path: Path) -> None:
    given = {"clients": np.int64(7), "lr": np.float32(0.5), "durable": np.bool_(True), "plugin": ()}
    config = settings_to_config({"run": {"out": tmp_path}, "training": {"rounds": np.uint8(3)}}, {})
    assert (config.run.out, config.training.rounds) == (str(tmp_path), 3)
    with named(given) as plain:
        config = settings_to_config(None, plain)
    assert (config.data.clients, config.training.lr, config.run.durable, config.run.plugins) == (7, 0.5, True, [])


@pytest.mark.integration
def test_arrays_are_what_a_file_of_them_is(tmp_path: Path) -> None:
    half = len(X) // 2
    np.savez(tmp_path / "mine.npz", x_train=X[:half], y_train=Y[:half], x_test=X[half:], y_test=Y[half:])
    from_file = coterie.run(dataset=tmp_path / "mine.npz", **FEW)
    for given in (
        (X[:half], Y[:half], X[half:], Y[half:]),
        {"x_train": X[:half], "y_train": Y[:half], "x_test": X[half:], "y_test": Y[half:].tolist()},
    ):
        in_memory = coterie.run(dataset=given, **FEW)
        assert numbers(in_memory) == numbers(from_file)
        assert in_memory.data.startswith("arrays-")


def test_a_network_that_another_program_gave_says_what_to_do(tmp_path: Path) -> None:
    coterie.run(dataset="digits", model=Linear, **{**FEW, "rounds": 1}, out=tmp_path / "run")
    builder = MODELS._items.pop("Linear")
    try:
        for use in (
            lambda: coterie.resume(tmp_path / "run", rounds=2),
            lambda: coterie.export(tmp_path / "run"),
        ):
            with pytest.raises(coterie.CoterieError, match=r"network 'Linear', which is not known here.*model=Linear"):
                use()
    finally:
        MODELS._items["Linear"] = builder
    assert coterie.resume(tmp_path / "run", rounds=2, model=Linear).rounds == 2


@pytest.mark.integration
def test_a_function_may_return_arrays(tmp_path: Path) -> None:
    def half_of_them(*, share: float = 0.5) -> tuple[Any, Any]:
        return X[: int(share * len(X))], Y[: int(share * len(X))]

    made = coterie.run(dataset=half_of_them, dataset_options={"share": 0.25}, **FEW)
    assert made.data == "half_of_them"
    assert numbers(made) == numbers(coterie.run(dataset=(X[:100], Y[:100]), **FEW))


def test_a_list_gives_each_client_its_own() -> None:
    """With label k for client k alone, whose samples are of one value."""
    pairs = [(np.full((20, 3), k, np.float32), np.full(20, k)) for k in range(4)]
    groups = coterie.cluster(dataset=pairs, server_share=0, rule="count", groups=2)
    assert (groups.counts > 0).tolist() == np.eye(4, dtype=bool).tolist()
    with pytest.raises(coterie.CoterieError, match="clients = 3, but samples of 4 clients were given"):
        coterie.cluster(dataset=pairs, clients=3)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (((X, Y), (X, Y)), "can't be a tuple of 2: give \\(x, y\\)"),
        (X, "can't be a ndarray"),
        ((X,), "can't be a tuple of 1"),
        ([], "can't be a list of 0"),
        ({"x": X}, "has no 'y_train', only x_train"),
        ({"x": X, "y": Y, "x_tset": X}, "did you mean 'x_test'"),
        ((X, Y[:-1]), "x_train has 400 samples, but y_train has 399 labels"),
        ((X, Y / 2), "to predict numbers write metric='mae'; classes are whole numbers"),
        ([(X, Y), (X[:, :4], Y)], "client 1 has inputs of shape"),
    ],
)
def test_what_is_no_data_set_is_refused_with_what_is(given: Any, told: str) -> None:
    with pytest.raises(coterie.CoterieError, match=told):
        coterie.run(dataset=given)


class Interrupt(Progress):
    """Ends a run after its first round."""

    def round(self, round: int, row: Any) -> None:
        if round == 1:
            raise KeyboardInterrupt


@pytest.mark.integration
def test_a_run_on_arrays_goes_on_with_the_same_arrays_and_no_others(tmp_path: Path) -> None:
    given = (X.copy(), Y.copy())
    whole = coterie.run(dataset=given, model=Linear, **FEW)
    with pytest.raises(KeyboardInterrupt, match="go on with"):
        coterie.run(dataset=given, model=Linear, out=tmp_path / "run", progress=Interrupt(), **FEW)
    with pytest.raises(coterie.CoterieError, match=r"not stored: give the same arrays again, coterie.resume"):
        coterie.resume(tmp_path / "run")
    with pytest.raises(coterie.CoterieError, match=f"began with dataset '{whole.data}', not with 'arrays-"):
        coterie.resume(tmp_path / "run", dataset=(X + 1, Y))
    again = coterie.resume(tmp_path / "run", dataset=(X, Y), model=Linear)
    assert numbers(again) == numbers(whole)
    assert coterie.load(tmp_path / "run") == again
    assert not [file for file in (tmp_path / "run").rglob("*") if file.suffix == ".npz"]


def test_another_process_says_that_arrays_are_not_stored() -> None:
    with pytest.raises(coterie.CoterieError, match="was in the memory of the program that made the run"):
        coterie.run(dataset="arrays-0123456789ab")


def test_arrays_are_held_no_longer_than_they_are_used() -> None:
    held = hold((X, Y))
    name = held.name
    assert hold((X.copy(), Y.copy())) is held
    users = {"x": np.concatenate([X, X]), "y": np.concatenate([Y, Y]), "user_train": np.repeat([0, 1], len(Y))}
    assert hold(users).name != hold([(X, Y), (X, Y)]).name  # pooled, or divided
    del held
    with pytest.raises(coterie.CoterieError, match="not stored"):
        coterie.run(dataset=name, **FEW)


@pytest.mark.integration
def test_a_class_a_function_and_a_registered_name_are_the_same_network() -> None:
    @coterie.model("registered-linear")
    def build(shape: tuple[int, ...], classes: int) -> nn.Module:
        return Linear(shape, classes)

    def ten(classes: int) -> nn.Module:
        return Linear((8, 8), classes)

    by_name = coterie.run(model="registered-linear", **FEW)
    for given, name in ((Linear, "Linear"), (build, "registered-linear"), (ten, "ten"), (lambda: ten(10), "lambda")):
        result = coterie.run(model=given, **FEW)
        assert result.network == name
        assert (result.accuracy, result.per_client) == (by_name.accuracy, by_name.per_client)


def test_a_network_is_the_start_and_is_left_as_it_is() -> None:
    network = Linear((8, 8), 10)
    before = {name: value.clone() for name, value in network.state_dict().items()}
    result = coterie.run(model=network, **{**FEW, "lr": 1e-12})
    assert all((before[name] == value).all() for name, value in network.state_dict().items())
    trained = result.model().network.state_dict()
    assert all(np.allclose(before[name], trained[name], atol=1e-6) for name in before)
    with pytest.raises(coterie.CoterieError, match="has one start: give its class"):
        coterie.run(model=network, algorithm="ifca", **FEW)


def test_a_class_defined_anew_is_another_network() -> None:
    def width(units: int) -> type[nn.Module]:
        class Anew(nn.Sequential):
            def __init__(self) -> None:
                super().__init__(nn.Flatten(), nn.Linear(64, units), nn.ReLU(), nn.Linear(units, 10))

        return Anew

    shapes = [coterie.run(model=width(units), **FEW).model().network[1].weight.shape[0] for units in (3, 5)]
    assert shapes == [3, 5]


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (3, "model can't be a int: give a name, a class"),
        (nn.Conv2d, "needs in_channels, out_channels, kernel_size: give a function of"),
        (lambda: 3, "gave a int, not a torch.nn.Module"),
        (lambda: nn.Sequential(nn.Flatten(), nn.Linear(64, 7)), r"outputs of shape \(2, 7\) .* 10 classes"),
        (lambda: nn.Linear(5, 10), r"can't take inputs of shape \(1, 8, 8\)"),
    ],
)
def test_what_is_no_network_is_refused_with_what_is(given: Any, told: str) -> None:
    with pytest.raises(coterie.CoterieError, match=told):
        coterie.run(model=given, **FEW)


@pytest.mark.integration
def test_a_comparison_of_what_is_in_memory_is_made_in_this_process() -> None:
    notes: list[str] = []

    class Listener(coterie.BatchProgress):
        def note(self, text: str) -> None:
            notes.append(text)

    settings = {**{key: value for key, value in FEW.items() if key != "seed"}, "rounds": 1}
    comparison = coterie.compare(
        algorithms="fedavg,solo", seeds=np.arange(1), dataset=(X, Y), model=Linear, progress=Listener(), **settings
    )
    assert len(comparison.results["solo"]) == 1
    assert any("is defined in this session: runs are made one after the other" in note for note in notes)
    assert "Linear" in MODELS
    json.dumps(comparison.to_json())
