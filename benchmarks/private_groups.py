"""Which groups does rule auto find from private signatures? ARI against ε, samples a client, and vectors p.

    python benchmarks/private_groups.py                      # the tables of docs/privacy.md
    python benchmarks/private_groups.py --epsilons 1 --vectors 1 2 3 --seeds 5
    python benchmarks/private_groups.py --cost               # what a signature costs, in CPU time

Signatures are made as a client makes them (`coterie.client`), and compared and cut as method `pacfl` does. Images are
of Fashion-MNIST, or of another --dataset, or those of MIX-4, from the folder COTERIE_DATA.
"""

import argparse
import math
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from coterie.client import Client, LocalData, MemoryStore
from coterie.clustering import RULES, adjusted_rand_index, noise, wide_halves
from coterie.data import Samples, load
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
MIX = "mix-4"


@dataclass(frozen=True)
class Clients:
    """The samples of all clients, and their true groups."""

    parts: list[tuple[Images, Ints]]
    truth: list[int]


def drawn(case: str, pool: Samples, clients: int, n: int, seed: int) -> Clients:
    """Divide images among clients; of MIX-4 they are divided already, into four groups of unequal sizes."""
    if case == MIX:
        data = load(MIX, {"samples": n}, clients=clients, seed=seed)
        assert data.true_groups is not None
        return Clients([(data.train.x[part], data.train.y[part]) for part in data.train_parts], [*data.true_groups])
    rng = np.random.default_rng([seed, n])
    parts = [CASES[case](pool.x, pool.y, client, n, rng) for client in range(clients)]
    truth = np.arange(clients) % (GROUPS if case in ("rotations", "label sets") else 1)
    return Clients(parts, truth.tolist())


def described(x: Images, y: Ints, client: int, seed: int, epsilon: float, p: int) -> SignatureReply:
    """Ask a client for its signature."""
    everything, none, classes = np.arange(len(y)), np.zeros(0, np.int64), max(10, int(y.max()) + 1)
    data = LocalData(x, y, everything, x[:0], y[:0], none, classes, lambda raw: raw.astype(np.float32))
    verb = Signature(p, halves=6)
    if epsilon < math.inf:
        verb = Signature(p, halves=1, private=Guarantee(epsilon, 1e-5), features=mapped_shape(x.shape[1:]))
    spec = ModelSpec("mclr", x.shape[1:], classes)
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
    parser.add_argument("--cases", nargs="+", default=[*CASES, MIX], choices=[*CASES, MIX])
    parser.add_argument("--dataset", default="fashion_mnist", help="of which images all but those of mix-4 are")
    parser.add_argument("--epsilons", nargs="+", type=float, default=[math.inf, 8, 4, 2, 1])
    parser.add_argument("--samples", nargs="+", type=int, default=[50, 100, 200, 600])
    parser.add_argument("--vectors", nargs="+", type=int, default=[3])
    parser.add_argument("--clients", type=int, default=40)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--cost", action="store_true", help="measure the CPU time of signatures instead")
    options = parser.parse_args()
    pool = load(options.dataset, clients=2).train
    if options.cost:
        cost(pool, options.samples)
        return
    for case in options.cases:
        print(
            f"\n{case}: ARI of rule auto, mean over {options.seeds} seeds, {options.clients} clients (groups found)\n"
        )
        print("| p | samples |" + "".join(f" ε = {epsilon:g} |" for epsilon in options.epsilons))
        print("|---|---|" + "---|" * len(options.epsilons), flush=True)
        for p in options.vectors:
            for n in options.samples:
                print(f"| {p} | {n} |" + "".join(row(case, pool, options, n, p)), flush=True)


def cost(pool: Samples, samples: list[int], times: int = 10) -> None:
    """Print the CPU time of a signature without and with noise: the least of some."""
    for n in samples:
        x, y = iid(pool.x, pool.y, 0, n, np.random.default_rng(n))
        taken = []
        for epsilon in (math.inf, 1.0):
            each = []
            for client in range(times):
                start = time.process_time()
                described(x, y, client, 0, epsilon, 3)
                each.append(1000 * (time.process_time() - start))
            taken.append(min(each))
        print(f"{n} images: {taken[0]:.1f} ms without noise, {taken[1]:.1f} with, {taken[1] / taken[0]:.2f} times")


def row(case: str, pool: Samples, options: argparse.Namespace, n: int, p: int) -> list[str]:
    """Return the cells of a table for clients of so many samples, one for each ε."""
    agree: dict[float, list[float]] = {epsilon: [] for epsilon in options.epsilons}
    many: dict[float, list[int]] = {epsilon: [] for epsilon in options.epsilons}
    for seed in range(options.seeds):
        clients = drawn(case, pool, options.clients, n, seed)
        for epsilon in options.epsilons:
            told = [described(*part, client, seed, epsilon, p) for client, part in enumerate(clients.parts)]
            found = groups(told, n, epsilon < math.inf)
            agree[epsilon].append(adjusted_rand_index(found.tolist(), clients.truth))
            many[epsilon].append(int(found.max()) + 1)
    told_ari = case != "dirichlet"  # which has no groups
    return [
        f" {f'{np.mean(agree[epsilon]):.2f} ' if told_ari else ''}({np.mean(many[epsilon]):.3g}) |"
        for epsilon in options.epsilons
    ]


if __name__ == "__main__":
    main()
