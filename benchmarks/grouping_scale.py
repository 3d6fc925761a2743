"""Grouping many clients by way of landmarks: seconds, memory, and agreement with the truth and with the exact way.

    python benchmarks/grouping_scale.py [--clients 1000 10000 100000] [--cases digits fashion rare iid-digits ...]
    python benchmarks/grouping_scale.py --exact [--clients 5000] [--seeds 5] [--first-seed 10]

Clients have 20 samples each, drawn with replacement, and send sketches: 3 vectors in 32 directions, 384 bytes, and how
far apart sketches of halves of their samples are. The cases:

- digits, fashion: 4 groups, who see the images rotated by 0, 90, 180 and 270 degrees;
- rare: 300 groups, who see the digits with pixels in different orders; group k has a share of k^−1.5, so that there
  are groups of under 20 clients; what counts is whether those of 20 and more are found;
- iid-digits, iid-fashion: one group.

The time is that of grouping, after the sketches are there; CPU is what all threads took together, which on a busy
machine says more than the seconds. Each case runs in a process of its own, so that its peak memory is its own; that
includes the sketches, the images and Python. With --exact, the same clients are also grouped by whole signatures, every
two of them, by rule `auto` in both, and ARI is the agreement of the two. Fashion-MNIST is read from COTERIE_DATA.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import resource
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from coterie.clustering import Auto, adjusted_rand_index, by_landmarks, noise, noise_beside
from coterie.similarity import points, principal_angles, projection
from coterie.similarity.eigenvalues import gram, largest_eigenvalues
from coterie.streams import stream

CASES = ("digits", "fashion", "rare", "iid-digits", "iid-fashion")
SAMPLES, P, K, SPLITS = 20, 3, 32, 6
AT_ONCE = 256
"""Clients described at a time."""
RARE = 20
"""Groups of so many clients are to be found."""

Array = np.ndarray[Any, Any]


class Row(NamedTuple):
    """What one grouping took, and how good it is."""

    case: str
    clients: int
    seed: int
    seconds: float
    cpu: float
    peak_gb: float
    groups: int
    passes: int
    ari: float
    found: str
    """How many of the true groups of 20 clients and more have most of a group of their own."""


@dataclass
class Sketches:
    """Clients by their sketches, as `by_landmarks` needs them."""

    vectors: list[Array]
    halves: Array
    points: Array

    def apart(self, a: Array, b: Array | None = None) -> Array:
        """Smallest principal angles, as PACFL has them."""
        others = None if b is None else [self.vectors[i] for i in b]
        return principal_angles([self.vectors[i] for i in a], others)

    def noise(self, a: Array, b: Array, proximity: Array) -> Array:
        """Noise by halves."""
        own = self.halves[a], np.full(len(a), SAMPLES)
        if a is b:
            return noise(*own, proximity)
        return noise_beside(*own, (self.halves[b], np.full(len(b), SAMPLES)), proximity)


class Crowd(NamedTuple):
    """What clients of a case send."""

    truth: Array
    sketches: Array
    """(clients, K, P)."""
    sketched_halves: Array
    whole: Array | None
    """(clients, features, P), if asked for."""
    whole_halves: Array


def images(case: str) -> Array:
    """Return (images, rows, columns) between 0 and 1."""
    if "fashion" in case:
        with np.load(Path(os.environ.get("COTERIE_DATA", "data")) / "fashion_mnist.npz") as file:
            x = file["x_train"]
        return x.reshape(len(x), 28, 28).astype(np.float32) / 255
    from sklearn.datasets import load_digits

    return load_digits().images.astype(np.float32) / 16


def true_groups(case: str, clients: int, rng: np.random.Generator) -> Array:
    """Return who is in which group."""
    if case.startswith("iid"):
        return np.zeros(clients, np.int64)
    if case != "rare":
        return rng.permutation(np.arange(clients) % 4)
    shares = np.arange(1, 301) ** -1.5
    sizes = np.maximum(np.floor(clients * shares / shares.sum()), 1).astype(np.int64)
    sizes[0] += clients - sizes.sum()
    return rng.permutation(np.repeat(np.arange(300), sizes))


def described(case: str, clients: int, seed: int, whole: bool = False) -> Crowd:
    """Let clients describe themselves, many at a time: what `sketch` and `sketched_halves` do for one."""
    pool, rng = images(case), stream(seed, "benchmark")
    truth = true_groups(case, clients, rng)
    flat = pool.reshape(len(pool), -1)
    features = flat.shape[1]
    orders = np.stack([rng.permutation(features) for _ in range(300)]) if case == "rare" else None
    turns = [np.rot90(np.arange(features).reshape(pool.shape[1:]), k).ravel() for k in range(4)]
    across = projection(features, K, seed)
    result = Crowd(
        truth,
        np.empty((clients, K, P), np.float32),
        np.empty(clients),
        np.empty((clients, features, P), np.float32) if whole else None,
        np.empty(clients),
    )
    for i in range(0, clients, AT_ONCE):
        some = slice(i, i + AT_ONCE)
        pixels = np.stack([turns[g] if orders is None else orders[g] for g in truth[some]])
        drawn = rng.integers(0, len(flat), (len(pixels), SAMPLES))
        x = flat[drawn[:, :, None], pixels[:, None, :]].astype(np.float64)
        kernel, image = x @ x.swapaxes(1, 2), x @ across
        mixtures = _mixtures(kernel)
        result.sketches[some] = np.linalg.qr(image.swapaxes(1, 2) @ mixtures)[0]
        if result.whole is not None:
            result.whole[some] = x.swapaxes(1, 2) @ mixtures
        result.sketched_halves[some], result.whole_halves[some] = _halves(kernel, image, rng)
    return result


def _mixtures(kernel: Array) -> Array:
    values, vectors = np.linalg.eigh(kernel)
    return vectors[..., ::-1][..., :P] / np.sqrt(np.maximum(values[..., ::-1][..., None, :P], 1e-12))


def _halves(kernel: Array, image: Array, rng: np.random.Generator) -> tuple[Array, Array]:
    """Return the mean angles between halves of each client's samples, by sketches and by whole signatures."""
    each, sketched, exact = np.arange(len(kernel))[:, None], [], []
    for _ in range(SPLITS):
        order = rng.permuted(np.tile(np.arange(SAMPLES), (len(kernel), 1)), axis=1)
        a, b = order[:, : SAMPLES // 2], order[:, SAMPLES // 2 :]
        within = [kernel[each[..., None], half[:, :, None], half[:, None, :]] for half in (a, b)]
        u, v = (_mixtures(part) for part in within)
        s, t = (np.linalg.qr(image[each, h].swapaxes(1, 2) @ m)[0] for h, m in ((a, u), (b, v)))
        sketched.append(_angle(s.swapaxes(1, 2) @ t))
        exact.append(_angle(u.swapaxes(1, 2) @ kernel[each[..., None], a[:, :, None], b[:, None, :]] @ v))
    return np.mean(sketched, axis=0), np.mean(exact, axis=0)


def _angle(products: Array) -> Array:
    entries = [[products[:, i, j].copy() for j in range(P)] for i in range(P)]
    return np.degrees(np.arccos(np.sqrt(np.clip(largest_eigenvalues(gram(entries)), 0, 1))))


def measured(case: str, clients: int, seed: int) -> Row:
    """Group the clients of a case by landmarks."""
    crowd = described(case, clients, seed)
    began, cpu = time.perf_counter(), time.process_time()
    vectors = list(crowd.sketches)
    sent = Sketches(vectors, crowd.sketched_halves, points(vectors))
    groups = by_landmarks(Auto(samples=SAMPLES), sent, stream(seed, "landmarks"))
    seconds, cpu = time.perf_counter() - began, time.process_time() - cpu
    print(f"  {case}: {groups.grouping.reason} Confidence {groups.grouping.confidence}", flush=True)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    ari, found = adjusted_rand_index(groups.labels, crowd.truth), found_groups(groups.labels, crowd.truth)
    n, passes = groups.grouping.n_groups, groups.grouping.passes
    return Row(case, clients, seed, seconds, cpu, peak, n, passes, ari, found)


def found_groups(labels: Array, truth: Array) -> str:
    """Count true groups of 20 clients and more that make up most of a group which has most of them."""
    large = np.flatnonzero(np.bincount(truth) >= RARE)
    found = 0
    for group in large:
        best = np.bincount(labels[truth == group]).argmax()
        share = np.mean(truth[labels == best] == group), np.mean(labels[truth == group] == best)
        found += min(share) > 0.5
    return f"{found}/{len(large)}"


def against_exact(case: str, clients: int, seed: int) -> Row:
    """Group the same clients by every two whole signatures, and by landmarks of sketches; ARI is of the two."""
    crowd = described(case, clients, seed, whole=True)
    assert crowd.whole is not None
    proximity = principal_angles(list(crowd.whole))
    exact = Auto(samples=SAMPLES).group(proximity, noise(crowd.whole_halves, [SAMPLES] * clients, proximity))
    began, cpu = time.perf_counter(), time.process_time()
    vectors = list(crowd.sketches)
    sent = Sketches(vectors, crowd.sketched_halves, points(vectors))
    groups = by_landmarks(Auto(samples=SAMPLES), sent, stream(seed, "landmarks"))
    seconds, cpu = time.perf_counter() - began, time.process_time() - cpu
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    ari = adjusted_rand_index(groups.labels, exact.labels)
    said = f"exact: {exact.n_groups} groups, ARI with the truth {adjusted_rand_index(exact.labels, crowd.truth):.4f}"
    return Row(case, clients, seed, seconds, cpu, peak, groups.grouping.n_groups, groups.grouping.passes, ari, said)


def main() -> None:
    """Print a row per case, number of clients and seed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clients", type=int, nargs="+")
    parser.add_argument("--cases", nargs="+", choices=CASES, default=CASES)
    parser.add_argument("--seeds", type=int)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--exact", action="store_true", help="compare with the exact way")
    asked = parser.parse_args()
    sizes = asked.clients or ([5000] if asked.exact else [1000, 10_000, 100_000])
    seeds = range(asked.first_seed, asked.first_seed + (asked.seeds or (5 if asked.exact else 1)))
    print(
        f"{'case':12} {'clients':>8} {'seed':>4} {'s':>7} {'CPU s':>7} {'GB':>5} {'groups':>6} {'passes':>6} {'ARI':>7}"
    )
    for case in asked.cases:
        for clients in sizes:
            for seed in seeds:
                with multiprocessing.get_context("spawn").Pool(1) as pool:
                    row = pool.apply(against_exact if asked.exact else measured, (case, clients, seed))
                print(
                    f"{row.case:12} {row.clients:8} {row.seed:4} {row.seconds:7.1f} {row.cpu:7.1f} {row.peak_gb:5.2f} "
                    f"{row.groups:6} {row.passes:6} {row.ari:7.4f}  {row.found}",
                    flush=True,
                )


if __name__ == "__main__":
    main()
