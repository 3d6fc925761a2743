"""Versions of stored files: those without one open, newer ones are refused in a sentence."""

import json
from pathlib import Path

import pytest

import coterie
from coterie.errors import CoterieError
from coterie.report.folders import make_page
from coterie.reproduce import reproduce

SMALL = {"dataset": "digits-rotated", "clients": 4, "rounds": 1, "epochs": 1, "model": "mlp:hidden=8"}


def set_format(file: Path, version: int | None) -> None:
    content = json.loads(file.read_text(encoding="utf-8"))
    content.pop("format", None)
    file.write_text(json.dumps(content | ({} if version is None else {"format": version})), encoding="utf-8")


def test_a_run_of_an_older_version_opens_and_of_a_newer_one_is_refused(tmp_path: Path) -> None:
    made = coterie.run(algorithm="fedavg", out=str(tmp_path / "run"), **SMALL)
    file = tmp_path / "run" / "result.json"
    set_format(file, None)
    assert coterie.Result.load(tmp_path / "run").to_json() == made.to_json()
    assert make_page([tmp_path / "run"]).title == "fedavg on digits-rotated"
    set_format(file, 99)
    for read in (coterie.Result.load, lambda folder: make_page([folder])):
        with pytest.raises(CoterieError, match="format 99, and this version of Coterie reads formats up to 2: update"):
            read(tmp_path / "run")


def test_a_comparison_of_an_older_version_opens_and_of_a_newer_one_is_refused(tmp_path: Path) -> None:
    coterie.compare(algorithms="fedavg,solo", seeds=[0], jobs=1, out=tmp_path / "c", **SMALL)
    set_format(tmp_path / "c" / "comparison.json", None)
    assert make_page([tmp_path / "c"]).title == "Comparison: fedavg, solo"
    set_format(tmp_path / "c" / "comparison.json", 99)
    with pytest.raises(CoterieError, match=r"comparison.json' is of format 99.*update Coterie"):
        make_page([tmp_path / "c"])


def test_a_reproduction_of_an_older_version_opens_and_of_a_newer_one_is_refused(tmp_path: Path) -> None:
    reproduce("sub-fedavg-costs", out=str(tmp_path))
    file = tmp_path / "sub-fedavg-costs" / "reproduction.json"
    set_format(file, None)
    assert make_page([tmp_path]).title.startswith("sub-fedavg-costs")
    set_format(file, 99)
    with pytest.raises(CoterieError, match=r"reproduction.json' is of format 99.*update Coterie"):
        make_page([tmp_path])
