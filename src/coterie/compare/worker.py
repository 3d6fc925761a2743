"""The process behind `coterie.compare.jobs`: makes runs that it reads from standard input.

A line of standard input is a configuration as JSON. Each call of the run's `Progress` is a line of JSON on standard
output, and so is its end. The process ends when standard input does, which happens when its parent ends.
"""

from __future__ import annotations

import ctypes
import importlib
import json
import os
import queue
import signal
import sys
import threading
import traceback
from collections.abc import Mapping
from typing import IO, Any

PR_SET_PDEATHSIG = 1
"""Of <linux/prctl.h>: which signal the kernel sends when the parent ends."""


class Telling:
    """Passes on what a run tells, but for each client's answer."""

    def __init__(self, out: IO[str]) -> None:
        self.out = out

    def tell(self, event: str, **more: Any) -> None:
        """Write a line."""
        self.out.write(json.dumps({"event": event, **more}) + "\n")
        self.out.flush()

    def begin(self, title: str, rounds: int, done: int) -> None:
        """Pass it on."""
        self.tell("begin", told=[title, rounds, done])

    def phase(self, text: str) -> None:
        """Pass it on."""
        self.tell("phase", told=[text])

    def clients(self, done: int, total: int) -> None:
        """Say nothing: there are too many."""

    def round(self, round: int, row: Mapping[str, Any] | None) -> None:
        """Pass it on."""
        self.tell("round", told=[round, row])

    def end(self) -> None:
        """Pass it on."""
        self.tell("end", told=[])


def main() -> None:
    """Make the runs that come, until there are no more."""
    lines: queue.SimpleQueue[str] = queue.SimpleQueue()

    def read() -> None:
        for line in sys.stdin:
            lines.put(line)
        os._exit(0)  # in the middle of a run, if there is one

    threading.Thread(target=read, daemon=True).start()
    if sys.platform == "linux":  # at once, also where a long computation keeps that thread from running
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    telling = Telling(os.fdopen(os.dup(1), "w", encoding="utf-8"))
    os.dup2(2, 1)  # whatever else is printed goes where errors go
    try:
        for module in sys.argv[1:]:
            importlib.import_module(module)
        while True:
            make(lines.get(), telling)
    except BrokenPipeError:  # nobody listens
        os._exit(0)


def make(line: str, telling: Telling) -> None:
    """Make a run, and tell how it ended."""
    from coterie.compare.jobs import describe, run_one
    from coterie.run.config import Config
    from coterie.run.plugins import import_plugins

    try:
        config = Config.model_validate_json(line)
        import_plugins(config.run.plugins)
        accuracy = run_one(config, telling).accuracy
    except BrokenPipeError:
        raise
    except (Exception, SystemExit) as error:
        telling.tell("failed", why=describe(error), trace=traceback.format_exc())
    else:
        telling.tell("finished", accuracy=accuracy)


if __name__ == "__main__":
    main()
