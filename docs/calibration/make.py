"""Make the pictures of docs/calibration.md and every number on that page.

    python docs/calibration/make.py [PART ...] [--quick] [--out FOLDER]

Numbers go to standard output as Markdown tables, pictures into the folder of this file. Parts that need real data look
for them in the folder that COTERIE_DATA names; where they are missing, the part is left out and says so.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np
from federations import Library
from measuring import COMPARED, Bench, describe, grouped
from parts_on_distances import part_angles, part_noise, part_ratios
from parts_on_finding_groups import part_counts, part_fresh, part_imbalance, part_rules, part_samples
from parts_on_granularity import part_confidence, part_dial
from parts_on_limits import part_failures, part_skew, part_subtle, part_training

import coterie

PARTS: dict[str, Callable[[Bench], None]] = {
    "noise": part_noise,
    "ratios": part_ratios,
    "fresh": part_fresh,
    "samples": part_samples,
    "counts": part_counts,
    "imbalance": part_imbalance,
    "rules": part_rules,
    "subtle": part_subtle,
    "failures": part_failures,
    "skew": part_skew,
    "training": part_training,
    "dial": part_dial,
    "confidence": part_confidence,
    "angles": part_angles,
}


def check() -> None:
    """Make sure that what is measured here is what `coterie cluster` does."""
    described = describe(Library("digits-rotated", 20).make(0), 0)
    for rule in COMPARED:
        theirs = coterie.cluster(dataset="digits-rotated", clients=20, seed=0, rule=rule).grouping
        ours = grouped(described, rule)
        assert np.array_equal(ours.labels, theirs.labels), rule
        assert ours.proximity is not None
        assert theirs.proximity is not None
        assert np.allclose(ours.proximity, theirs.proximity), rule


def single_threaded() -> None:
    """Let each process use one core; those to come read the environment, this one has read it."""
    from scipy import linalg  # noqa: F401  (which brings a library with threads of its own)
    from threadpoolctl import threadpool_limits

    os.environ["OPENBLAS_NUM_THREADS"] = os.environ["OMP_NUM_THREADS"] = "1"
    threadpool_limits(1)


def main() -> None:
    """Run the parts that were asked for."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"of {', '.join(PARTS)}; all if none is named")
    parser.add_argument("--quick", action="store_true", help="two seeds each, and no pictures but with --out")
    parser.add_argument("--out", type=Path, help="folder for the pictures; by default that of this file")
    asked = parser.parse_args()
    unknown = [part for part in asked.parts if part not in PARTS]
    if unknown:
        parser.error(f"no part {', '.join(unknown)}: choose from {', '.join(PARTS)}")
    folder: Path | None = asked.out or (None if asked.quick else Path(__file__).parent)
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
    single_threaded()
    check()
    began = time.perf_counter()
    with ProcessPoolExecutor(2, multiprocessing.get_context("spawn")) as pool:
        bench = Bench(pool, folder, asked.quick)
        for name in asked.parts or PARTS:
            started = time.perf_counter()
            PARTS[name](bench)
            print(f"\n<!-- {name}: {time.perf_counter() - started:.0f} s -->", flush=True)
    spent = os.times()
    seconds = spent.user + spent.system + spent.children_user + spent.children_system
    print(f"\n<!-- all: {time.perf_counter() - began:.0f} s, {seconds:.0f} s of all cores together -->")


if __name__ == "__main__":
    main()
