"""Finished runs are read once, however often they are asked for."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

import coterie
from coterie.run.result import Result


@pytest.mark.integration
def test_a_comparison_reads_each_run_folder_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    load, reads = Result.load, Counter[str]()

    def counting(folder: Path) -> Result:
        reads[str(Path(folder).relative_to(tmp_path))] += 1
        return load(folder)

    monkeypatch.setattr(Result, "load", counting)
    runs = 2 + 2  # two values tried for fedavg, and one run of each method
    for _ in range(2):  # when the runs are made, and when they are all there
        reads.clear()
        coterie.compare(
            algorithms="fedavg,solo:lr=0.1", tune={"lr": [0.05, 0.01]}, seeds=[0], out=tmp_path / "c", jobs=1,
            dataset="digits", clients=4, rounds=1, epochs=1,
        )  # fmt: skip
        assert set(reads.values()) == {1}
        assert len(reads) == runs
