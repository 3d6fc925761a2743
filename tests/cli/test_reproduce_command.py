"""``coterie reproduce`` as a user types it."""

import contextlib
import os
from pathlib import Path
from unittest import mock

import pytest
from command_line import Answer, cli

BOOK = Path(__file__).parents[1] / "reproduce" / "digits.toml"


def coterie(*arguments: object, data: Path) -> Answer:
    with mock.patch.dict(os.environ, COTERIE_DATA=str(data), COLUMNS="110"), contextlib.chdir(data):
        return cli("reproduce", *arguments)


def test_list(tmp_path: Path) -> None:
    """All in at most a few seconds, with kind, time, and which data are not here."""
    shown = coterie(data=tmp_path)
    assert shown.code == 0, shown.err
    lines = shown.out.splitlines()
    line = next(line for line in lines if line.startswith("  pacfl-table2 "))
    assert line.split()[1] == "accuracy"
    assert "fashion_mnist (-), cifar10 (-), cifar100 (-), svhn (-)" in line
    assert any("pacfl-figure7" in line and "cannot be reproduced" in line for line in lines)
    assert lines[lines.index(next(line for line in lines if "pacfl-figure7" in line)) + 1].strip().startswith("how ")
    nothing = next(line for line in lines if line.startswith("  dissertation-figure2.6 "))
    assert nothing.split()[2] == "–"  # no time where no data are here
    assert "dissertation-table3.8" in shown.out


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["pacfl-tabl2"], "did you mean 'pacfl-table2'?"),
        (["pacfl-table2"], "none of the data of pacfl-table2 are here: 'fashion_mnist' is not here: 'coterie data get"),
        (["pacfl-table1"], "pacfl-table1 needs data: 'cifar10' is not here"),
        (["pacfl-table2", "--algorithms", "pacl"], "has no method 'pacl': did you mean 'pacfl'?"),
        (["pacfl-table2", "--datasets", ""], "no data set is named"),
        (["pacfl-table2", "--datasets", "", "--dry-run"], "no data set is named"),
        (["pacfl-table2", "--algorithms", ","], "no method is named: name some of the table's"),
        (["pacfl-costs", "--rounds-scale", "0"], "rounds scale 0 is not valid: use a number above 0, up to 1"),
        (["x", "--catalogue", "none.toml"], "there is no catalogue 'none.toml'"),
    ],
)
def test_bad_input_is_a_line_and_code_2(arguments: list[str], told: str, tmp_path: Path) -> None:
    failed = coterie(*arguments, data=tmp_path)
    assert failed.code == 2
    assert told in failed.err
    assert failed.err.count("\n") == 1
    assert not list(tmp_path.iterdir())


def test_a_formula(tmp_path: Path) -> None:
    shown = coterie("pacfl-costs", "--format", "md", data=tmp_path)
    assert shown.code == 0, shown.err
    assert "| PACFL | 7.53 (7.53 [19]) |" in shown.out
    assert (tmp_path / "runs" / "reproduce" / "pacfl-costs" / "reproduction.json").is_file()


@pytest.mark.slow
def test_a_table_by_workers_and_again(tmp_path: Path) -> None:
    """Two runs at a time; the second time nothing is run, and the table is the same."""
    asked = ["our-table", "--catalogue", BOOK, "--rounds-scale", 0.25, "--seeds", "0", "--jobs", 2]
    first = coterie(*asked, data=tmp_path)
    assert first.code == 0, first.err
    assert "SHORTENED: 0.25 of the published rounds" in first.out
    assert "3/3" in first.err
    again = coterie(*asked, data=tmp_path)
    assert again.out == first.out
    assert again.err == ""


def test_what_would_run(tmp_path: Path) -> None:
    shown = coterie("digits-table", "--catalogue", BOOK, "--dry-run", data=tmp_path)
    assert "3 numbers of 6 runs, of 6 in all" in shown.out
    assert "left out: STL-10: 'stl10' is not here: 'coterie data get stl10' downloads it" in shown.out
    assert "SHORTENED" not in shown.out
    assert not list(tmp_path.iterdir())


def test_a_part_of_what_would_run(tmp_path: Path) -> None:
    shown = coterie(
        "digits-table", "--catalogue", BOOK, "--dry-run", "--datasets", "digits", "--seeds", "0", "--rounds-scale", 0.5,
        data=tmp_path,
    )  # fmt: skip
    assert "SHORTENED: 0.5 of the published rounds (--rounds-scale); 1 seed instead of 2 (--seeds)" in shown.out
    assert "data: digits\n" in shown.out
    assert "stl10" not in shown.out


def test_nothing_would_run_without_data(tmp_path: Path) -> None:
    shown = coterie("pacfl-table1", "--dry-run", data=tmp_path)
    assert "nothing can be made without the data" in shown.out
    assert "'coterie data get cifar10' downloads it" in shown.out


@pytest.mark.integration
def test_a_failing_run_ends_with_code_2_after_the_table(tmp_path: Path) -> None:
    failed = coterie("digits-broken", "--catalogue", BOOK, "--jobs", 1, data=tmp_path)
    assert failed.code == 2
    assert "FedAvg" in failed.out
    assert "some runs failed (Digits, SCAFFOLD: seed 0: " in failed.err
    assert "the same command tries them again" in failed.err
