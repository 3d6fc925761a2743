"""Words that lack their flag, and flags that would do nothing."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from command_line import SMALL, cli, refusal


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["run", "own.npz"], "'own.npz' holds data: write --dataset own.npz"),
        (["cluster", "DIGITS"], "'DIGITS' is a data set: write --dataset DIGITS"),
        (["run", "pacfl:p=5"], "'pacfl:p=5' is a method: write --algorithm pacfl:p=5"),
        (["compare", "pacfl"], "'pacfl' is a method: write --algorithms pacfl"),
        (["compare", "fedavg", "pacfl"], "(pacfl): 'pacfl' is a method: write --algorithms pacfl"),
        (["sweep", "label-skew"], "'label-skew' is a partition: write --partition label-skew"),
        (["run", "mlp"], "'mlp' is a model: write --model mlp"),
        (["run", "mine.py"], "'mine.py' is a Python file: write --plugin mine.py"),
        (["run", "own.npz", "solo"], "(solo): 'solo' is a method: write --algorithm solo"),
        (["run", "nowhere"], "there is no configuration file 'nowhere'"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_word_without_its_flag(arguments: list[str], said: str, save: Callable[..., Path]) -> None:
    save()
    assert said in refusal(cli(*arguments))


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["run", "--dataset", ""], "the name of the data set is empty: name one, such as digits"),
        (["run", "--dataset", "Own.npz"], "did you mean 'own.npz'?"),
    ],
)
def test_names_that_are_empty_or_nearly_right(
    arguments: list[str], said: str, save: Callable[..., Path], place: Path
) -> None:
    shutil.copy(save(), place / "pwn.npz")
    assert said in refusal(cli(*arguments))


def test_shells_in_capital_letters() -> None:
    assert cli("completion", "Bash").out == cli("completion", "bash").out


def test_values_with_options_of_their_own_stand_apart() -> None:
    apart = cli("sweep", "--vary", "algorithm.name=fedavg", "pacfl:p=4", *SMALL, "--print-config")
    assert apart.code == 0, apart.err
    assert apart.out == cli("sweep", "--vary", "algorithm.name=fedavg,pacfl:p=4", *SMALL, "--print-config").out


def test_what_a_file_says_of_its_method_is_not_said_of_all(place: Path) -> None:
    (place / "run.toml").write_text('[algorithm]\nname = "ifca:groups=4"\n', encoding="utf-8")
    design = cli("compare", "run.toml", "--algorithms", "fedavg,ifca,pacfl", "--print-config").out
    cells = dict(re.findall(r'\[cells\."(\w+)"\]\n(.*?)(?=\n\[|\Z)', design, re.DOTALL))
    assert {name: "groups" in cell for name, cell in cells.items()} == {"fedavg": False, "ifca": True, "pacfl": False}
    base = design.partition("[cells")[0]
    assert "groups" not in base


def test_a_run_folder_is_no_configuration(finished: Path) -> None:
    assert "'run' holds runs: write coterie resume run to go on" in refusal(cli("run", "run"))


def test_overwrite_says_what_it_would_replace() -> None:
    message = refusal(cli("run", *SMALL, "--overwrite"))
    assert "replaces the run in the folder that out names, and none is named" in message
    assert "--out runs/fedavg-digits-rotated-seed0" in message
