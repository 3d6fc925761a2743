"""Runs that are damaged, changed, failed or without numbers: refused, or counted and told, never a wrong table."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from coterie.errors import CoterieError
from coterie.report.reproduction import ours_text
from coterie.reproduce import reproduce
from coterie.reproduce import trained as trained_module
from coterie.results.reproductions import NumberPair, Reproduction
from coterie.results.statistics import Spread

BOOK = Path(__file__).parent / "digits.toml"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("made")
    reproduce("digits-pair", book=BOOK, out=place, jobs=1)
    return place


@pytest.fixture
def copy(made: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(made, tmp_path / "copy"))


def pair(place: Path, **more: Any) -> Reproduction:
    return reproduce("digits-pair", book=BOOK, out=place, jobs=1, **more)


def run(place: Path, seed: int = 1) -> Path:
    return next(place.glob(f"runs/*/seed-{seed}"))


def change(file: Path, how: Callable[[dict[str, Any]], Any]) -> None:
    content = json.loads(file.read_text())
    how(content)
    file.write_text(json.dumps(content))


def cut(place: Path) -> None:
    file = run(place) / "metrics.jsonl"
    file.write_text("".join(file.read_text().splitlines(keepends=True)[:2]))


def other_settings(place: Path) -> None:
    file = run(place) / "config.toml"
    text = file.read_text()
    assert "lr = 0.05" in text
    file.write_text(text.replace("lr = 0.05", "lr = 0.5", 1))


@pytest.mark.integration
@pytest.mark.parametrize(
    ("damage", "told"),
    [
        (cut, r"metrics.jsonl' is damaged: it has 2 whole rows for 4 .*remove '.*seed-1'"),
        (
            other_settings,
            r"seed-1' holds a run with another configuration \(training.lr was 0.5, is 0.05\): remove '.*seed-1'",
        ),
        (
            lambda place: (run(place) / "result.json").write_text('{"algorithm": '),
            r"result.json' is damaged .*: remove '.*seed-1' to run it again",
        ),
        (
            lambda place: change(run(place) / "result.json", lambda content: content.pop("accuracy")),
            r"result.json' is not the result of a run: .*: remove '.*seed-1' to run it again",
        ),
        (
            lambda place: (run(place) / "config.toml").write_text("[training"),
            r"config.toml.*: remove '.*seed-1' to run it again",
        ),
        (lambda place: (run(place) / "config.toml").unlink(), r"seed-1' is not a run, but holds .*: remove it"),
    ],
)
def test_damaged_runs_are_refused(copy: Path, damage: Callable[[Path], Any], told: str) -> None:
    before = (copy / "digits-pair" / "table.txt").read_bytes()
    damage(copy)
    with pytest.raises(CoterieError, match=told):
        pair(copy)
    assert (copy / "digits-pair" / "table.txt").read_bytes() == before


@pytest.mark.integration
def test_a_seed_without_a_number_is_counted_and_told(copy: Path) -> None:
    whole = pair(copy).lines[0]
    assert whole.notes == pair(copy).lines[0].notes
    assert "of 2" not in pair(copy).report()
    change(run(copy) / "result.json", lambda content: content["accuracy"].update(G=float("nan")))
    found = pair(copy)
    line = found.lines[0]
    first = json.loads((run(copy, 0) / "result.json").read_text())["accuracy"]["G"]
    assert line.ours == Spread(1, 100 * first, None)
    assert line.notes[-1] == "G: no number in seed 1"
    for text in (found.report(), found.report("markdown"), found.report("latex")):
        assert f"{100 * first:.2f} (1 of 2)" in text
        assert "G: no number in seed 1" in text
    row = found.report("csv").splitlines()[1]
    assert ",1,2," in row
    assert "G: no number in seed 1" in row


@pytest.mark.integration
def test_other_protocols_are_counted_too(copy: Path) -> None:
    change(run(copy) / "result.json", lambda content: content["accuracy"].update(L=float("nan")))
    found = pair(copy)
    assert found.lines[0].ours is not None
    assert found.lines[0].ours.n == 2
    first = json.loads((run(copy, 0) / "result.json").read_text())["accuracy"]["L"]
    assert f"{100 * first:.2f} (1 of 2)" in found.report()
    assert "L: no number in seed 1" in found.report()


@pytest.mark.integration
def test_no_number_at_all(copy: Path) -> None:
    for seed in (0, 1):
        change(run(copy, seed) / "result.json", lambda content: content["accuracy"].update(G=float("nan")))
    line = pair(copy).lines[0]
    assert (line.ours, line.why) == (None, "NaN")
    assert line.notes[-1] == "G: no number in seeds 0, 1"


@pytest.mark.integration
def test_a_target_read_from_no_numbers(copy: Path) -> None:
    file = run(copy) / "metrics.jsonl"
    rows = [{**json.loads(line), "G": float("nan")} for line in file.read_text().splitlines()]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    found = {line.column: line for line in reproduce("digits-targets", book=BOOK, out=copy, jobs=1).lines}
    assert found["1 %"].notes[-1] == "rounds to G=0.01: no number in seed 1"
    assert ours_text(found["1 %"]) == "1 (1 of 2)"


@pytest.mark.integration
def test_a_failed_seed_is_counted(copy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (run(copy) / "result.json").unlink()
    monkeypatch.setattr(trained_module, "run_jobs", lambda waiting, *rest: dict.fromkeys(waiting, "it fell over"))
    found = pair(copy)
    assert found.failed == ("Digits, FedAvg: seed 1: it fell over",)
    assert "(1 of 2)" in ours_text(found.lines[0])
    assert found.lines[0].notes[-1] == "failed: seed 1"
    assert found.report("csv").splitlines()[1].count(",1,2,") == 1


def test_a_number_of_fewer_seeds_says_so_in_a_wide_table() -> None:
    line = NumberPair("a", "b", "L", "5", 5.0, None, Spread(2, 4.0, 1.0), asked=3)
    wide = Reproduction("n", "t", "s", "1", "statistics", "%", (0, 1, 2), (line,), wide=True)
    assert "4.00 ± 1.00 (2 of 3) (5)" in wide.report()


@pytest.mark.integration
def test_held_out_samples_are_not_called_test_samples(tmp_path: Path) -> None:
    text = reproduce("digits-held-out", book=BOOK, out=tmp_path, jobs=1, rounds_scale=0.1).report()
    assert "20% of the training samples, held out" in " ".join(text.split())
    assert "test set" not in text


@pytest.mark.parametrize("given", [{"datasets": []}, {"algorithms": []}, {"datasets": [""]}])
def test_an_empty_part_is_refused(copy: Path, given: dict[str, Any]) -> None:
    before = (copy / "digits-pair" / "table.txt").stat().st_mtime_ns
    with pytest.raises(CoterieError, match=r"no (data set|method) is named"):
        pair(copy, **given)
    assert (copy / "digits-pair" / "table.txt").stat().st_mtime_ns == before


def test_a_folder_of_somebody_else_is_left_alone(tmp_path: Path) -> None:
    mine = tmp_path / "sub-fedavg-costs" / "mine.png"
    mine.parent.mkdir()
    mine.write_text("mine")
    with pytest.raises(CoterieError, match="is there already, and is not a reproduction: choose another out="):
        reproduce("sub-fedavg-costs", out=tmp_path)
    assert [*mine.parent.iterdir()] == [mine]
