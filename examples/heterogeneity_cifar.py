"""How heterogeneous are IID, C-NIID(2) and SC-NIID(2) on CIFAR-10: Tables 5.2 and 5.3 of the dissertation.

    python examples/heterogeneity_cifar.py [ROUNDS] [EPOCHS] [SEEDS]

Table 5.3: the mean over all pairs of 100 clients of the principal angles between their images (p = 3, raw pixels;
Eq. 5.1 is the smallest angle, Eq. 5.2 the sum of those between vectors of the same rank), the sliced Wasserstein
distance, CKA, and the total variation between their labels. The dissertation says neither its units nor which earth
mover's distance it took, so only the order of the columns can be compared.

Table 5.2: FedAvg, LeNet-5, 100 clients, 10 of them a round, E = 10, B = 10, η = 0.01, momentum 0.9; accuracy of the
final model fine-tuned by each client (protocol +), and of each client's own after its last training (L). In IID(2) all
clients have the same two labels, drawn by the seed. With 0 rounds only Table 5.3 is printed.

Needs cifar10.npz in the folder COTERIE_DATA. Finished runs under runs/heterogeneity are not run again.
"""

import statistics
import sys
from pathlib import Path

import numpy as np
import numpy.typing as npt

import coterie
from coterie.cli.progress import ConsoleProgress
from coterie.data import load
from coterie.similarity import label_total_variation, pairwise, principal_angles, reduced, signature

PLACE = Path("runs/heterogeneity")
COMPARED = {"IID": ("iid", {}), "C-NIID(2)": ("c-niid", {"labels": 2}), "SC-NIID(2)": ("sc-niid", {"labels": 2})}
TRAINED = {"IID(2)": "iid:labels=2", "C-NIID(2)": "c-niid:labels=2", "SC-NIID(2)": "sc-niid:labels=2"}
PRINTED = {  # Table 5.3
    "Eq. 5.1": (0.072, 0.202, 0.274),
    "Eq. 5.2": (0.16, 0.28, 0.338),
    "EMD": (0.042, 0.17, 0.29),
    "CKA": (0.94, 0.889, 0.825),
}
ACCURACIES = {"IID(2)": "88.15 ± 0.47", "C-NIID(2)": "83.63 ± 1.27", "SC-NIID(2)": "75.53 ± 3.83"}  # Table 5.2


def measures(partition: str, options: dict[str, int], seed: int = 0) -> dict[str, float]:
    """Return the mean of each measure over all pairs of 100 clients."""
    data = load("cifar10", partition=(partition, options), clients=100, seed=seed)
    parts = [data.train.x[part] for part in data.train_parts]
    signatures = [signature(x, 3) for x in parts]
    counts = np.stack([np.bincount(data.train.y[part], minlength=10) for part in data.train_parts])
    matrices = {
        "Eq. 5.1": principal_angles(signatures, measure="theta1"),
        "Eq. 5.2": principal_angles(signatures, measure="trace"),
        "EMD": pairwise("emd", reduced(parts)),
        "CKA": pairwise("cka", parts),
        "label TV": label_total_variation(counts),
    }
    return {name: _between(matrix) for name, matrix in matrices.items()}


def _between(matrix: npt.NDArray[np.float64]) -> float:
    """Return the mean over pairs of different clients."""
    return float(matrix[~np.eye(len(matrix), dtype=bool)].mean())


def one(name: str, seed: int, rounds: int, epochs: int) -> coterie.Result:
    """Run FedAvg on a partition, or read its result if it was run before."""
    folder = PLACE / f"{name}-{rounds}x{epochs}-seed{seed}"
    if (folder / "config.toml").exists():
        return coterie.resume(folder, progress=ConsoleProgress())
    return coterie.run(
        algorithm="fedavg",
        dataset="cifar10",
        partition=TRAINED[name],
        model="lenet5",
        clients=100,
        fraction=0.1,
        rounds=rounds,
        epochs=epochs,
        batch_size=10,
        lr=0.01,
        momentum=0.9,
        eval_every=rounds,
        seed=seed,
        out=str(folder),
        progress=ConsoleProgress(),
    )


def spread(values: list[float]) -> str:
    """Write the mean of fractions in percent, and if there are several the standard deviation of this sample."""
    mean = f"{100 * statistics.mean(values):.2f}"
    return f"{mean} ± {100 * statistics.stdev(values):.2f}" if len(values) > 1 else mean


def main() -> None:
    """Print both tables beside the published numbers."""
    given = [int(value) for value in sys.argv[1:4]]
    rounds, epochs, seeds = (*given, *(30, 10, 3)[len(given) :])
    found = {name: measures(*partition) for name, partition in COMPARED.items()}
    print("| measure, mean over pairs | IID | C-NIID(2) | SC-NIID(2) | Table 5.3 |")
    print("|---|---|---|---|---|")
    for measure in next(iter(found.values())):
        row = " | ".join(f"{found[name][measure]:.3f}" for name in COMPARED)
        print(f"| {measure} | {row} | {' / '.join(map(str, PRINTED.get(measure, ('–',))))} |")
    if rounds == 0:
        return
    print(f"\n| partition | + after {rounds} rounds | L | Table 5.2, 100 rounds |")
    print("|---|---|---|---|")
    for name, printed in ACCURACIES.items():
        runs = [one(name, seed, rounds, epochs) for seed in range(seeds)]
        plus, own = ([float(run.accuracy[protocol] or 0) for run in runs] for protocol in ("plus", "L"))
        print(f"| {name} | {spread(plus)} | {spread(own)} | {printed} |")


if __name__ == "__main__":
    main()
