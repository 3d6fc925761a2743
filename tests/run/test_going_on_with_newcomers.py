"""Clients that come when training is over, with data of their own, are placed, fine-tune and are evaluated."""

import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import coterie
from coterie.errors import CoterieError
from coterie.results.run_folder import RunFolder
from coterie.run.building import load_data
from coterie.run.dry_run import estimate
from coterie.run.export import export, load_exported, predict
from coterie.run.progress import Progress
from coterie.run.settings import settings_to_config
from coterie.testing import SMALL, outcome, small_run

Arrays = dict[str, npt.NDArray[Any]]


class BrokenOff(Exception):
    pass


class BreaksOff(Progress):
    """Ends a run after a number of answers."""

    def __init__(self, answers: int) -> None:
        self.answers = answers

    def clients(self, done: int, total: int) -> None:
        self.answers -= 1
        if self.answers < 0:
            raise BrokenOff


@pytest.fixture(scope="module")
def of_client() -> Callable[[int], Arrays]:
    """Return training and test samples as a client of the small federation has them."""
    data = load_data(settings_to_config(None, {"algorithm": "fedavg", **SMALL}))

    def arrays(client: int) -> Arrays:
        train, test = data.train[data.train_parts[client]], data.test[data.test_parts[client]]
        return {"x_train": train.x, "y_train": train.y, "x_test": test.x, "y_test": test.y}

    return arrays


def test_whoever_comes_later_joins_those_who_are_alike(tmp_path: Path, of_client: Callable[[int], Arrays]) -> None:
    """As if it had been asked for at first; the others' numbers stay, and the models can be had."""
    np.savez(tmp_path / "two.npz", **of_client(2))
    admitted = str(tmp_path / "two.npz")
    before = small_run("pacfl", rounds=2, out=str(tmp_path / "run"))
    whole = small_run("pacfl", rounds=2, admit=[admitted], out=str(tmp_path / "whole"))
    after = coterie.resume(tmp_path / "run", admit=admitted)
    assert outcome(after) == outcome(whole)
    assert (after.accuracy, after.history) == (before.accuracy, before.history)
    assert before.groups is not None
    assert after.groups == [*before.groups, before.groups[2]]  # its twin's
    assert after.true_groups == [*(before.true_groups or []), None]
    assert after.ari == before.ari
    assert after.newcomers is not None
    assert (after.newcomers["clients"], after.newcomers["founded"]) == ([6], [])
    assert after.newcomers["per_client"]["C"] == [before.per_client["C"][2]]  # the same model on the same samples
    assert (after.newcomers["accuracy"]["L"] or 0) > 0
    own = load_exported(export(tmp_path / "run", client=6)[0])[1]
    assert (own["whose"], own["group"]) == ("client 6's own model", before.groups[2])
    np.savez(tmp_path / "inputs.npz", x=of_client(2)["x_test"], y=of_client(2)["y_test"])
    labels = predict(tmp_path / "run", tmp_path / "inputs.npz", client=6).labels
    assert np.mean(labels == of_client(2)["y_test"]) == pytest.approx(after.newcomers["per_client"]["L"][0])


@pytest.mark.integration
def test_one_after_the_other_and_killed(tmp_path: Path, of_client: Callable[[int], Arrays]) -> None:
    one, users, folder = (tmp_path / name for name in ("one.npz", "users.npz", "folder"))
    np.savez(one, **of_client(0))
    x, y = (np.concatenate([of_client(client)[key] for client in (1, 2)]) for key in ("x_train", "y_train"))
    users_of = (np.arange(len(y)) >= len(of_client(1)["y_train"])).astype(np.int64)
    np.savez(users, x_train=x, y_train=y, user_train=users_of)
    folder.mkdir()
    for client in (3, 4):
        np.savez(folder / f"{client}.npz", **of_client(client))
    paths = [str(path) for path in (one, users, folder)]
    whole = small_run("ifca", rounds=2, newcomers=0.34, admit=paths, out=str(tmp_path / "whole"))
    small_run("ifca", rounds=2, newcomers=0.34, out=str(tmp_path / "run"))
    for path, answers in zip(paths, (0, 1, 3), strict=True):
        with pytest.raises(BrokenOff):
            coterie.resume(tmp_path / "run", BreaksOff(answers), admit=path)
        with pytest.raises(CoterieError, match="is among the data of clients that this run admits"):
            coterie.resume(tmp_path / "run", admit=path)
        coterie.resume(tmp_path / "run")
    assert outcome(coterie.resume(tmp_path / "run")) == outcome(whole)
    assert whole.newcomers is not None
    assert len(whole.newcomers["clients"]) == 2 + 1 + 2 + 2
    with pytest.raises(CoterieError, match="clients joined after round 2"):
        coterie.resume(tmp_path / "run", rounds=3)


def test_a_dry_run_counts_them(tmp_path: Path, of_client: Callable[[int], Arrays]) -> None:
    np.savez(tmp_path / "two.npz", **of_client(2))
    settings = {"algorithm": "fedavg", **SMALL, "rounds": 1, "newcomer_epochs": 3}
    without, said = (
        estimate(settings_to_config(None, settings | more)) for more in ({}, {"admit": [str(tmp_path / "two.npz")]})
    )
    assert said.steps - without.steps == 3 * math.ceil(len(of_client(2)["y_train"]) / 10)
    assert "6 clients and 1 admitted later, 1 round," in said.title


@pytest.mark.integration
@pytest.mark.parametrize("method", ["fedavg", "ifca", "lg-fedavg", "pacfl", "solo", "sub-fedavg-un"])
def test_methods_place_them(method: str, tmp_path: Path, of_client: Callable[[int], Arrays]) -> None:
    np.savez(tmp_path / "one.npz", **of_client(1))
    small_run(method, rounds=1, out=str(tmp_path / "run"))
    after = coterie.resume(tmp_path / "run", admit=tmp_path / "one.npz")
    assert after.newcomers is not None
    assert after.newcomers["clients"] == [6]
    assert (after.newcomers["accuracy"]["L"] or 0) > 0
    assert (after.groups is None) is (after.newcomers["groups"] == [None])


def test_what_is_refused_leaves_the_run_as_it_is(tmp_path: Path, of_client: Callable[[int], Arrays]) -> None:
    small_run("fedavg", rounds=1, out=str(tmp_path / "run"))
    folder = RunFolder(tmp_path / "run")
    before = folder.result_file.read_bytes(), folder.config_file.read_bytes()
    arrays = of_client(0)
    other = {
        "labels": {**arrays, "y_train": arrays["y_train"] + 5},
        "shape": {key: value[..., :4] if key[0] == "x" else value for key, value in arrays.items()},
        "type": {key: value.astype(np.float64) / 255 if key[0] == "x" else value for key, value in arrays.items()},
    }
    errors = {"labels": "holds the label 14", "shape": "samples of shape", "type": "float32 samples"}
    for name, content in other.items():
        np.savez(tmp_path / f"{name}.npz", **content)
        with pytest.raises(CoterieError, match=errors[name]):
            coterie.resume(folder.path, admit=tmp_path / f"{name}.npz")
    with pytest.raises(CoterieError, match=r"there is no file or folder .*none.* \(set by admit=\)"):
        coterie.resume(folder.path, admit=tmp_path / "none")
    assert (folder.result_file.read_bytes(), folder.config_file.read_bytes()) == before


def test_data_that_were_admitted_stay_in_the_configuration(tmp_path: Path, of_client: Callable[[int], Arrays]) -> None:
    np.savez(tmp_path / "one.npz", **of_client(1))
    small_run("fedavg", rounds=1, admit=[str(tmp_path / "one.npz")], out=str(tmp_path / "run"))
    folder = RunFolder(tmp_path / "run")
    folder.result_file.unlink()
    folder.config_file.write_text(re.sub(r"^admit = .*\n", "admit = []\n", folder.config_file.read_text(), flags=re.M))
    with pytest.raises(CoterieError, match=r"newcomers\.admit was \['.*one\.npz'\], is \[\]"):
        coterie.resume(folder.path)
