"""What one-shot clustering costs: proximity by each measure, and grouping, against the number of clients.

    python benchmarks/clustering.py [--sizes 100 1000 10000] [--measures theta1 ...]

Clients have signatures as PACFL's: 3072 features, 2 labels with p = 3 vectors each, in float32 as they travel. There
are 20 labels, drawn at random for each client, whose vectors lie around common ones; and 1 client in 50 is another
one's duplicate. Beside `principal_angles` stand, in the same run,

- loop: a plain double loop over pairs i < j that multiplies U_iᵀ U_j and reduces it (bases made orthonormal before);
- SciPy: `subspace_angles` for every pair, which is what theta1 and sum_angles compute.

Both compute in float64, and with one BLAS thread, which is faster for such small matrices. Where they would take
minutes they are timed on some pairs and multiplied up, marked with ~. Kindred's rule is timed on moments of 10 labels,
which 4 groups see differently: pairs of clients, then `pooled groups`. CPU is what all threads took together: on a busy
machine it says more than the seconds. Each size runs in a process of its own, so that its peak memory is its own; that
includes the signatures and Python. Where it takes seconds, the best of three counts.
"""

from __future__ import annotations

import argparse
import math
import multiprocessing
import resource
import sys
import time
from collections.abc import Callable
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import scipy.linalg
from threadpoolctl import threadpool_limits

from coterie.clustering import Auto, Concepts, Gap, Rule, Silhouette, Threshold
from coterie.similarity import MEASURES, ClassMoments, class_distances, principal_angles

FEATURES, LABELS, PER_CLIENT, P = 3072, 20, 2, 3
LOOP_PAIRS, SCIPY_PAIRS = 500_000, 5_000
"""Up to so many pairs are all timed; of more, LOOP_SAMPLE or SCIPY_SAMPLE."""
LOOP_SAMPLE, SCIPY_SAMPLE = 20_000, 400
SILHOUETTES = 1000
"""Up to so many clients: that rule tries every number of groups."""
POOLED = 1000
"""Up to so many clients: there are √n groups, and so many times all clients may move."""

Array = np.ndarray[Any, Any]


class Row(NamedTuple):
    clients: int
    what: str
    seconds: float
    cpu: float
    peak: float
    loop: float = math.nan
    loop_sampled: bool = False
    scipy: float = math.nan
    scipy_sampled: bool = False


def signatures(clients: int) -> list[Array]:
    rng = np.random.default_rng(0)

    def orthonormal(x: Array) -> Array:
        values, vectors = np.linalg.eigh(x.T @ x)
        return x @ (vectors / np.sqrt(values))

    common = [orthonormal(rng.standard_normal((FEATURES, P))) for _ in range(LABELS)]
    made: list[Array] = []
    for i in range(clients):
        if i % 50 == 49:
            made.append(made[int(rng.integers(i))].copy())
            continue
        labels = np.sort(rng.choice(LABELS, PER_CLIENT, replace=False))
        away = 0.3 / math.sqrt(FEATURES) * rng.standard_normal((PER_CLIENT, FEATURES, P), np.float32)
        made.append(np.hstack([orthonormal(common[c] + own) for c, own in zip(labels, away, strict=True)]))
    return [u.astype(np.float32) for u in made]


def moments(clients: int, labels: int = 10, numbers: int = 16, samples: int = 6) -> list[ClassMoments]:
    """What clients of four groups tell of their labels, a few samples of each, of variance 1."""
    rng = np.random.default_rng(0)
    centres = rng.normal(0, math.sqrt(0.25 / numbers), (4, labels, numbers))
    own = rng.normal(0, math.sqrt(1 / numbers / samples), (clients, labels, numbers))
    return [
        ClassMoments(centres[client % 4] + own[client], np.ones(labels), np.full(labels, samples))
        for client in range(clients)
    ]


REDUCED: dict[str, Callable[[Array], float]] = {
    "min_entry": lambda c: math.acos(min(max(c.max(), -1.0), 1.0)),
    "min_abs": lambda c: math.acos(min(np.abs(c).max(), 1.0)),
    "theta1": lambda c: math.acos(min(np.linalg.svd(c, compute_uv=False)[0], 1.0)),
    "trace": lambda c: np.arccos(np.minimum(np.abs(np.diagonal(c)), 1.0)).sum(),
    "sum_angles": lambda c: np.arccos(np.minimum(np.linalg.svd(c, compute_uv=False), 1.0)).sum(),
}


def loop(u: list[Array], measure: str, pairs: list[tuple[int, int]]) -> float:
    began = time.perf_counter()
    u = [one.astype(np.float64) for one in u]
    if measure in ("theta1", "sum_angles"):
        u = [np.linalg.qr(one)[0] for one in u]
    bases = time.perf_counter() - began
    reduced = REDUCED[measure]
    result = np.zeros((len(u), len(u)))
    began = time.perf_counter()
    for i, j in pairs:
        result[i, j] = result[j, i] = math.degrees(reduced(u[i].T @ u[j]))
    share = len(pairs) / (len(u) * (len(u) - 1) / 2)
    return bases + (time.perf_counter() - began) / share


def per_pair_scipy(u: list[Array], pairs: list[tuple[int, int]]) -> float:
    began = time.perf_counter()
    for i, j in pairs:
        scipy.linalg.subspace_angles(u[i].astype(np.float64), u[j].astype(np.float64))
    share = len(pairs) / (len(u) * (len(u) - 1) / 2)
    return (time.perf_counter() - began) / share


def chosen(clients: int, most: int, sample: int) -> tuple[list[tuple[int, int]], bool]:
    """All pairs, in the order of a double loop, or some: whole rows of it, as a loop goes through memory."""
    if clients * (clients - 1) // 2 <= most:
        return [(i, j) for i in range(clients) for j in range(i + 1, clients)], False
    rows = np.random.default_rng(1).choice(clients, max(1, sample // clients), replace=False)
    pairs = [(int(i), j) for i in rows for j in range(clients) if j != i]
    return pairs[:sample], True


def peak() -> float:
    """Peak memory of this process so far, in GiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def timed(call: Callable[[], Any], times: int) -> tuple[Any, float, float]:
    """Return the result, the seconds and the CPU seconds of the fastest call."""
    best = (math.inf, math.inf)
    for _ in range(times):
        result = None  # of which there is to be one at a time
        cpu, began = time.process_time(), time.perf_counter()
        result = call()
        best = min(best, (time.perf_counter() - began, time.process_time() - cpu))
    assert result is not None
    return result, *best


def measured(clients: int, measures: list[str], competitors: bool, grouping: bool) -> list[Row]:
    u = signatures(clients)
    rows = []
    angles = principal_angles(u[:6])  # what is only loaded and started once
    times = 3 if clients <= 1000 else 1
    with threadpool_limits(1):
        pairs, scipy_sampled = chosen(clients, SCIPY_PAIRS, SCIPY_SAMPLE)
        scipy_seconds = per_pair_scipy(u, pairs) if competitors else math.nan
        pairs, loop_sampled = chosen(clients, LOOP_PAIRS, LOOP_SAMPLE)
    for measure in measures:
        del angles
        angles, *seconds = timed(lambda measure=measure: principal_angles(u, measure=measure), times)  # type: ignore
        row = Row(clients, measure, *seconds, peak())
        if competitors:
            with threadpool_limits(1):
                row = row._replace(loop=loop(u, measure, pairs), loop_sampled=loop_sampled)
            if measure in ("theta1", "sum_angles"):
                row = row._replace(scipy=scipy_seconds, scipy_sampled=scipy_sampled)
        rows.append(row)
        say(row)
    rules: list[Rule] = [Auto(), Threshold("weighted", threshold=30.0), Gap("average")]
    if clients <= SILHOUETTES:
        rules.append(Silhouette("average"))
    chance = np.full(clients, 20.0)
    for rule in rules if grouping else ():
        _, *seconds = timed(lambda by=rule: by.group(angles, chance).labels, times)  # type: ignore[misc]
        rows.append(Row(clients, f"rule {rule.name}", *seconds, peak()))
        say(rows[-1])
    return rows + (by_labels(clients, times) if grouping and clients <= POOLED else [])


def by_labels(clients: int, times: int) -> list[Row]:
    """Time what kindred does to form groups."""
    told, rule = moments(clients), Concepts()
    pairs, *compared = timed(lambda: class_distances(told), times)
    first, *seconds = timed(lambda: rule.group(pairs), times)
    _, *pooled = timed(lambda: rule.pool(first, pairs, told), times)
    rows = [
        Row(clients, "class_moments", *compared, peak()),
        Row(clients, "rule concepts", *seconds, peak()),
        Row(clients, "pooled groups", *pooled, peak()),
    ]
    for row in rows:
        say(row)
    return rows


def say(row: Row) -> None:
    def beside(seconds: float, sampled: bool) -> str:
        if math.isnan(seconds):
            return f"{'–':>10} {'–':>7}"
        return f"{'~' if sampled else ''}{seconds:.2f}".rjust(10) + f" {seconds / row.seconds:6.0f}×"

    print(
        f"{row.clients:>7,}  {row.what:<14} {row.seconds:>9.2f} {row.cpu:>8.2f} {row.peak:>6.2f}"
        f" {beside(row.loop, row.loop_sampled)} {beside(row.scipy, row.scipy_sampled)}",
        flush=True,
    )


def growth(rows: list[Row]) -> None:
    """Say with which power of the number of clients the time grows, between each size and the next."""
    print("\ngrowth: seconds ~ clients^e, e between sizes")
    for what in dict.fromkeys(row.what for row in rows):
        own = sorted((row for row in rows if row.what == what), key=lambda row: row.clients)
        steps = [
            f"{b.clients:,}: {math.log(b.seconds / a.seconds) / math.log(b.clients / a.clients):.2f}"
            for a, b in pairwise(own)
            if a.clients < b.clients
        ]
        print(f"  {what:<14} {'   '.join(steps)}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=int, nargs="+", default=[100, 1000, 10_000], help="numbers of clients")
    parser.add_argument("--measures", nargs="+", choices=MEASURES, default=list(MEASURES))
    parser.add_argument("--alone", action="store_true", help="without the loop and SciPy")
    parser.add_argument("--no-grouping", dest="grouping", action="store_false")
    settings = parser.parse_args()
    if min(settings.sizes) < 6:
        sys.exit("clustering: sizes should be at least 6")
    print(f"{FEATURES} features, {PER_CLIENT} labels x p = {P}; seconds, peak GiB; ~ multiplied up from some pairs")
    titles = f"{'seconds':>9} {'CPU':>8} {'GiB':>6} {'loop':>10} {'ratio':>7} {'SciPy':>10} {'ratio':>7}"
    print(f"{'clients':>7}  {'what':<14} {titles}")
    rows: list[Row] = []
    for size in settings.sizes:
        with multiprocessing.get_context("spawn").Pool(1) as process:
            rows += process.apply(measured, (size, settings.measures, not settings.alone, settings.grouping))
    if len(set(settings.sizes)) > 1:
        growth(rows)


if __name__ == "__main__":
    main()
