"""Where words go: progress to standard error, results to standard output; live only on a terminal."""

from __future__ import annotations

import os
import re
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from command_line import SMALL, Terminal, cli, refusal, spawn

ESCAPE = "\x1b"
HIDE, SHOW = "\x1b[?25l", "\x1b[?25h"
"""The cursor, which a live display hides while it is drawn."""


@pytest.mark.integration
def test_piped_output_is_plain_lines(place: Path) -> None:
    answer = spawn("run", *SMALL, "--out", "run", env={"TERM": "xterm-256color", "COLORTERM": "truecolor"})
    assert answer.code == 0
    assert ESCAPE not in answer.out + answer.err
    assert "\r" not in answer.out + answer.err

    assert answer.lines[0] == "reading digits-rotated"
    assert answer.lines[1] == "fedavg on digits-rotated, 6 clients, seed 0"
    number = r"\d+\.\d+"
    for line, round in zip(answer.lines[2:4], (2, 4), strict=True):
        assert re.fullmatch(
            rf"round {round}/4  L {number} %  C {number} %  G {number} %  loss {number}  "
            rf"{number} clients/s  left \d+:\d\d",
            line,
        )
    assert len(answer.lines) == 5

    table = answer.out.splitlines()
    assert table[0] == "digits-rotated, 6 clients, mlp, 4 rounds, seed 0"
    assert any(line.split()[:1] == ["fedavg"] for line in table)
    assert max(map(len, table)) <= 100
    assert "Run folder: run" in table
    assert (place / "run" / "accuracy.png").read_bytes().startswith(b"\x89PNG")


def test_quiet_is_quiet(place: Path) -> None:
    answer = cli("run", *SMALL, "--out", "run", "--quiet")
    assert answer == answer.__class__(0, "", "")
    assert (place / "run" / "result.json").exists()


def test_quiet_still_says_what_is_wrong(place: Path) -> None:
    assert "fedavgg" in cli("run", "--algorithm", "fedavgg", "--quiet").err


@pytest.mark.integration
def test_names_are_shown_as_they_are(place: Path, save: Callable[..., Path]) -> None:
    """Square brackets are no markup."""
    save("own [old].npz")
    answer = cli("run", "--dataset", "own [old].npz", "--clients", "4", "--rounds", "1", "--epochs", "1")
    assert answer.code == 0
    assert "own [old].npz" in answer.out.replace("\n", "")


@pytest.mark.integration
@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
def test_a_terminal_that_knows_few_letters_is_no_reason_to_fail(encoding: str, place: Path) -> None:
    for arguments in (["run", "--print-config"], ["run", *SMALL, "--out", "run"], ["models"]):
        answer = cli(*arguments, encoding=encoding)
        assert answer.code == 0, answer.err
        assert "bug" not in answer.err


@pytest.mark.integration
def test_a_terminal_sees_live_progress_that_ends_cleanly(place: Path) -> None:
    terminal = Terminal("run", *SMALL, "--rounds", "30", "--out", "run")
    out, screen = terminal.wait(), terminal.screen
    assert terminal.process.returncode == 0
    assert ESCAPE not in out
    assert "Run folder: run" in out

    assert HIDE in screen
    assert screen.rindex(SHOW) > screen.rindex(HIDE)
    plain = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", screen)
    assert re.search(r"rounds .*\d+/30", plain)
    assert "clients/s" in plain
    assert re.search(r"left \d+:\d\d", plain)
    assert re.search(r"round 30: L \d+\.\d\d %  C \d+\.\d\d %  G \d+\.\d\d %\s*$", plain)


@pytest.mark.integration
@pytest.mark.parametrize("command", [["cluster", "--json"], ["inspect", "--against", "iid", "--json"]])
def test_a_terminal_sees_the_clients_that_are_described_for_groups(command: list[str], place: Path) -> None:
    """There are no rounds, and so no bar of them."""
    answer = cli(*command, "--dataset", "digits", "--clients", "12", terminal=True)
    assert answer.code == 0, answer.err
    assert answer.out.startswith("{")
    assert "describing 12 clients" in answer.err
    assert answer.err.rindex(SHOW) > answer.err.rindex(HIDE)
    assert "rounds" not in answer.err


@pytest.mark.integration
@pytest.mark.parametrize("jobs", [1, 2])
def test_a_terminal_sees_the_runs_of_a_comparison(jobs: int, place: Path) -> None:
    some = [*SMALL, "--rounds", 80, "--seeds", 0]  # the bars are drawn ten times a second
    answer = cli("compare", "--algorithms", "fedavg,solo", *some, "--jobs", jobs, "--out", "both", terminal=True)
    assert answer.code == 0, answer.err
    plain = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", answer.err)
    assert re.search(r"runs .*[01]/2", plain)
    assert re.search(r"(fedavg|solo), seed 0 .*\d/80", plain)
    assert re.search(r"2/2  (fedavg|solo), seed 0: L \d+\.\d\d %", plain)
    assert answer.err.rindex(SHOW) > answer.err.rindex(HIDE)


@pytest.mark.integration
def test_a_busy_folder_is_left_alone_and_an_interruption_says_how_to_go_on(place: Path) -> None:
    terminal = Terminal("run", *SMALL, "--rounds", "100000", "--out", "run")
    try:
        while "clients/s" not in terminal.screen:
            assert terminal.process.poll() is None
            time.sleep(0.01)
        busy = "another process is working on 'run'"
        assert busy in refusal(cli("resume", "run"))
        assert "unfinished run" in refusal(cli("run", *SMALL, "--out", "run"))
        assert busy in refusal(cli("run", *SMALL, "--out", "run", "--overwrite"))
        assert terminal.process.poll() is None
        assert "rounds = 100000" in (place / "run" / "config.toml").read_text(encoding="utf-8")
        terminal.process.send_signal(signal.SIGINT)
        terminal.wait()
    finally:
        terminal.process.kill()
    assert terminal.process.returncode == 130
    assert "Traceback" not in terminal.screen
    assert terminal.screen.rindex(SHOW) > terminal.screen.rindex(HIDE)
    assert "coterie resume" in terminal.screen


def test_an_interruption_that_was_lost_is_heeded_after_the_round() -> None:
    """Python prints a KeyboardInterrupt that comes while it tidies up, and goes on."""
    from coterie.cli.interrupts import INTERRUPTION, explain_interrupt
    from coterie.cli.progress import ConsoleProgress
    from coterie.errors import Stopped

    def run() -> None:
        with explain_interrupt():
            with suppress(KeyboardInterrupt):  # as if it had come in a destructor
                os.kill(os.getpid(), signal.SIGINT)
                time.sleep(5)
            ConsoleProgress(quiet=True).round(1, None)

    with pytest.raises(Stopped, match="interrupted"):
        run()
    assert not INTERRUPTION.came
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
