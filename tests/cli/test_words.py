"""Words that lack their flag, and flags that would do nothing."""

from __future__ import annotations

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


def test_a_run_folder_is_no_configuration(finished: Path) -> None:
    assert "'run' holds runs: write coterie resume run to go on" in refusal(cli("run", "run"))


def test_overwrite_says_what_it_would_replace() -> None:
    message = refusal(cli("run", *SMALL, "--overwrite"))
    assert "replaces the run in the folder that out names, and none is named" in message
    assert "--out runs/fedavg-digits-rotated-seed0" in message
