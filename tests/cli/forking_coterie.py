"""`coterie` as processes of their own that start at once: everything is imported already when they are forked.

Reads a folder, the arguments of a command and a file for its output as a line of JSON, and writes the id of its
process; at the next line, whatever that says, waits for it and writes how it ended. Until then the id is not given
to another process, so that killing it is safe at any time.
"""

from __future__ import annotations

import json
import os
import sys

import sklearn.datasets  # noqa: F401

import coterie.cli.main
import coterie.run.runner
import coterie.training.native_trainer
import coterie.training.torch_trainer
from coterie.algorithms import ALGORITHMS
from coterie.data import DATASETS, PARTITIONS
from coterie.models import MODELS

for registry in (ALGORITHMS, DATASETS, MODELS, PARTITIONS):
    list(registry)  # loads what is built in


def child(folder: str, arguments: list[str], output: str) -> int:
    os.chdir(folder)
    silence, file = os.open(os.devnull, os.O_RDONLY), os.open(output, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    os.dup2(silence, 0)
    os.dup2(file, 1)
    os.dup2(file, 2)
    sys.argv = ["coterie", *arguments]
    try:
        coterie.cli.main.main()
    except SystemExit as end:
        return int(end.code or 0)
    return 0


def main() -> None:
    for line in sys.stdin:
        process = os.fork()
        if process == 0:
            os._exit(child(*json.loads(line)))
        print(process, flush=True)
        sys.stdin.readline()
        print(os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]), flush=True)


if __name__ == "__main__":
    main()
