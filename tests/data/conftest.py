"""What the tests of data share: small .npz files, and the folder of real data sets."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest


@pytest.fixture(autouse=True)
def empty_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache folder with nothing in it, so that no test sees what somebody has downloaded."""
    place = tmp_path_factory.mktemp("cache")
    monkeypatch.setenv("XDG_CACHE_HOME", str(place))
    monkeypatch.setenv("LOCALAPPDATA", str(place))
    return place


@pytest.fixture
def small() -> dict[str, Any]:
    """Arrays of a correct data set: 60 + 12 grey images of 4 x 5 in 3 classes."""
    rng = np.random.default_rng(0)
    return {
        "x_train": rng.integers(0, 256, (60, 4, 5), dtype=np.uint8),
        "y_train": np.arange(60) % 3,
        "x_test": rng.integers(0, 256, (12, 4, 5), dtype=np.uint8),
        "y_test": np.arange(12) % 3,
    }


@pytest.fixture
def save(tmp_path: Path, small: dict[str, Any]) -> Callable[..., Path]:
    """A function that saves the small data set with changes, None leaving an array out, and returns the path."""

    def save_npz(name: str = "own.npz", **changes: Any) -> Path:
        arrays = {key: array for key, array in (small | changes).items() if array is not None}
        np.savez_compressed(tmp_path / name, **arrays)
        return tmp_path / name

    return save_npz


@pytest.fixture
def real(monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of real data sets, which COTERIE_DATA then names."""
    beside_the_repository = Path(__file__).resolve().parents[2].parent / "shared" / "data"
    place = Path(os.environ.get("COTERIE_DATA") or beside_the_repository)
    if not (place / "usps.npz").is_file():
        pytest.skip(f"no usps.npz in {place}: set COTERIE_DATA to the folder of real data sets")
    monkeypatch.setenv("COTERIE_DATA", str(place))
    return place
