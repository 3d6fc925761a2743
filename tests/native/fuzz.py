"""Random networks, plans and data, through the compiled trainer and through PyTorch: both must say the same.

    python tests/native/fuzz.py --cases 10000 --seed 0
    python tests/native/fuzz.py --seed 0 --case 1234      (one of them again)

Both round, in different orders, and a network may stand so close to an edge (a ReLU or a pooling window that could
go either way, an overflow) that rounding decides. A result that differs from PyTorch's by more than CLOSE is
therefore held against the same training in double precision. The compiled trainer may be FACTOR times as far from
it as PyTorch is, or as that training itself moves when its start and its inputs change in the last digit of a
float; beyond that it disagrees. Where that last digit changes a tenth of the result nothing can be said; such cases
are counted, and few.
"""

from __future__ import annotations

import argparse
import faulthandler
import multiprocessing
import sys
import time
import traceback
from collections import Counter
from collections.abc import Iterator, Sequence
from multiprocessing.connection import Connection, wait
from typing import Any

import numpy as np
import torch
from fuzz_cases import Luck, random_case
from fuzz_judgement import CLOSE, Disagreement, Tally, check
from random_networks import NAME, build, lanes_here

from coterie.models import MODELS, model

News = tuple[int, Tally | None]


def run(numbers: Sequence[int], seed: int, lanes: Sequence[int]) -> Iterator[News]:
    """Yield the number of each case before it runs, and what was seen at the end."""
    torch.set_num_threads(1)
    np.seterr(all="ignore")
    if NAME not in MODELS:
        model(NAME)(build)
    tally = Tally()
    for number in numbers:
        yield number, None
        tally.current = number
        case = random_case(seed, number)
        try:
            check(case, lanes, tally, Luck(seed, number, 2))
        except Disagreement as error:
            tally.failures.append(f"case {number}: {error}\n  {case.job.spec}\n  {case.job.plan}")
        except Exception:
            tally.failures.append(f"case {number}: {traceback.format_exc()}")
        tally.cases += 1
        tally.counts.update(case.features)
    yield -1, tally


def work(pipe: Connection, numbers: Sequence[int], seed: int, lanes: Sequence[int]) -> None:
    """Run cases in a process of its own, so that a crash ends that one only."""
    faulthandler.enable()
    for news in run(numbers, seed, lanes):
        pipe.send(news)


def run_apart(numbers: Sequence[int], seed: int, lanes: Sequence[int], workers: int) -> Iterator[News]:
    """As `run`, in several processes."""
    processes = multiprocessing.get_context("spawn")
    running: dict[Connection, tuple[Any, int]] = {}
    for k in range(workers):
        ours, theirs = processes.Pipe(duplex=False)
        process = processes.Process(target=work, args=(theirs, numbers[k::workers], seed, lanes))
        process.start()
        theirs.close()
        running[ours] = (process, -1)
    while running:
        for pipe in wait(list(running)):
            assert isinstance(pipe, Connection)
            process, current = running[pipe]
            try:
                number, tally = pipe.recv()
            except EOFError:
                process.join()
                yield -1, Tally(failures=[f"case {current}: the process died with exit code {process.exitcode}"])
                number, tally = -1, None
            if number >= 0:
                running[pipe] = (process, number)
                yield number, None
            else:
                del running[pipe]
                process.join()
                if tally is not None:
                    yield -1, tally


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the cases, say what was seen, and return 1 if anything was wrong."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--lanes", type=int, nargs="+", default=lanes_here(), help="default: all of this machine")
    parser.add_argument("--case", type=int, help="run this one only")
    parser.add_argument("--workers", type=int, default=multiprocessing.cpu_count(), help="0: in this process")
    options = parser.parse_args(arguments)
    if not options.lanes:
        print("Coterie was installed without a C++ compiler: nothing to run")
        return 1
    numbers = range(options.cases) if options.case is None else [options.case]
    what = numbers, options.seed, options.lanes
    news = run_apart(*what, options.workers) if options.workers and options.case is None else run(*what)
    total, began, started, shown = Tally(), time.monotonic(), 0, 0.0
    for number, tally in news:
        started += number >= 0
        if tally is not None:
            total.add(tally)
        now = time.monotonic()
        if now - shown > (0.2 if sys.stderr.isatty() else 15):
            shown = now
            end = "\r" if sys.stderr.isatty() else "\n"
            print(f"case {started} of {len(numbers)}, {now - began:.0f} s", end=end, file=sys.stderr, flush=True)
    print(summary(total, options.seed, options.lanes, time.monotonic() - began))
    return 1 if total.failures or total.cases != len(numbers) else 0


def summary(tally: Tally, seed: int, lanes: Sequence[int], seconds: float) -> str:
    def listed(counter: Counter[str]) -> list[str]:
        return [f"  {count:7d}  {name}" for name, count in counter.most_common()]

    return "\n".join(
        [
            f"{tally.cases} cases of seed {seed}, each on lanes {', '.join(map(str, lanes))}, in {seconds:.0f} s",
            "exercised:",
            *listed(tally.counts),
            "results:",
            *listed(tally.verdicts),
            f"largest distance from PyTorch without a closer look: {tally.largest:.1e} ({CLOSE:.0e} allowed)",
            f"largest share used of what double precision allows: {tally.strain[0]:.2f} (case {tally.strain[1]})",
            *(f"FAILED {failure}" for failure in tally.failures),
            f"{len(tally.failures)} failures" + (f"; repeat one with --seed {seed} --case N" if tally.failures else ""),
        ]
    )


if __name__ == "__main__":
    sys.exit(main())
