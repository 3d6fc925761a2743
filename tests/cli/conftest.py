"""What the tests of the command line share: a folder to work in, and finished runs."""

from __future__ import annotations

import shutil
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from command_line import SMALL, cli

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as in a shell's background job, whose children inherit it
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder, in which the command is called, and no folder of data sets."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("COTERIE_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))  # no downloads of the developer's
    return tmp_path


@pytest.fixture(scope="session")
def finished_runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A finished run of each method, made once; tests get copies."""
    folder = tmp_path_factory.mktemp("finished")
    for method in ("fedavg", "solo"):
        answer = cli("run", *SMALL, "--algorithm", method, "--out", folder / method, "--quiet")
        assert answer.code == 0, answer.err
    return {method: folder / method for method in ("fedavg", "solo")}


@pytest.fixture
def finished(place: Path, finished_runs: dict[str, Path]) -> Path:
    """The folder `run`, with a finished run of FedAvg."""
    return Path(shutil.copytree(finished_runs["fedavg"], place / "run"))


@pytest.fixture
def unfinished(finished: Path) -> Path:
    """The folder `run`, with a run of FedAvg that was killed just before it wrote its result."""
    (finished / "result.json").unlink()
    return finished


@pytest.fixture
def arrays() -> dict[str, Any]:
    """A correct data set: 60 + 12 grey images of 8 x 8 in 3 classes."""
    rng = np.random.default_rng(0)
    return {
        "x_train": rng.integers(0, 256, (60, 8, 8), dtype=np.uint8),
        "y_train": np.arange(60) % 3,
        "x_test": rng.integers(0, 256, (12, 8, 8), dtype=np.uint8),
        "y_test": np.arange(12) % 3,
    }


@pytest.fixture
def save(place: Path, arrays: dict[str, Any]) -> Callable[..., Path]:
    """A function that saves that data set with changes, by default as own.npz, and returns the path."""

    def save_npz(name: str = "own.npz", **changes: Any) -> Path:
        np.savez(place / name, **(arrays | changes))
        return place / name

    return save_npz
