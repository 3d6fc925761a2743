"""Which groups does rule auto find from private signatures? ARI against ε, samples a client, and vectors p.

    python benchmarks/private_groups.py                      # the tables of docs/privacy.md
    python benchmarks/private_groups.py --epsilons 1 --vectors 1 2 3 --seeds 5

Signatures are made as a client makes them (`coterie.client`), and compared and cut as method `pacfl` does. Images are
of Fashion-MNIST, from the folder COTERIE_DATA.
"""

import argparse
import math
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from coterie.client import Client, LocalData, MemoryStore
from coterie.clustering import RULES, adjusted_rand_index, noise, wide_halves
from coterie.data import load
from coterie.messages import Guarantee, ModelSpec, Reply, Request, Signature, SignatureReply
from coterie.privacy import mapped_shape
from coterie.similarity import MEASURES
from coterie.training import choose_trainer

Images = npt.NDArray[np.uint8]
Ints = npt.NDArray[np.int64]
GROUPS = 4
LABEL_SETS = ((0, 1, 2, 3), (4, 5, 6), (7, 8, 9), (0, 4, 7))


def rotated(x: Images, y: Ints, client: int, n: int, rng: np.random.Generator) -> tuple[Images, Ints]:
    """Four groups: images turned by 0, 90, 180 and 270 degrees."""
    chosen = rng.choice(len(y), n, replace=False)
    return np.ascontiguousarray(np.rot90(x[chosen], client % GROUPS, axes=(-2, -1))), y[chosen]


def label_sets(x: Images, y: Ints, client: int, n: int, rng: np.random.Generator) -> tuple[Images, Ints]:
    """Four groups that have different labels; the last has one of each of the others."""
    chosen = rng.choice(np.flatnonzero(np.isin(y, LABEL_SETS[client % GROUPS])), n, replace=False)
    return x[chosen], y[chosen]


def iid(x: Images, y: Ints, client: int, n: int, rng: np.random.Generator) -> tuple[Images, Ints]:
    """One group."""
    chosen = rng.choice(len(y), n, replace=False)
    return x[chosen], y[chosen]


def dirichlet(x: Images, y: Ints, client: int, n: int, rng: np.random.Generator) -> tuple[Images, Ints]:
    """No groups: each client has label shares of its own, Dirichlet with α = 0.3."""
    labels = rng.choice(10, n, p=rng.dirichlet(np.full(10, 0.3)))
    chosen = np.concatenate([rng.choice(np.flatnonzero(y == c), (labels == c).sum(), replace=False) for c in range(10)])
    return x[chosen], y[chosen]


CASES: dict[str, Callable[..., tuple[Images, Ints]]] = {
    "rotations": rotated,
    "label sets": label_sets,
    "iid": iid,
    "dirichlet": dirichlet,
}


def described(x: Images, y: Ints, client: int, seed: int, epsilon: float, p: int) -> SignatureReply:
    """Ask a client for its signature."""
    everything, none = np.arange(len(y)), np.zeros(0, np.int64)
    data = LocalData(x, y, everything, x[:0], y[:0], none, 10, lambda raw: raw.astype(np.float32))
    verb = Signature(p, halves=6)
    if epsilon < math.inf:
        verb = Signature(p, halves=1, private=Guarantee(epsilon, 1e-5), features=mapped_shape(x.shape[1:]))
    spec = ModelSpec("mclr", x.shape[1:], 10)
    asked = Client(client, {0: data}, MemoryStore(), choose_trainer("torch", spec))
    reply = asked.answer(Request(0, seed, spec, (verb,)))
    assert isinstance(reply, Reply)
    return reply.answer(SignatureReply)


def groups(told: list[SignatureReply], samples: int, private: bool) -> Ints:
    """Group clients as method pacfl does."""
    proximity = MEASURES["theta1"]([reply.vectors for reply in told])
    halves = np.array([np.nan if reply.halves is None else reply.halves for reply in told])
    halves = wide_halves(halves) if private else halves
    made = RULES["auto"](samples=math.inf if private else samples)
    return made.group(proximity, noise(halves, [1 if private else samples] * len(told), proximity)).labels


def main() -> None:
    """Print a table for each case."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", nargs="+", default=[*CASES], choices=[*CASES])
    parser.add_argument("--epsilons", nargs="+", type=float, default=[math.inf, 8, 4, 2, 1])
    parser.add_argument("--samples", nargs="+", type=int, default=[50, 100, 200, 600])
    parser.add_argument("--vectors", nargs="+", type=int, default=[3])
    parser.add_argument("--clients", type=int, default=40)
    parser.add_argument("--seeds", type=int, default=5)
    options = parser.parse_args()
    pooled = load("fashion_mnist", clients=2)
    x, y = pooled.train.x, pooled.train.y
    for case in options.cases:
        print(
            f"\n{case}: ARI of rule auto, mean over {options.seeds} seeds, {options.clients} clients (groups found)\n"
        )
        print("| p | samples |" + "".join(f" ε = {epsilon:g} |" for epsilon in options.epsilons))
        print("|---|---|" + "---|" * len(options.epsilons))
        truth = np.arange(options.clients) % (GROUPS if case in ("rotations", "label sets") else 1)
        for p in options.vectors:
            for n in options.samples:
                cells = []
                for epsilon in options.epsilons:
                    agree, many = [], []
                    for seed in range(options.seeds):
                        rng = np.random.default_rng([seed, n])
                        parts = [CASES[case](x, y, client, n, rng) for client in range(options.clients)]
                        told = [described(*part, client, seed, epsilon, p) for client, part in enumerate(parts)]
                        found = groups(told, n, epsilon < math.inf)
                        agree.append(adjusted_rand_index(found.tolist(), truth.tolist()))
                        many.append(int(found.max()) + 1)
                    shown = f"{np.mean(agree):.2f} " if case != "dirichlet" else ""
                    cells.append(f" {shown}({np.mean(many):.3g}) |")
                print(f"| {p} | {n} |" + "".join(cells), flush=True)


if __name__ == "__main__":
    main()
