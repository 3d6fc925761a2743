"""Divided data that processes map from files are the data that were written."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from coterie.data import Dataset, FederatedData, Samples, divide
from coterie.data.on_demand import ChosenRows
from coterie.data.parts import LabelParts
from coterie.engine.flower.sharing import share

RNG = np.random.default_rng(0)
X, Y = RNG.integers(0, 256, (120, 1, 4, 4), np.uint8), np.arange(120) % 5
CASES: dict[str, tuple[str, dict[str, Any], bool]] = {
    "own test parts": ("iid", {}, False),
    "a test set for all": ("label-skew", {"rho": 0.4}, True),
    "drift": ("rotated", {"drift_at": 3}, False),
    "drift, a test set for all": ("rotated", {"drift_at": 3, "parts": "label-skew:rho=0.4"}, True),
}


def lists(data: FederatedData) -> list[list[list[int]]]:
    phases = [(data.train_parts, data.test_parts), *((phase.train_parts, phase.test_parts) for phase in data.drift)]
    return [[part.tolist() for part in parts] for both in phases for parts in both]


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("lazy", [False, True])
def test_what_is_opened_is_what_was_shared(case: str, lazy: bool, tmp_path: Path) -> None:
    partition, options, common = CASES[case]
    test = Samples(X[100:], Y[100:]) if common else None
    data = divide(Dataset("images", Samples(X[:100], Y[:100]), test, 5), partition, options, 6, 1)
    expected = data.train.x
    if lazy:
        order = np.arange(len(expected))[::-1]
        train = Samples(ChosenRows(expected[order], order).as_array(), data.train.y)
        data = FederatedData(**{**vars(data), "train": train})
    opened = share(data, tmp_path).open()
    assert np.array_equal(opened.train.x, expected)
    assert np.array_equal(opened.train.y, data.train.y)
    assert np.array_equal(opened.test.x, data.test.x)
    assert lists(opened) == lists(data)
    assert isinstance(opened.test_parts, LabelParts) == common
    assert [phase.start for phase in opened.drift] == [phase.start for phase in data.drift]
