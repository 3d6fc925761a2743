"""A folder can always be run or gone on with, wherever a kill came; links in it lead nowhere; flipped bits are seen."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any

import pytest

import coterie
from coterie import files
from coterie.data import FederatedData
from coterie.deploy.app_folder import init
from coterie.errors import CoterieError
from coterie.results.run_folder import RunFolder
from coterie.run import runner
from coterie.run.progress import Progress
from coterie.run.runner import resume
from coterie.run.settings import settings_to_config
from coterie.testing import outcome, small_settings
from power_cuts import Event, HastyDisk, RecordingDisk, folders_after, materialise

SEED = 20261117


@pytest.fixture(autouse=True)
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "DISK", HastyDisk())


def settings_of(method: str, **more: Any) -> dict[str, Any]:
    return {"algorithm": method, **small_settings(method), "workers": 1, "rounds": 2, "eval_every": 1, **more}


def recorded(place: Path, monkeypatch: pytest.MonkeyPatch, work: Callable[[], object]) -> tuple[list[Event], int]:
    """Return what is asked of the disk below a folder, after so many events that make what is there already."""
    disk = RecordingDisk(place)
    begun = len(disk.events)
    with monkeypatch.context() as patched:
        patched.setattr(files, "DISK", disk)
        work()
    return disk.events, begun


def killed_at(events: list[Event], cut: int, place: Path) -> Path:
    """Make the folder that a kill after so many events leaves."""
    place.mkdir()
    materialise(next(folders_after(events, cut, Random(0))), place)
    return place


def tree(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def refusal_of(folder: Path) -> str | None:
    """Go on with a run, and return why that is refused, if it is."""
    try:
        resume(folder)
    except CoterieError as error:
        return str(error)
    return None


class Interrupted(Exception):
    """The run was broken off."""


class After(Progress):
    """Breaks a run off after a round."""

    def __init__(self, last: int) -> None:
        self.last = last

    def round(self, round: int, row: object) -> None:
        if round == self.last:
            raise Interrupted


@pytest.mark.parametrize("left", [["lock"], ["lock", "config.toml.part"], ["config.toml.part"]])
@pytest.mark.parametrize("overwrite", [False, True])
def test_a_run_killed_before_it_had_begun_can_be_run(left: list[str], overwrite: bool, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    folder.mkdir()
    for name in left:
        (folder / name).write_text("ha" if name.endswith(".part") else "")
    with pytest.raises(CoterieError, match="ended before it had begun: give the same command again"):
        resume(folder)
    coterie.run(out=str(folder), overwrite=overwrite, **settings_of("fedavg", rounds=1))
    assert RunFolder(folder).finished
    assert not list(folder.glob("*.part"))


@pytest.mark.integration
def test_a_run_killed_while_it_replaces_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """At every moment up to the new configuration, the folder goes on with the old run or the new one."""
    old, new = settings_of("solo", seed=1), settings_of("scaffold")
    (tmp_path / "recorded").mkdir()
    out = str(tmp_path / "recorded" / "run")
    outcomes = [outcome(coterie.run(out=out, **old))]

    def replace() -> None:
        outcomes.append(outcome(coterie.run(out=out, overwrite=True, **new)))

    events, begun = recorded(tmp_path / "recorded", monkeypatch, replace)
    for cut in sorted(Random(SEED).sample(range(begun, len(events)), 12)):
        folder = killed_at(events, cut, tmp_path / f"{cut}") / "run"
        assert outcome(resume(folder)) in outcomes, f"after {cut - begun} of {len(events) - begun} events"
        folder = killed_at(events, cut, tmp_path / f"again-{cut}") / "run"
        assert outcome(coterie.run(out=str(folder), overwrite=True, **new)) == outcomes[1], (
            f"after {cut - begun} events"
        )


@pytest.mark.integration
def test_a_comparison_killed_anywhere_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def compare(place: Path) -> str:
        given = settings_of("fedavg", rounds=1)
        del given["algorithm"]
        made = coterie.compare(algorithms="fedavg,solo", seeds=[0], out=place / "compared", jobs=1, **given)
        assert not made.failed
        return "".join(f"{row.label}{row.accuracy}" for row in made.table().rows)

    (tmp_path / "recorded").mkdir()
    tables: list[str] = []
    events, _ = recorded(tmp_path / "recorded", monkeypatch, lambda: tables.append(compare(tmp_path / "recorded")))
    for cut in [*range(12), *sorted(Random(SEED).sample(range(12, len(events)), 6))]:
        assert compare(killed_at(events, cut, tmp_path / f"{cut}")) == tables[0], f"after {cut} of {len(events)} events"


def test_an_app_whose_writing_was_killed_is_written_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = tmp_path / "place"
    place.mkdir()
    events, _ = recorded(place, monkeypatch, lambda: init(place / "app", "mine"))
    whole = tree(place)
    for cut in range(len(events)):
        files.remove_tree(place)
        killed_at(events, cut, place)
        if tree(place) != whole:
            init(place / "app", "mine")
        assert tree(place) == whole
    with pytest.raises(CoterieError, match="is there already"):
        init(place / "app", "mine")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "site.toml").write_text("somebody's")
    with pytest.raises(CoterieError, match="is there already"):
        init(tmp_path / "other", "mine")


@pytest.mark.parametrize("left", [["lock"], ["lock", "sites.json.part"], ["lock", "sites.json", "config.toml.part"]])
def test_a_server_killed_before_it_had_begun_begins(left: list[str], tmp_path: Path) -> None:
    folder = tmp_path / "run"
    folder.mkdir()
    for name in left:
        (folder / name).write_text("")

    def engine(folder: RunFolder) -> Any:
        raise Interrupted

    config = settings_to_config(None, {**settings_of("fedavg"), "out": str(folder)})
    data: FederatedData = None  # type: ignore[assignment]
    with pytest.raises(Interrupted):
        runner.run_with(config, data, engine, Progress())


def test_a_folder_that_was_taken_while_the_lock_was_waited_for_is_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    coterie.run(out=str(tmp_path / "other"), **settings_of("solo"))
    real = runner.locked

    @contextmanager
    def slow(path: Path, *patience: float) -> Iterator[object]:
        shutil.copytree(tmp_path / "other", path, dirs_exist_ok=True)
        with real(path, *patience) as file:
            yield file

    monkeypatch.setattr(runner, "locked", slow)
    with pytest.raises(CoterieError, match="holds a finished run"):
        coterie.run(out=str(tmp_path / "run"), **settings_of("fedavg"))
    assert tree(tmp_path / "run") == tree(tmp_path / "other")


@pytest.mark.parametrize(
    "name", ["lock", "config.toml.part", "checkpoint.safetensors.part", "metrics.jsonl", "clients"]
)
def test_links_in_a_folder_that_somebody_sent_lead_nowhere(name: str, tmp_path: Path) -> None:
    victim = tmp_path / "home"
    victim.mkdir()
    (victim / "1.safetensors").write_text("precious")
    folder = tmp_path / "run"
    with pytest.raises(Interrupted):
        coterie.run(out=str(folder), progress=After(1), **settings_of("solo"))
    files.remove_tree(folder / name)
    (folder / name).symlink_to(victim if name == "clients" else victim / "1.safetensors")
    before = tree(victim)
    assert name in (refusal_of(folder) or name)
    assert tree(victim) == before
    assert {path.name for path in victim.iterdir()} == {"1.safetensors"}


@pytest.mark.integration
def test_a_flipped_bit_is_refused_or_does_no_harm(tmp_path: Path) -> None:
    """In states, checkpoint, its parts and the journal; pictures and metrics are made again."""
    for method in ("scaffold", "pacfl"):
        settings = settings_of(method, rounds=3, fraction=1.0, state="disk")
        whole = outcome(coterie.run(out=str(tmp_path / f"{method}-whole"), **settings))
        with pytest.raises(Interrupted):
            coterie.run(out=str(tmp_path / method), progress=After(2), **settings)
        luck, refused = Random(f"{SEED} {method}"), 0
        written = sorted(tree(tmp_path / method).keys() - {"lock", "config.toml"})
        for number in range(20):
            folder = Path(shutil.copytree(tmp_path / method, tmp_path / f"{method}-{number}"))
            file = folder / luck.choice(written)
            content = bytearray(file.read_bytes())
            content[luck.randrange(len(content))] ^= 1 << luck.randrange(8)
            file.write_bytes(content)
            if (said := refusal_of(folder)) is None:
                assert outcome(coterie.Result.load(folder)) == whole, file
            else:
                refused += 1
                assert file.name in said
                assert "anew" in said or "--overwrite" in said or "overwrite=True" in said
        assert refused > 5


def test_a_state_that_is_not_the_checkpoints_is_refused(tmp_path: Path) -> None:
    """An older or another client's state, whole in itself, is not what the run goes on from."""
    settings = settings_of("scaffold", rounds=3, fraction=1.0, state="disk")
    with pytest.raises(Interrupted):
        coterie.run(out=str(tmp_path / "run"), progress=After(2), **settings)
    state = tmp_path / "run" / "clients" / "3" / "2.safetensors"
    content = state.read_bytes()
    state.write_bytes((tmp_path / "run" / "clients" / "4" / "2.safetensors").read_bytes())
    with pytest.raises(CoterieError, match=r"client 3.*2\.safetensors.*another than.*checkpoint names"):
        resume(tmp_path / "run")
    state.unlink()
    with pytest.raises(CoterieError, match=r"client 3.*2\.safetensors.*missing"):
        resume(tmp_path / "run")
    state.write_bytes(content)
    resume(tmp_path / "run")


def test_metrics_are_made_again_from_the_checkpoint(tmp_path: Path) -> None:
    settings = settings_of("fedavg", rounds=3)
    whole = outcome(coterie.run(out=str(tmp_path / "whole"), **settings))
    for damage in (b"", b"{half", b'{"round": 1}\n{"round": 2}\n'):
        with pytest.raises(Interrupted):
            coterie.run(out=str(tmp_path / "run"), overwrite=True, progress=After(2), **settings)
        (tmp_path / "run" / "metrics.jsonl").write_bytes(damage)
        assert outcome(resume(tmp_path / "run")) == whole
    lines = [(tmp_path / name / "metrics.jsonl").read_text().count("\n") for name in ("run", "whole")]
    assert lines == [3, 3]
