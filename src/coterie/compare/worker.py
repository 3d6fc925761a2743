"""The process behind `coterie.compare.jobs`: makes runs that it reads from standard input.

A line of standard input is a configuration as JSON. Each round of the run is a line of JSON on standard output, and so
is its end. The process ends when standard input does, which happens when its parent ends.
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

from coterie.run.progress import RoundProgress

PR_SET_PDEATHSIG = 1
"""Of <linux/prctl.h>: which signal the kernel sends when the parent ends."""


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
    events = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # whatever else is printed goes where errors go
    try:
        for module in sys.argv[1:]:
            importlib.import_module(module)
        while True:
            make(lines.get(), events)
    except BrokenPipeError:  # nobody listens
        os._exit(0)


def make(line: str, events: IO[str]) -> None:
    """Make a run, and write how it ended."""
    from coterie.compare.jobs import describe, run_one
    from coterie.run.config import Config
    from coterie.run.plugins import import_plugins

    def write(event: str, **fields: Any) -> None:
        events.write(json.dumps({"event": event, **fields}) + "\n")
        events.flush()

    def write_round(done: int, rounds: int, row: Mapping[str, Any] | None) -> None:
        write("round", done=done, rounds=rounds, row=row)

    try:
        config = Config.model_validate_json(line)
        import_plugins(config.run.plugins)
        accuracy = run_one(config, RoundProgress(write_round)).accuracy
    except BrokenPipeError:
        raise
    except (Exception, SystemExit) as error:
        write("failed", why=describe(error), trace=traceback.format_exc())
    else:
        write("finished", accuracy=accuracy)


if __name__ == "__main__":
    main()
