"""The process behind `coterie.compare.jobs`: makes runs that it reads from standard input.

A line of standard input is a configuration as JSON. Each call of the run's `Progress` is a line of JSON on standard
output, and so is its end. The process ends when standard input does, which happens when its parent ends.
"""

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

from coterie.run.progress import Progress

PR_SET_PDEATHSIG = 1
"""Of <linux/prctl.h>: which signal the kernel sends when the parent ends."""


class PipeProgress(Progress):
    """Writes what happens to a run as lines of JSON, but for each client's answer: there are too many."""

    def __init__(self, out: IO[str]) -> None:
        self.out = out

    def write(self, event: str, **fields: Any) -> None:
        """Write a line."""
        self.out.write(json.dumps({"event": event, **fields}) + "\n")
        self.out.flush()

    def begin(self, title: str, rounds: int, done: int) -> None:
        """Write it."""
        self.write("begin", arguments=[title, rounds, done])

    def phase(self, text: str) -> None:
        """Write it."""
        self.write("phase", arguments=[text])

    def round(self, round: int, row: Mapping[str, Any] | None) -> None:
        """Write it."""
        self.write("round", arguments=[round, row])

    def end(self) -> None:
        """Write it."""
        self.write("end", arguments=[])


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
    progress = PipeProgress(os.fdopen(os.dup(1), "w", encoding="utf-8"))
    os.dup2(2, 1)  # whatever else is printed goes where errors go
    try:
        for module in sys.argv[1:]:
            importlib.import_module(module)
        while True:
            make(lines.get(), progress)
    except BrokenPipeError:  # nobody listens
        os._exit(0)


def make(line: str, progress: PipeProgress) -> None:
    """Make a run, and write how it ended."""
    from coterie.compare.jobs import describe, run_one
    from coterie.run.config import Config
    from coterie.run.plugins import import_plugins

    try:
        config = Config.model_validate_json(line)
        import_plugins(config.run.plugins)
        accuracy = run_one(config, progress).accuracy
    except BrokenPipeError:
        raise
    except (Exception, SystemExit) as error:
        progress.write("failed", why=describe(error), trace=traceback.format_exc())
    else:
        progress.write("finished", accuracy=accuracy)


if __name__ == "__main__":
    main()
