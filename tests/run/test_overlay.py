"""``name:key=value`` means one thing, wherever it is written; so do lists and seeds."""

from __future__ import annotations

from typing import Any

import pytest

from coterie.compare.make_design import comparison_design, sweep_design
from coterie.errors import CoterieError
from coterie.run.config import Config
from coterie.run.overlay import lay_over
from coterie.run.settings import settings_to_config, settings_to_tables
from coterie.run.validation import make_config
from coterie.run.values import parse_options, parse_seeds, split_list

BEHIND = ["ifca:groups=4", "IFCA:count=4", "pacfl:p=5,lr=0.02,grouping.linkage=single", "solo:epochs=7"]


@pytest.mark.parametrize("method", BEHIND)
def test_run_compare_sweep_and_python_agree(method: str) -> None:
    by_flag: dict[str, Any] = {}
    lay_over(by_flag, {"algorithm.name": method}, {"algorithm.name": "--algorithm"})
    run = make_config(by_flag)
    base, _ = settings_to_tables(None, {"algorithm": method})
    compared = comparison_design({}, ["fedavg", method], [0])
    swept = sweep_design(base, {"momentum": [0.5, 0.25]}, [0])
    in_python = settings_to_config(None, {"algorithm": method})
    in_file = make_config({"algorithm": {"name": method}})
    assert run == in_python == in_file
    assert run.algorithm.name in ("ifca", "pacfl", "solo")
    assert compared.config(list(compared.cells)[1], 0) == run
    assert swept.config("momentum=0.5", 0) == run
    assert run != Config(algorithm=run.algorithm.model_copy(update={"name": "fedavg"}))


def test_a_keyword_that_contradicts_what_stands_behind_a_name() -> None:
    with pytest.raises(CoterieError, match=r"grouping.groups is given twice, by algorithm= and by groups=: leave one"):
        settings_to_config(None, {"groups": 5, "algorithm": "ifca:groups=4"})
    assert settings_to_config(None, {"groups": 4, "algorithm": "ifca:groups=4"}).grouping.groups == 4


def test_a_comparison_in_capital_letters_and_with_spaces() -> None:
    design = comparison_design(
        {}, "FedAvg PACFL:p=5 lr=0.02, Solo", "0-2 7", methods={"SOLO": {"lr": 0.5}}, baseline="SOLO", protocol="c"
    )
    assert list(design.cells) == ["fedavg", "pacfl:p=5,lr=0.02", "solo"]
    assert (design.seeds, design.baseline, design.protocol) == ((0, 1, 2, 7), "solo", "C")
    assert design.config("solo", 0).training.lr == 0.5


@pytest.mark.parametrize(
    ("text", "seeds"),
    [("0,1,2", [0, 1, 2]), ("0-4", [0, 1, 2, 3, 4]), ("0-2,7", [0, 1, 2, 7]), ("3 1", [3, 1]), ("5-5", [5])],
)
def test_seeds(text: str, seeds: list[int]) -> None:
    assert parse_seeds(text) == seeds


@pytest.mark.parametrize("text", ["", "a", "0-", "4-0", "0-999999999", "0..4", "1.5"])
def test_what_no_seeds_are(text: str) -> None:
    with pytest.raises(CoterieError, match="0-4"):
        parse_seeds(text)


def test_lists_by_comma_or_by_space() -> None:
    assert split_list("fedavg pacfl:p=4 count=3,solo") == ["fedavg", "pacfl:p=4,count=3", "solo"]
    assert split_list("[1, 2] [3]") == ["[1, 2]", "[3]"]
    assert split_list("'my data.npz', other.npz") == ["'my data.npz'", "other.npz"]
    assert parse_options("sets=[1, 2],b=two words c=3") == {"sets": [1, 2], "b": "two words", "c": 3}
