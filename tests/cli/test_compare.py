"""`coterie compare` and `coterie sweep` in a shell: kills, failures, bad folders."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from command_line import SMALL, Terminal, cli, command, outcome, refusal, tree, without_times

PLUGIN = '''"""Methods that tell what they do."""

import os
import time

import coterie
from coterie.algorithms.fedavg import FedAvg


class Logged(FedAvg):
    """Writes a line for each round."""

    name = "?"

    def round(self, fed, cohort):
        super().round(fed, cohort)
        time.sleep(float(os.environ.get("SLOWLY", "0")))
        with open(os.environ["LOG"], "a") as file:
            file.write(f"{self.name} {fed.seed} {fed.round}\\n")


@coterie.algorithm("first")
class First(Logged):
    """The first."""

    name = "first"


@coterie.algorithm("second")
class Second(Logged):
    """The second."""

    name = "second"


@coterie.algorithm("raising")
class Raising(FedAvg):
    """Raises an error in round 2 with seed 1."""

    def round(self, fed, cohort):
        if fed.seed == 1 and fed.round == 2:
            raise ValueError("that was too much")
        super().round(fed, cohort)
'''


@pytest.fixture
def plugin(place: Path, registries_put_back: None, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    (place / "logged.py").write_text(PLUGIN)
    monkeypatch.setenv("LOG", str(place / "log"))
    return ["--plugin", "logged.py"]


def table(folder: Path) -> Any:
    """Return comparison.json but for times."""
    return without_times(json.loads((folder / "comparison.json").read_text(encoding="utf-8")))


def children(process: int) -> list[int]:
    """Return the processes that a process has started, on Linux."""
    found = []
    for task in Path(f"/proc/{process}/task").glob("*"):
        found += [int(child) for child in (task / "children").read_text().split()]
    return found


def alive(process: int) -> bool:
    try:
        state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"


def wait(until: Callable[[], Any], seconds: float = 120) -> None:
    began = time.monotonic()
    while not until():
        assert time.monotonic() - began < seconds
        time.sleep(0.01)


LONG = [*SMALL, "--algorithms", "first,second", "--seeds", "0,1", "--rounds", "12", "--quiet"]


@pytest.mark.integration
@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="finds workers through /proc")
@pytest.mark.parametrize(
    "blow",
    [
        pytest.param(signal.SIGKILL, id="kill -9"),
        pytest.param(signal.SIGINT, id="Ctrl-C", marks=pytest.mark.slow),
    ],
)
def test_ended_in_the_middle_and_started_again(place: Path, plugin: list[str], blow: signal.Signals) -> None:
    """No run is lost or repeated, the table is the same, and no worker outlives the command."""
    assert cli("compare", *LONG, *plugin, "--jobs", "1", "--out", "whole").code == 0
    (place / "log").unlink()
    process = subprocess.Popen(
        command("compare", *LONG, *plugin, "--jobs", "2", "--out", "cut"),
        env=os.environ | {"SLOWLY": "0.05"}, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    wait(lambda: process.poll() is not None or list(place.glob("cut/*/*/result.json")))
    wait(lambda: process.poll() is not None or len(list(place.glob("cut/second/*/checkpoint.safetensors"))) > 0)
    workers = children(process.pid)
    process.send_signal(blow)
    _, said = process.communicate(timeout=60)
    assert process.returncode == (-9 if blow == signal.SIGKILL else 130), "it came to its end before: make it longer"
    assert said == ("" if blow == signal.SIGKILL else "coterie: interrupted; go on with 'coterie resume cut'\n")
    assert len(workers) == 2
    wait(lambda: not any(map(alive, workers)), 20)

    finished = {path: path.stat().st_mtime_ns for path in place.glob("cut/*/*/result.json")}
    assert 1 <= len(finished) < 4
    assert not (place / "cut" / "comparison.json").exists()
    again = ["resume", "cut", "--quiet"]
    if blow == signal.SIGKILL:  # the same command, but in this process, which is faster
        again = ["compare", *LONG, *plugin, "--jobs", "1", "--out", "cut"]
    answer = cli(*again)
    assert (answer.code, answer.out, answer.err) == (0, "", "")
    assert {path: path.stat().st_mtime_ns for path in finished} == finished
    assert table(place / "cut") == table(place / "whole")
    for run in ("first/seed-0", "first/seed-1", "second/seed-0", "second/seed-1"):
        assert outcome(place / "cut" / run) == outcome(place / "whole" / run)
    rounds = Counter((place / "log").read_text().splitlines())
    assert len(rounds) == 4 * 12
    repeated = Counter(line.rpartition(" ")[0] for line, times in rounds.items() if times > 1)
    assert all(times <= 2 for times in rounds.values())  # the round in which a run was broken off, and no other
    assert all(times == 1 for times in repeated.values())
    assert len(repeated) <= 2


@pytest.mark.integration
def test_runs_of_a_method_that_was_edited_are_not_taken_for_its(place: Path, plugin: list[str]) -> None:
    asked = ["compare", *SMALL, *plugin, "--algorithms", "fedavg,solo", "--seeds", "0", "--jobs", "1", "--out", "c"]
    assert cli(*asked).code == 0
    assert cli(*asked).code == 0
    (place / "logged.py").write_text(f"{PLUGIN}\n# edited\n")
    answer = cli(*asked)
    assert answer.code == 2
    assert "plugin logged.py has changed since the run in 'c/fedavg/seed-0' was made" in answer.lines[-1]


@pytest.mark.integration
def test_a_failing_run_is_named_and_the_others_go_on(place: Path, plugin: list[str]) -> None:
    answer = cli(
        "compare", *SMALL, *plugin, "--algorithms", "raising,fedavg", "--seeds", "0,1", "--jobs", "1", "--out", "c"
    )
    assert answer.code == 2
    assert answer.lines[-1] == (
        "coterie: 1 of 4 runs failed (raising, seed 1: ValueError: that was too much): tracebacks are in "
        "files named *.error.txt under c; the same command tries them again"
    )
    assert "raising, seed 1, failed: ValueError: that was too much" in answer.lines
    assert len(list(place.glob("c/*/*/result.json"))) == 3
    assert "fedavg" in answer.out
    assert "raising: there is no result of seed 1." in answer.out
    written = json.loads((place / "c" / "comparison.json").read_text())
    assert written["cells"][0]["failed"] == [{"seed": 1, "why": "ValueError: that was too much"}]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("made") / "c"
    answer = cli("compare", *ASKED, "--out", folder)
    assert answer.code == 0, answer.err
    return folder


ASKED = [*SMALL, "--algorithms", "fedavg,solo", "--seeds", "0,1", "--jobs", "1"]


@pytest.fixture
def compared(place: Path, made: Path) -> Path:
    return Path(shutil.copytree(made, place / "c"))


def cut(name: str, length: int) -> Callable[[Path], None]:
    def apply(folder: Path) -> None:
        file = folder / "fedavg" / "seed-0" / name
        file.write_text(file.read_text()[:length])

    return apply


def change(folder: Path) -> None:
    file = folder / "fedavg" / "seed-0" / "config.toml"
    text = file.read_text()
    assert "lr = 0.05" in text
    file.write_text(text.replace("lr = 0.05", "lr = 0.06"))


def foreign(folder: Path) -> None:
    shutil.rmtree(folder / "fedavg" / "seed-0")
    (folder / "fedavg" / "seed-0").mkdir()
    (folder / "fedavg" / "seed-0" / "thesis.tex").touch()


@pytest.mark.integration
@pytest.mark.parametrize(
    ("damage", "flags", "message"),
    [
        (lambda c: None, ["--lr", "0.06"], "a comparison with other settings (fedavg: training.lr was 0.05, is 0.06)"),
        (lambda c: None, ["--tune", "momentum=0.1,0.2"], "chosen in another way"),
        (change, [], "holds a run with another configuration (training.lr was 0.06, is 0.05)"),
        (cut("metrics.jsonl", 40), [], "is damaged: it has 0 whole rows for 2 evaluated rounds"),
        (cut("metrics.jsonl", 600), [], "is damaged: it has 1 whole rows for 2 evaluated rounds"),
        (cut("result.json", 100), [], "'c/fedavg/seed-0/result.json' is damaged"),
        (cut("result.json", 0), [], "'c/fedavg/seed-0/result.json' is damaged"),
        (cut("config.toml", 3), [], "config.toml' is damaged"),
        (cut("config.toml", 0), [], "a run with another configuration (data.name was 'digits', is 'digits-rotated'"),
        (foreign, [], "'c/fedavg/seed-0' is not a run, but holds thesis.tex"),
        (lambda c: (c / "comparison.toml").write_text("["), [], "comparison.toml' is not a TOML file"),
        (lambda c: (c / "comparison.toml").write_text(""), [], "comparison.toml' is damaged"),
        (lambda c: (c / "comparison.toml").unlink(), [], "exists and is not a comparison"),
    ],
)  # fmt: skip
def test_folders_that_do_not_fit_are_refused_and_left_alone(
    compared: Path, damage: Callable[[Path], Any], flags: list[str], message: str
) -> None:
    damage(compared)
    before = tree(compared)
    assert message in refusal(cli("compare", *ASKED, *flags, "--out", "c"))
    assert tree(compared) == before


@pytest.mark.integration
def test_holes_in_the_metrics_of_an_unfinished_run_are_mended_from_its_checkpoint(compared: Path) -> None:
    metrics = compared / "fedavg" / "seed-0" / "metrics.jsonl"
    before = metrics.read_text()
    (compared / "fedavg" / "seed-0" / "result.json").unlink()
    cut("metrics.jsonl", 40)(compared)
    assert cli("compare", *ASKED, "--out", "c").code == 0
    assert metrics.read_text() == before


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["compare", "--algorithms", "fedavg"], "two methods or more"),
        (["compare"], "name the methods to compare"),
        (["compare", "--algorithms", "fedavg,fedavg"], "named twice"),
        (["compare", "--algorithms", "fedavg,solo", "--seeds", "0,x"], "whole numbers"),
        (["compare", "--algorithms", "fedavg,solo", "--seeds", "1,1"], "seed 1 is named twice"),
        (["compare", "--algorithms", "fedavg,solo", "--tune", "lr"], "--tune key=value,value"),
        (
            ["compare", "--algorithms", "fedavg,solo", "--tune", "lr=1,2", "--tune-seeds", "-3"],
            "tune-seed -3 is not valid",
        ),
        (
            ["compare", "--algorithms", "fedavg,solo", "--tune", "lr=1,2", "--tune-seeds", "0,0"],
            "tune-seed 0 is named twice",
        ),
        (["compare", "--algorithms", "fedavg,solo", "--target", "1.5"], "like L=0.8"),
        (["compare", "--algorithms", "fedavg,solo", "--dataset", "nothing.npz"], "nothing.npz"),
        (["compare", "nothing.toml", "--algorithms", "fedavg,solo"], "there is no configuration file"),
        (["sweep"], "name what to vary"),
        (["sweep", "--vary", "grouping.treshold=1,2"], "did you mean 'threshold'?"),
        (["sweep", "--vary", "lr=0.1,0.2", "--vary", "lr=0.3"], "names lr twice"),
        (["sweep", "--vary", "lr=0.1"], "two values or more"),
        (["sweep", "--vary", "grouping.threshold=1,2"], "takes no options for groups"),
        (["sweep", "--algorithm", "pacfl", "--vary", "threshold=-1,2"], "greater than or equal to 0"),
    ],
)
def test_wrong_questions_leave_nothing_behind(place: Path, arguments: list[str], message: str) -> None:
    before = tree(place)
    assert message in refusal(cli(*arguments, "--out", "c"))
    assert tree(place) == before


def test_other_things_are_not_comparisons(place: Path, finished: Path) -> None:
    (place / "file").touch()
    (place / "mine").mkdir()
    (place / "mine" / "thesis.tex").touch()
    before = tree(place)
    for out, message in (("file", "is a file"), ("mine", "is not a comparison"), ("run", "holds a single run")):
        assert message in refusal(cli("compare", *ASKED, "--out", out))
    assert tree(place) == before


@pytest.mark.integration
def test_the_table_comes_in_four_formats(compared: Path) -> None:
    for format, sign, file in (
        ("text", "─", "txt"), ("markdown", "| method |", "md"), ("csv", "method,runs", "csv"), ("latex", "rule", "tex"),
    ):  # fmt: skip
        answer = cli("compare", *ASKED, "--out", "c", "--format", format)
        assert answer.code == 0, answer.err
        assert sign in answer.out
        assert answer.out.removesuffix("Folder: c\n") == (compared / f"table.{file}").read_text(encoding="utf-8")


@pytest.mark.integration
def test_a_comparison_is_a_file_to_run_again(compared: Path, place: Path) -> None:
    answer = cli("compare", "c/comparison.toml", "--out", "again", "--jobs", "1", "--quiet")
    assert (answer.code, answer.err) == (0, "")
    assert table(place / "again") == table(compared)
    assert "leave out --algorithms" in refusal(cli("compare", "c/comparison.toml", "--algorithms", "fedavg,solo"))
    assert "leave out --tune-share" in refusal(cli("compare", "c/comparison.toml", "--tune-share", "0.5"))
    changed = cli("compare", "c/comparison.toml", "--protocol", "C", "--target", "0.3", "--print-config")
    assert 'protocol = "C"' in changed.out
    assert '"C=0.3"' in changed.out


def test_help_has_no_marks_of_an_escape() -> None:
    assert "[x>=1]" in cli("compare", "--help").out
    assert "\\" not in cli("compare", "--help").out


def test_settings_of_methods_in_a_file(place: Path) -> None:
    (place / "base.toml").write_text('[data]\nname = "digits"\n[methods.solo]\nepochs = 3\nlr = 0.2\n')
    answer = cli("compare", "base.toml", "--algorithms", "fedavg,solo", "--print-config", "--rounds", "3")
    assert answer.code == 0
    assert '[cells."solo"]\n"algorithm.name" = "solo"\n"algorithm.epochs" = 3\n"training.lr" = 0.2\n' in answer.out
    assert "rounds = 3" in answer.out
    assert list(place.iterdir()) == [place / "base.toml"]
    (place / "base.toml").write_text("methods = 3\n")
    assert "[methods.pacfl]" in refusal(cli("compare", "base.toml", "--algorithms", "fedavg,solo"))


def test_dry_run_says_how_many(place: Path) -> None:
    answer = cli("compare", *ASKED, "--tune", "lr=0.1,0.01", "--dry-run")
    assert "fedavg: 2 runs and 2 to choose settings, each about" in answer.out
    assert list(place.iterdir()) == []


@pytest.mark.integration
def test_a_sweep_names_its_folder_and_its_settings(place: Path) -> None:
    answer = cli("sweep", *SMALL, "--algorithm", "pacfl", "--vary", "threshold=1,60", "--seeds", "0", "--jobs", "1")
    assert answer.code == 0, answer.err
    assert "Folder: runs/sweep-digits-rotated" in answer.out
    assert answer.lines[0] == "2 settings, seed 0: 2 runs"
    assert (place / "runs" / "sweep-digits-rotated" / "threshold=60" / "seed-0" / "result.json").exists()


@pytest.mark.slow
def test_a_terminal_shows_all_runs(place: Path) -> None:
    terminal = Terminal("compare", *ASKED, "--out", "c")
    out = terminal.wait()
    assert terminal.process.returncode == 0
    assert "fedavg" in out
    assert "2 methods, seeds 0, 1" in terminal.screen
    assert "fedavg, seed 0" in terminal.screen
    assert "solo, seed 1: L" in terminal.screen
