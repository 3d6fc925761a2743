"""Damaged inputs for every reader of bytes: each is read, or refused in one sentence, within a second and 200 MB.

    python tests/fuzzing/fuzz_readers.py --inputs 20000 --seed 0
    python tests/fuzzing/fuzz_readers.py --reader npz --inputs 500 --keep /tmp/violations
    python tests/fuzzing/fuzz_readers.py --reader npz --seed 0 --input 123 --debug     (one again, with its traceback)

An input follows from the seed, the reader's name and its number alone. Readers run in a process that is replaced when
one kills it. Seconds are those of the processor, as the machine may be busy; what is over one is read twice more, and
counts if it never was below. Memory is what the process has at most while it reads, beyond what it had before.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import importlib
import json
import os
import resource
import select
import shutil
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from fuzz_corpus import make
from fuzz_mutations import mutate
from fuzz_targets import TARGETS, Target

SECONDS, MEMORY = 1.0, 200 * 10**6
HANGS, ROOM = 60.0, 2 * 10**9
"""Seconds after which a reader is stopped, and bytes that it can't exceed: so that the machine survives it."""
LONGEST = 1500
"""Letters of a refusal."""
READERS = (
    "coterie.compare.design", "coterie.coreset.files", "coterie.deploy.deployment", "coterie.report.folders",
    "coterie.report.page", "coterie.reproduce.catalogue", "coterie.reproduce.graphs", "coterie.run.export",
    "coterie.run.runner", "coterie.training.torch_trainer", "h5py", "PIL.Image", "scipy.io", "scipy.sparse",
)  # fmt: skip
"""What readers import."""


@dataclass
class Tally:
    """What was seen of a reader."""

    inputs: int = 0
    accepted: int = 0
    refused: int = 0
    violations: dict[str, list[int]] = field(default_factory=dict)
    """Numbers of inputs, by what happened and where."""
    slowest: float = 0.0
    largest: int = 0


class Inputs:
    """The damaged inputs of a reader."""

    def __init__(self, target: Target, corpus: Path, work: Path, seed: int) -> None:
        self.target, self.seed = target, seed
        sound = sorted((corpus / target.kind).glob(f"*/{target.file}"))
        self.sound = [(file.relative_to(corpus / target.kind), file.read_bytes()) for file in sound]
        if not self.sound:
            raise RuntimeError(f"there is no sound input for {target.name}")
        self.work = work / target.name.replace(" ", "-").replace(",", "").replace("'", "")
        if not self.work.exists():
            shutil.copytree(corpus / target.kind, self.work)

    def make(self, number: int) -> tuple[Path, bytes, bytes]:
        """Return the file that an input changes, its content, and the sound one; every hundredth is sound."""
        luck = Random(f"{self.seed}/{self.target.name}/{number}")
        place, content = luck.choice(self.sound)
        if number % 100 == 0:
            return self.work / place, content, content
        others = [other for _, other in self.sound]
        return self.work / place, mutate(content, others, self.target.known, luck), content

    def folder_of(self, file: Path) -> Path:
        return self.work / file.relative_to(self.work).parts[0]


def memory_now(which: str) -> int:
    """Return what the process has, ``VmRSS``, or had at most, ``VmHWM``."""
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) * 1024 for line in status if line.startswith(which))


@contextlib.contextmanager
def limited(room: int) -> Iterator[None]:
    """Let no more address space be taken than so much."""
    with open("/proc/self/statm") as sizes:
        now = int(sizes.read().split()[0]) * resource.getpagesize()
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (now + room, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def attempt(inputs: Inputs, number: int, debug: bool = False) -> tuple[str, str, float, int]:
    """Read one input; return ``accepted``, ``refused`` or a violation, what it says, seconds and bytes."""
    file, content, sound = inputs.make(number)
    file.write_bytes(content)
    del content
    verdict, said = "accepted", ""
    with open("/proc/self/clear_refs", "w") as peak:
        peak.write("5")
    before, began = memory_now("VmRSS"), time.process_time()
    try:
        with limited(ROOM):
            inputs.target.read(inputs.folder_of(file), file)
    except BaseException as error:
        seconds, extra = time.process_time() - began, memory_now("VmHWM") - before
        if debug:
            traceback.print_exc()
        verdict, said = judge(error, inputs.target.refusals)
        del error
    else:
        seconds, extra = time.process_time() - began, memory_now("VmHWM") - before
    finally:
        file.write_bytes(sound)
    if verdict in ("accepted", "refused") and extra > MEMORY:
        verdict, said = "memory", f"{extra / 1e6:.0f} MB ({said[:200]})"
    return verdict, said, seconds, extra


def judge(error: BaseException, refusals: tuple[type[Exception], ...]) -> tuple[str, str]:
    """Say whether an error is a proper refusal, and if not, where it comes from."""
    if not isinstance(error, refusals):
        frames = [f for f in traceback.extract_tb(error.__traceback__) if "/coterie/" in f.filename]
        place = f"{frames[-1].filename.partition('/coterie/')[2]}:{frames[-1].name}" if frames else "?"
        return f"{type(error).__name__} in {place}", str(error)[:300]
    text = str(error)
    if "\n" in text or "\r" in text or "\x1b" in text:
        return "refusal of several lines or with escapes", text[:300]
    if len(text) > LONGEST:
        return "refusal without end", text[:300]
    return "refused", text[:300]


def work(inputs: Inputs, numbers: Sequence[int], pipe: int) -> None:
    """Read inputs and write what was seen, a line before and after each."""
    warnings.simplefilter("ignore")
    for number in (0, 100, 200):  # sound ones: what is imported now is not counted later
        attempt(inputs, number)
    gc.freeze()
    with os.fdopen(pipe, "w", buffering=1) as news:
        for number in numbers:
            news.write(json.dumps([number]) + "\n")
            verdict, said, seconds, extra = attempt(inputs, number)
            for _ in range(2):
                if verdict in ("accepted", "refused") and seconds > SECONDS:
                    seconds = min(seconds, attempt(inputs, number)[2])
            if verdict in ("accepted", "refused") and seconds > SECONDS:
                verdict, said = "time", f"{seconds:.1f} s ({said[:200]})"
            news.write(json.dumps([number, verdict, said, seconds, extra]) + "\n")


def watched(inputs: Inputs, numbers: Sequence[int]) -> Iterator[tuple[int, str, str, float, int]]:
    """Read inputs in processes, each until it dies or hangs."""
    todo = list(numbers)
    while todo:
        ours, theirs = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(ours)
            with contextlib.suppress(BaseException):
                work(inputs, todo, theirs)
            os._exit(0)
        os.close(theirs)
        current, ended = todo[0], ""
        with os.fdopen(ours, "rb", buffering=0) as news:
            buffer = b""
            while True:
                if not select.select([news], [], [], HANGS)[0]:
                    os.kill(child, signal.SIGKILL)
                    ended = f"hangs over {HANGS:.0f} s"
                piece = news.read(65536)
                if not piece:
                    break
                buffer += piece
                *lines, buffer = buffer.split(b"\n")
                for line in lines:
                    said = json.loads(line)
                    current = said[0]
                    if len(said) > 1:
                        todo.remove(current)
                        yield tuple(said)
        status = os.waitpid(child, 0)[1]
        if todo:
            todo.remove(current)
            sent = os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0
            yield current, ended or f"the process died, signal {sent}, exit code {status >> 8}", "", 0.0, 0


def run(target: Target, corpus: Path, place: Path, count: int, seed: int, keep: Path | None) -> Tally:
    """Read so many inputs of a reader."""
    inputs, tally = Inputs(target, corpus, place, seed), Tally()
    for number, verdict, said, seconds, extra in watched(inputs, range(count)):
        tally.inputs += 1
        tally.slowest, tally.largest = max(tally.slowest, seconds), max(tally.largest, extra)
        if verdict in ("accepted", "refused"):
            tally.accepted += verdict == "accepted"
            tally.refused += verdict == "refused"
            if number % 100 == 0 and verdict == "refused":
                tally.violations.setdefault(f"a sound input was refused: {said}", []).append(number)
            continue
        known = tally.violations.setdefault(verdict, [])
        known.append(number)
        if len(known) == 1:
            print(f"{target.name}, input {number}: {verdict}: {said[:300]!r}", flush=True)
        if keep is not None and len(known) <= 5:
            keep.mkdir(parents=True, exist_ok=True)
            file, content, _ = inputs.make(number)
            (keep / f"{inputs.work.name}-{seed}-{number}-{file.name}").write_bytes(content)
    return tally


def shares(targets: Sequence[Target], inputs: int) -> dict[str, int]:
    """Divide inputs among readers."""
    total = sum(target.share for target in targets)
    return {target.name: -(-round(inputs * target.share) // round(total)) for target in targets}


def table(tallies: dict[str, Tally]) -> str:
    head = f"{'reader':34}{'inputs':>8}{'accepted':>10}{'refused':>9}{'violations':>12}{'slowest':>10}{'memory':>9}"
    rows = [head]
    total: Counter[str] = Counter()
    for name, tally in tallies.items():
        bad = sum(map(len, tally.violations.values()))
        total.update(inputs=tally.inputs, accepted=tally.accepted, refused=tally.refused, bad=bad)
        numbers = f"{tally.inputs:8}{tally.accepted:10}{tally.refused:9}{bad:12}"
        rows.append(f"{name:34}{numbers}{tally.slowest:8.2f} s{tally.largest / 1e6:6.0f} MB")
    rows.append(f"{'all':34}{total['inputs']:8}{total['accepted']:10}{total['refused']:9}{total['bad']:12}")
    for name, tally in tallies.items():
        rows += [f"VIOLATION {name}: {what}: inputs {numbers[:8]}" for what, numbers in tally.violations.items()]
    return "\n".join(rows)


def made_apart(corpus: Path) -> None:
    """Make the sound inputs in a process of its own, whose threads would not survive a fork here."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            make(corpus)
            code = 0
        except BaseException:
            traceback.print_exc()
        os._exit(code)
    if os.waitpid(child, 0)[1]:
        raise SystemExit("the sound inputs could not be made")


def main(arguments: Sequence[str] | None = None) -> int:
    """Read the inputs, print the table, and return 1 if anything was wrong."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--inputs", type=int, default=20_000, help="in all")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--reader", action="append", help="only readers whose name holds this")
    parser.add_argument("--input", type=int, help="only this one, in this process")
    parser.add_argument("--keep", type=Path, help="folder for inputs that were not refused properly")
    parser.add_argument("--debug", action="store_true", help="with --input: show the traceback")
    options = parser.parse_args(arguments)
    targets = [t for t in TARGETS if not options.reader or any(word in t.name for word in options.reader)]
    if not targets:
        print(f"there is no such reader: there are {', '.join(target.name for target in TARGETS)}")
        return 2
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="fuzz-") as folder, contextlib.chdir(folder):
        place = Path(folder)
        made_apart(place / "sound")
        for module in READERS:  # once here, not in each process of a reader
            importlib.import_module(module)
        if options.input is not None:
            for target in targets:
                inputs = Inputs(target, place / "sound", place, options.seed)
                print(f"{target.name}: {attempt(inputs, options.input, options.debug)}")
            return 0
        counts = shares(targets, options.inputs)
        tallies: dict[str, Tally] = {}
        for target in targets:
            tallies[target.name] = run(target, place / "sound", place, counts[target.name], options.seed, options.keep)
    print(table(tallies))
    bad = sum(len(numbers) for tally in tallies.values() for numbers in tally.violations.values())
    total = sum(tally.inputs for tally in tallies.values())
    print(f"{total} inputs of seed {options.seed}, {time.monotonic() - began:.0f} s, {bad} violations")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
