"""A run that is given more rounds ends as if it had had them from the start, or is refused."""

import re
from pathlib import Path
from typing import Any

import pytest

import coterie
from coterie.errors import CoterieError
from coterie.federation.checkpoint import load_checkpoint, save_checkpoint
from coterie.results.run_folder import RunFolder
from coterie.run.progress import Progress
from coterie.testing import outcome, small_run

FILES = ("config.toml", "metrics.jsonl", "result.json", "checkpoint.safetensors", "journal.jsonl")


class BrokenOff(Exception):
    pass


class BreaksOff(Progress):
    """Ends a run after a round."""

    def __init__(self, last: int) -> None:
        self.last = last

    def round(self, round: int, row: object) -> None:
        if round == self.last:
            raise BrokenOff


def content(folder: Path) -> dict[str, bytes]:
    return {name: (folder / name).read_bytes() for name in FILES}


def refused(folder: Path, rounds: int) -> str:
    """Return why; nothing may have changed."""
    before = content(folder)
    with pytest.raises(CoterieError) as error:
        coterie.resume(folder, rounds=rounds)
    assert content(folder) == before
    return str(error.value)


@pytest.mark.integration
@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"eval_every": 1},
        {"eval_every": 0},
        {"newcomers": 0.34, "join_at": 2},
        {"client_curriculum": "order=random,b=1,all_batches=true"},  # whose pool is everybody from the first round on
        {"dataset": "digits", "partition": "label-skew:rho=0.3", "drop": 0.3, "target": ["L=0.2"]},
    ],
    ids=["rarely", "always", "at the end", "newcomers", "batches", "faults"],
)
def test_a_finished_run_goes_on(tmp_path: Path, settings: dict[str, Any]) -> None:
    whole = small_run("ifca", **{**settings, "rounds": 5}, out=str(tmp_path / "whole"))
    small_run("ifca", **{**settings, "rounds": 3}, out=str(tmp_path / "run"))
    longer = coterie.resume(tmp_path / "run", rounds=5)
    assert outcome(longer) == outcome(whole)
    views = [RunFolder(tmp_path / name).arrays_file.read_bytes() for name in ("run", "whole")]
    assert views[0] == views[1]
    rows = [(tmp_path / name / "metrics.jsonl").read_text() for name in ("run", "whole")]
    without_times = [re.sub(r'"seconds": [^,}]*', "", text) for text in rows]
    assert without_times[0] == without_times[1]  # also without the row of what was the last round


@pytest.mark.integration
def test_an_unfinished_run_may_have_more_or_less(tmp_path: Path) -> None:
    with pytest.raises(BrokenOff):
        small_run("fedavg", rounds=4, out=str(tmp_path / "run"), progress=BreaksOff(2))
    assert "it has done 2; ask for more than that" in _refusal(tmp_path / "run", 2)
    longer = coterie.resume(tmp_path / "run", rounds=3)
    assert outcome(longer) == outcome(small_run("fedavg", rounds=3, out=str(tmp_path / "whole")))


def _refusal(folder: Path, rounds: int) -> str:
    with pytest.raises(CoterieError) as error:
        coterie.resume(folder, rounds=rounds)
    return str(error.value)


def test_wherever_it_is_killed_it_goes_on(tmp_path: Path) -> None:
    first = small_run("fedavg", rounds=3, out=str(tmp_path / "run"))
    folder = RunFolder(tmp_path / "run")
    folder.result_file.unlink()  # killed before it had written what to go on to
    assert outcome(coterie.resume(folder.path)) == outcome(first)
    folder.result_file.unlink()  # and after it
    text = folder.config_file.read_text()
    folder.config_file.write_text(text.replace("rounds = 3", "rounds = 4"))
    whole = small_run("fedavg", rounds=4, out=str(tmp_path / "whole"))
    assert outcome(coterie.resume(folder.path)) == outcome(whole)
    assert outcome(coterie.resume(folder.path, rounds=4)) == outcome(whole)  # nothing is left to do


def test_what_depends_on_how_many_rounds_there_are_is_refused(tmp_path: Path) -> None:
    small_run("fedavg", rounds=3, client_curriculum="a=0.8,b=0.2", out=str(tmp_path / "paced"))
    reason = refused(tmp_path / "paced", 6)
    assert re.search(r"the client curriculum depends .* in a run of 6, round 2 .* not cohorts from \d of 6", reason)
    small_run("solo", rounds=3, out=str(tmp_path / "solo"))
    assert "in a run of 4, round 3 would have had 0 epochs, not 1 epoch;" in refused(tmp_path / "solo", 4)
    small_run("fedavg", rounds=3, newcomers=0.34, out=str(tmp_path / "late"))
    assert "clients joined after round 3" in refused(tmp_path / "late", 4)
    assert "it has done 3; ask for more" in refused(tmp_path / "late", 2)


def test_alone_with_as_many_epochs_in_each_round_goes_on(tmp_path: Path) -> None:
    settings = {"fraction": 1.0, "epochs": 2}
    small_run("solo", **settings, rounds=2, out=str(tmp_path / "run"))
    whole = small_run("solo", **settings, rounds=3, out=str(tmp_path / "whole"))
    assert outcome(coterie.resume(tmp_path / "run", rounds=3)) == outcome(whole)


def test_alone_with_clients_who_come_later_goes_on(tmp_path: Path) -> None:
    """By the usual fraction of those who were there: with all 6, a run of 3 would have had no epoch in round 1."""
    settings = {"fraction": None, "epochs": 1, "newcomers": 0.34, "join_at": 2}
    small_run("solo", **settings, rounds=2, out=str(tmp_path / "run"))
    whole = small_run("solo", **settings, rounds=3, out=str(tmp_path / "whole"))
    assert outcome(coterie.resume(tmp_path / "run", rounds=3)) == outcome(whole)


def test_what_an_earlier_version_ended_or_lost_its_checkpoint_is_refused(tmp_path: Path) -> None:
    small_run("fedavg", rounds=2, out=str(tmp_path / "run"))
    file = tmp_path / "run" / "checkpoint.safetensors"
    state = load_checkpoint(file)
    save_checkpoint(file, {key: value for key, value in state.items() if key not in ("before_end", "row")})
    assert "an earlier version of Coterie ended it" in refused(tmp_path / "run", 3)
    save_checkpoint(file, {**state, "before_end": {"row": None}})
    assert "holds a state that can't be restored" in refused(tmp_path / "run", 3)
    file.unlink()
    assert "checkpoint.safetensors' is missing" in _refusal(tmp_path / "run", 3)


def test_rounds_that_can_not_be_are_refused_as_at_first(tmp_path: Path) -> None:
    small_run("fedavg", rounds=2, out=str(tmp_path / "run"))
    assert "training.rounds = -1 is not valid" in refused(tmp_path / "run", -1)
    assert "(set by rounds=)" in refused(tmp_path / "run", -1)
