"""Many runs at once: each in a folder of its own, over the cores, as safe from kills as one.

Runs go to worker processes (`coterie.compare.worker`), which stay for several runs. A worker gets runs as lines of
JSON on its standard input and writes how they go to its standard output. When this process ends, however that happens,
its end of the pipe closes, and workers end too.
"""

import json
import os
import queue
import signal
import subprocess
import sys
import tempfile
import threading
import traceback
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO, Any

from coterie.errors import CoterieError
from coterie.files import remove
from coterie.results.run_folder import RunFolder
from coterie.run.config import Config
from coterie.run.plugins import Permission
from coterie.run.progress import Progress, RoundProgress
from coterie.run.result import Result


@dataclass(frozen=True, eq=False)
class RunJob:
    """A run to be made: whose it is, and the configuration, which names the folder and the seed."""

    label: str
    config: Config

    @property
    def seed(self) -> int:
        """Of the run."""
        return self.config.run.seed

    @property
    def folder(self) -> RunFolder:
        """Of the run."""
        return RunFolder(Path(str(self.config.run.out)))

    def __str__(self) -> str:
        return f"{self.label}, seed {self.seed}"


class BatchProgress(AbstractContextManager["BatchProgress"]):
    """Listens to many runs until its block ends; this one ignores everything, and others override what they show."""

    def __exit__(self, *error: object) -> None:
        self.end()

    def begin(self, title: str, runs: int, finished: int) -> None:
        """All `runs` are about to start; `finished` of them were made before."""

    def note(self, text: str) -> None:
        """Something is to be said about all runs."""

    def started(self, job: RunJob) -> None:
        """A run starts now."""

    def round(self, job: RunJob, done: int, rounds: int, row: Mapping[str, Any] | None) -> None:
        """`done` of the `rounds` of a run are over; `row` holds the accuracies where they were measured."""

    def finished(self, job: RunJob, accuracy: Mapping[str, float | None]) -> None:
        """A run is over."""

    def failed(self, job: RunJob, why: str) -> None:
        """A run failed; others go on."""

    def end(self) -> None:
        """All is over, well or not."""


def run_one(config: Config, progress: Progress) -> Result:
    """Run a configuration into its folder, or go on with what is there."""
    from coterie.run.runner import resume, start

    folder = RunFolder(Path(str(config.run.out)))
    if folder.config_file.exists():
        return resume(folder.path, progress, Permission(tuple(config.run.plugins)))
    return start(config, progress=progress)


def describe(error: BaseException) -> str:
    """Say in a line what went wrong."""
    text = str(error).partition("\n")[0]
    return text if isinstance(error, CoterieError) else f"{type(error).__name__}: {text}"


def run_jobs(
    jobs: Sequence[RunJob],
    at_once: int | None,
    progress: BatchProgress,
    lock: IO[str] | None = None,
    imports: Sequence[str] = (),
) -> dict[RunJob, str]:
    """Make runs, up to `at_once` at a time or one per core, each with its share of the cores; return why some failed.

    One at a time they are made in this process, else in workers, which import the modules named first and hold the
    `lock` too: nobody else gets it before the last of them has ended.
    """
    cores = os.cpu_count() or 1
    at_once = max(1, min(at_once or cores, len(jobs)))
    for job in jobs:
        job.config.engine.workers = job.config.engine.workers or max(1, cores // at_once)
    if at_once == 1:
        return _in_turn(jobs, progress)
    return _side_by_side(jobs, at_once, progress, lock, imports)


def _in_turn(jobs: Sequence[RunJob], progress: BatchProgress) -> dict[RunJob, str]:
    failed = {}
    for job in jobs:
        remove(job.folder.error_file)
        progress.started(job)
        try:
            result = run_one(job.config, RoundProgress(partial(progress.round, job)))
        except Exception as error:
            failed[job] = _note_failure(job, describe(error), traceback.format_exc(), progress)
        else:
            progress.finished(job, result.accuracy)
    return failed


def _side_by_side(
    jobs: Sequence[RunJob], at_once: int, progress: BatchProgress, lock: IO[str] | None, imports: Sequence[str]
) -> dict[RunJob, str]:
    waiting: queue.SimpleQueue[RunJob | None] = queue.SimpleQueue()
    for job in jobs:
        waiting.put(job)
    events: queue.SimpleQueue[tuple[RunJob, dict[str, Any]]] = queue.SimpleQueue()
    workers = [Worker(waiting, events, lock, imports) for _ in range(at_once)]
    failed: dict[RunJob, str] = {}
    try:
        for worker in workers:
            waiting.put(None)
            worker.start()
        left = {*jobs}
        while left:
            job, event = events.get()
            match event["event"]:
                case "started":
                    progress.started(job)
                case "round":
                    progress.round(job, event["done"], event["rounds"], event["row"])
                case "finished":
                    progress.finished(job, event["accuracy"])
                    left.remove(job)
                case "failed":
                    failed[job] = _note_failure(job, event["why"], event["trace"], progress)
                    left.remove(job)
    finally:
        for worker in workers:
            worker.stop()
        for worker in workers:
            if worker.is_alive():
                worker.join()
    return failed


def _note_failure(job: RunJob, why: str, trace: str, progress: BatchProgress) -> str:
    job.folder.write_error(trace)
    progress.failed(job, why)
    return why


class Worker(threading.Thread):
    """Hands runs to a process, one after the other, and passes its events on; a dead process is replaced."""

    def __init__(
        self,
        waiting: queue.SimpleQueue[RunJob | None],
        events: queue.SimpleQueue[tuple[RunJob, dict[str, Any]]],
        lock: IO[str] | None,
        imports: Sequence[str],
    ) -> None:
        super().__init__(daemon=True)
        self.waiting, self.events, self.lock, self.imports = waiting, events, lock, imports
        self.process: subprocess.Popen[str] | None = None
        self.stopping = False
        self.starting = threading.Lock()
        """Held while a process is made, so that none is made after `stop`."""

    def run(self) -> None:
        """Work until there is nothing left to do."""
        with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as output:
            while (job := self.waiting.get()) is not None and not self.stopping:
                remove(job.folder.error_file)
                try:
                    end = self._hand_over(job, output)
                except Exception as error:  # a process that can't be started, or broke while it was written to
                    end = {"event": "failed", "why": describe(error), "trace": traceback.format_exc()}
                if not self.stopping:
                    self.events.put((job, end))
        self.stop()
        self._close()

    def _hand_over(self, job: RunJob, output: IO[str]) -> dict[str, Any]:
        """Have a run made, and return how it ended."""
        process = self._ready(output)
        assert process.stdin is not None
        assert process.stdout is not None
        self.events.put((job, {"event": "started"}))
        with suppress(BrokenPipeError):  # it ended before: then there is nothing to read from it either
            process.stdin.write(job.config.model_dump_json() + "\n")
            process.stdin.flush()
        for line in process.stdout:
            event: dict[str, Any] = json.loads(line)
            if event["event"] in ("finished", "failed"):
                return event
            self.events.put((job, event))
        code = process.wait()
        output.seek(0)
        text = output.read()
        how = f"was ended by {signal.Signals(-code).name}" if code < 0 else f"ended with code {code}"
        last = (text.strip().splitlines() or [""])[-1]
        why = f"its process {how}" + (": perhaps memory was short" if how.endswith("SIGKILL") else "")
        return {"event": "failed", "why": why + (f" ({last})" if last else ""), "trace": text}

    def _ready(self, output: IO[str]) -> subprocess.Popen[str]:
        with self.starting:
            if self.stopping:
                raise CoterieError("interrupted")
            if self.process is None or self.process.poll() is not None:
                self._close()
                output.seek(0)
                output.truncate()
                self.process = subprocess.Popen(
                    [sys.executable, "-m", "coterie.compare.worker", *self.imports],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=output,
                    text=True,
                    encoding="utf-8",
                    env=os.environ | {"PYTHONPATH": os.pathsep.join(path or os.getcwd() for path in sys.path)},
                    pass_fds=[self.lock.fileno()] if self.lock is not None and os.name == "posix" else [],
                    process_group=0,  # Ctrl-C is for this process, which then ends them
                )
            return self.process

    def stop(self) -> None:
        """End the process at once; runs bear that at any moment."""
        with self.starting:
            self.stopping = True
            if self.process is not None:
                self.process.kill()
                self.process.wait()

    def _close(self) -> None:
        """Close our ends of the pipes of a process that has ended."""
        for pipe in (self.process.stdin, self.process.stdout) if self.process is not None else ():
            if pipe is not None:
                with suppress(BrokenPipeError):
                    pipe.close()
