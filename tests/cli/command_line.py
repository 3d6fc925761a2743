"""Calling the command line: here in this process, where that is enough, or as a process of its own."""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
import pty
import subprocess
import sys
import threading
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

with warnings.catch_warnings():  # Typer 0.20 imports what Click 8.5 calls deprecated
    warnings.simplefilter("ignore", DeprecationWarning)
    from coterie.cli import main as commands

SMALL = [
    "--dataset", "digits-rotated", "--clients", "6", "--fraction", "0.5", "--rounds", "4", "--epochs", "1",
    "--eval-every", "2", "--model", "mlp:hidden=16", "--lr", "0.05",
]  # fmt: skip
"""Flags of a run that takes a moment."""
TERMINAL = {"TERM": "xterm-256color", "COLUMNS": "120", "LINES": "40"}


@dataclass(frozen=True)
class Answer:
    """What a command left behind in a shell."""

    code: int
    out: str
    err: str

    @property
    def lines(self) -> list[str]:
        return self.err.splitlines()


class Screen(io.TextIOWrapper):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


def cli(*arguments: object, encoding: str = "utf-8", terminal: bool = False) -> Answer:
    """Call `coterie` in this process; `terminal` makes standard error one, in the eyes of the command."""
    out = io.TextIOWrapper(io.BytesIO(), encoding, write_through=True)
    err = (Screen if terminal else io.TextIOWrapper)(io.BytesIO(), encoding, write_through=True)
    code: Any = 0
    try:
        with (
            mock.patch.object(sys, "argv", ["coterie", *map(str, arguments)]),
            mock.patch.dict(os.environ, TERMINAL if terminal else {}),
            contextlib.redirect_stdout(out),
            contextlib.redirect_stderr(err),
        ):
            commands.main()
    except SystemExit as end:
        code = end.code or 0
    texts = [stream.buffer.getvalue().decode(encoding, "replace") for stream in (out, err)]  # type: ignore[attr-defined]
    return Answer(code, *texts)


def spawn(*arguments: object, env: Mapping[str, str] | None = None, cwd: Path | None = None) -> Answer:
    """Call `coterie` as a process of its own, with its output piped."""
    done = subprocess.run(
        command(*arguments), capture_output=True, text=True, encoding="utf-8", env=os.environ | dict(env or {}), cwd=cwd
    )
    return Answer(done.returncode, done.stdout, done.stderr)


def spawn_each(*commands: Sequence[object], env: Mapping[str, str]) -> list[Answer]:
    """Call several commands one after the other in one new process, which has another environment."""
    script = "import json, command_line as c; print(json.dumps([vars(c.cli(*one)) for one in json.loads(input())]))"
    path = os.pathsep.join(filter(None, [str(Path(__file__).parent), env.get("PYTHONPATH")]))
    done = subprocess.run(
        [sys.executable, "-c", script], input=json.dumps([[*map(str, one)] for one in commands]), capture_output=True,
        text=True, encoding="utf-8", env=os.environ | dict(env) | {"PYTHONPATH": path}, check=True,
    )  # fmt: skip
    return [Answer(**answer) for answer in json.loads(done.stdout)]


def command(*arguments: object) -> list[str]:
    return [sys.executable, "-m", "coterie", *map(str, arguments)]


class Terminal:
    """`coterie` as a process whose standard error is a pseudo-terminal, which is read as it fills."""

    def __init__(self, *arguments: object) -> None:
        main, side = pty.openpty()
        self.process = subprocess.Popen(
            command(*arguments),
            stdin=side,
            stdout=subprocess.PIPE,
            stderr=side,
            env=os.environ | TERMINAL,
        )
        os.close(side)
        self._main, self._read = main, bytearray()
        self._reader = threading.Thread(target=self._drain)
        self._reader.start()

    def _drain(self) -> None:
        while True:
            try:
                piece = os.read(self._main, 65536)
            except OSError:  # Linux says EIO when the last process has closed its side
                return
            if not piece:
                return
            self._read += piece

    @property
    def screen(self) -> str:
        return self._read.decode("utf-8", "replace")

    def wait(self) -> str:
        """Wait for the end and return standard output."""
        out, _ = self.process.communicate(timeout=60)
        self._reader.join()
        os.close(self._main)
        return out.decode()


def refusal(answer: Answer) -> str:
    """Return the message of a command that refused what the user wrote, after seeing that it did so properly."""
    assert answer.code == 2, answer
    assert "Traceback" not in answer.err
    assert "this is a bug" not in answer.err
    assert answer.out == ""
    return answer.lines[-1]


def tree(folder: Path) -> dict[str, str]:
    """Return every file below a folder with a digest of its content; and folders, which have none."""
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else ""
        for path in sorted(folder.rglob("*"))
    }


def without_times(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: without_times(item) for key, item in value.items() if key != "seconds"}
    return [without_times(item) for item in value] if isinstance(value, list) else value


def outcome(folder: Path) -> dict[str, Any]:
    """Return result.json and metrics.jsonl of a run folder but for times."""
    rows = (folder / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    return {
        "result": without_times(json.loads((folder / "result.json").read_text(encoding="utf-8"))),
        "metrics": [without_times(json.loads(row)) for row in rows],
    }
