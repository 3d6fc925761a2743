"""Inspecting real data: `make slow`. The data are those of COTERIE_DATA, else of ../shared/data."""

import os
from pathlib import Path
from typing import Any

import pytest

from coterie.inspect.inspection import inspect
from coterie.run.settings import settings_to_config
from coterie.studies.pairs import study

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def data_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    """The folder of real data sets, which COTERIE_DATA then names."""
    place = Path(os.environ.get("COTERIE_DATA") or Path(__file__).resolve().parents[2].parent / "shared" / "data")
    if not (place / "cifar10.npz").exists():
        pytest.skip(f"no cifar10.npz in {place}: set COTERIE_DATA to the folder of real data sets")
    monkeypatch.setenv("COTERIE_DATA", str(place))


@pytest.mark.integration
@pytest.mark.parametrize(
    ("settings", "answer"),
    [
        ({"dataset": "mix-4", "clients": 20}, ("cluster", 4)),
        ({"dataset": "cifar10", "partition": "iid", "clients": 20}, ("one model", 1)),
        ({"dataset": "cifar10", "partition": "rotated", "clients": 20}, ("cluster", 4)),
        ({"dataset": "cifar10", "partition": "permuted", "clients": 20}, ("cluster", 4)),
    ],
    ids=["mix-4", "iid", "rotated", "permuted"],
)
def test_federations_whose_answer_is_known(settings: dict[str, Any], answer: tuple[str, int]) -> None:
    given = inspect(settings_to_config(None, settings, method="pacfl"), measures="labels").advice
    assert (given.choice, given.groups) == answer


def test_a_client_with_the_same_labels_helps() -> None:
    """Table 5.5, rows 1, 2 and 8: the same labels help more than those of another super cluster."""
    settings = {"dataset": "cifar10", "rounds": 20, "epochs": 2, "fraction": 1.0, "eval_every": 0}
    found = study(settings_to_config(None, settings), "8,9", "8,9;3,5", seeds=2)
    same, animals = found.rows
    assert same.own.mean > animals.own.mean
    assert same.gain.mean > 0
