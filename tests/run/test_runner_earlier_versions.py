"""A run that an earlier version began, before there were label offsets, goes on."""

import json
import re
from pathlib import Path

import pytest

import coterie
from coterie.errors import CoterieError
from coterie.federation.checkpoint import load_checkpoint, save_checkpoint
from coterie.results.run_folder import RunFolder
from coterie.run.progress import Progress
from coterie.testing import outcome, small_run


class BrokenOff(Exception):
    pass


class BreaksOff(Progress):
    """Ends a run after a round."""

    def round(self, round: int, row: object) -> None:
        if round == 2:
            raise BrokenOff


def as_an_earlier_version_left_it(folder: RunFolder) -> None:
    """Without the options of label offsets, and without scores by label."""
    state = load_checkpoint(folder.checkpoint)
    config = json.loads(state["config"])
    for key in ("labels", "serving"):
        del config["algorithm"][key]
    scores = {key: value for key, value in state["evaluator"].items() if "label" not in key and "_lacking" not in key}
    scores.pop("by_own_frequencies")
    save_checkpoint(folder.checkpoint, {**state, "config": json.dumps(config), "evaluator": scores})
    text = folder.config_file.read_text()
    folder.config_file.write_text(re.sub(r"^(labels|serving) = .*\n", "", text, flags=re.MULTILINE))


def test_a_run_from_before_goes_on_to_the_same_numbers(tmp_path: Path) -> None:
    whole = small_run("fedavg", out=str(tmp_path / "whole"))
    with pytest.raises(BrokenOff):
        small_run("fedavg", out=str(tmp_path / "old"), progress=BreaksOff())
    as_an_earlier_version_left_it(RunFolder(tmp_path / "old"))
    assert outcome(coterie.resume(tmp_path / "old")) == outcome(whole)


def test_offsets_are_not_changed_in_the_middle_of_a_run(tmp_path: Path) -> None:
    with pytest.raises(BrokenOff):
        small_run("fedavg", out=str(tmp_path / "old"), progress=BreaksOff())
    folder = RunFolder(tmp_path / "old")
    as_an_earlier_version_left_it(folder)
    text = folder.config_file.read_text()
    folder.config_file.write_text(text.replace('name = "fedavg"', 'name = "fedavg"\nlabels = "both"'))
    with pytest.raises(CoterieError, match=r"algorithm\.labels was 'none', is 'both'"):
        coterie.resume(tmp_path / "old")
