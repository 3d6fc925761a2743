"""Memory of a run with 10,000 clients beyond its data: states on disk, evaluated at the end only.

python benchmarks/memory.py
"""

from __future__ import annotations

import resource
import tempfile
import time
from pathlib import Path

import numpy as np

import coterie

CLIENTS, SAMPLES = 10_000, 20


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "generated.npz"
        rng = np.random.default_rng(0)
        count = CLIENTS * SAMPLES * 20 // 19 + 100  # the server's set is taken first
        x = rng.integers(0, 256, (count, 8, 8), dtype=np.uint8)
        np.savez(path, x_train=x, y_train=rng.permutation(count) % 10)
        size = x.nbytes
        del x
        began = time.perf_counter()
        result = coterie.run(
            dataset=str(path), model="mlp", clients=CLIENTS, fraction=0.1, rounds=3, epochs=1,
            eval_every=0, state="disk", out=str(Path(name) / "run"),
        )  # fmt: skip
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        print(
            f"{CLIENTS:,} clients: peak {peak / 2**30:.2f} GiB, data {size / 2**30:.3f} GiB (goal: 2 GiB beyond), "
            f"{time.perf_counter() - began:.0f} s, L {result.accuracy['L']:.3f}"
        )


if __name__ == "__main__":
    main()
