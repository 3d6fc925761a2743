"""`coterie data check` of tables: what it says of columns, and that what it suggests works."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest
from command_line import cli, refusal

PEOPLE = "id,age,hours,name,home town,income\n" + "".join(
    f"{k + 1},{20 + k % 31},{'' if k % 40 == 3 else 30 + k % 7},person {k},{('Oslo', 'Graz')[k % 2]},"
    f"{('low', 'high')[k % 5 > 1]}\n"
    for k in range(240)
)


@pytest.mark.integration
def test_what_it_suggests_for_a_table_works(place: Path) -> None:
    (place / "my people.csv").write_text(PEOPLE)
    answer = cli("data", "check", "my people.csv")
    assert answer.code == 0, answer.err
    lines = [line.strip() for line in answer.out.splitlines()]
    assert "id: whole numbers, 1 to 240 – left out" in lines
    assert "hours: whole numbers, 30 to 36, 6 missing" in lines
    assert "home town: 2 different texts (Graz, Oslo)" in lines
    assert "income: 2 different texts (high, low) – the label" in lines
    assert "client=home town makes 2 clients of 120 to 120 rows" in lines
    assert "training samples by class: high: 144, low: 96" in lines
    suggestion = shlex.split(lines[-1].removeprefix("It fits: coterie "))
    assert suggestion == ["run", "--dataset", "my people.csv:label=income,drop=id+name,missing=fill"]
    few = ["--rounds", "1", "--epochs", "1", "--quiet", "--out", "run"]
    assert cli(*suggestion, *few).code == 0
    by_town = cli("data", "check", "my people.csv:client=home town")
    assert "made by 2 users" in by_town.out
    suggestion = shlex.split(by_town.out.splitlines()[-1].removeprefix("It fits: coterie "))
    assert suggestion[-1] == "my people.csv:label=income,client=home town,drop=id+name,missing=fill"
    assert cli(*suggestion, *few[:-1], "by-town").code == 0


def test_names_of_columns_that_need_quotes_get_them(place: Path) -> None:
    rows = "".join(f"{k},{k % 7},{'ab'[k % 2]}\n" for k in range(60))
    (place / "odd.csv").write_text('"a,b",c+d,2\n' + rows)
    first = cli("data", "check", "odd.csv")
    suggestion = shlex.split(first.out.splitlines()[-1])[-1]
    again = cli("data", "check", suggestion)
    assert (again.code, again.out.splitlines()[1:]) == (0, first.out.splitlines()[1:])


def test_a_table_without_a_label_is_described_and_refused(place: Path) -> None:
    (place / "x.csv").write_text("a,b\n" + "".join(f"{k},name {k}\n" for k in range(50)))
    answer = cli("data", "check", "x.csv")
    assert "a: whole numbers, 0 to 49" in answer.out
    assert answer.code == 2
    assert "no column could be a label" in answer.err


def test_a_table_of_quantities_is_said_to_have_numbers_to_predict(place: Path) -> None:
    (place / "x.csv").write_text("a,b\n" + "".join(f"{k / 3},{k / 7}\n" for k in range(50)))
    answer = cli("data", "check", "x.csv")
    assert "a: numbers, 0 to 16.3333" in answer.out
    assert "regression target: 0 to 7, mean 3.5, standard deviation 2.06155" in answer.out
    assert answer.out.splitlines()[-1].endswith("x.csv:label=b --metric mae")


def test_an_unknown_column_is_refused_before_a_run(place: Path) -> None:
    (place / "people.csv").write_text(PEOPLE)
    assert "say which column is the label, label=NAME" in refusal(cli("run", "--dataset", "people.csv"))
    assert "did you mean 'income'" in refusal(cli("run", "--dataset", "people.csv:label=incom"))
    assert "did you mean 'client'" in refusal(cli("run", "--dataset", "people.csv:label=income,clint=age"))
