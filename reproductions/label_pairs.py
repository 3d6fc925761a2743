"""How much of an accuracy under label skew is the luck of the draw: which pairs of labels clients have.

    COTERIE_DATA=... python reproductions/label_pairs.py cifar10

Takes the accuracy of each pair of labels from the SOLO runs that are kept here, and draws divisions of 100 clients.
Pairs that no client had are estimated from their two labels.
"""

import json
import sys
from pathlib import Path

import numpy as np

from coterie import data as sources
from coterie.data.partitions.label_skew import covering

HERE = Path(__file__).parent
CLIENTS, LABELS, DRAWS = 100, 10, 4000


def accuracy_by_pair(name: str) -> np.ndarray:
    """Return SOLO's accuracy for each two labels, (labels, labels)."""
    seen: dict[tuple[int, ...], list[float]] = {}
    for result in sorted(HERE.glob(f"runs/solo-{name}-*/seed-*/result.json")):
        run = json.loads(result.read_text(encoding="utf-8"))
        options = ("label-skew", {"rho": 0.2})
        data = sources.load(name, {}, options, CLIENTS, run["seed"], server_share=0.0)
        for part, accuracy in zip(data.train_parts, run["per_client"]["L"], strict=True):
            seen.setdefault(tuple(np.unique(data.train.y[part]).tolist()), []).append(accuracy)
        print(f"seed {run['seed']}: L {100 * np.mean(run['per_client']['L']):.2f}, {len(seen)} pairs of labels seen")
    rows = np.array([np.isin(np.arange(LABELS), pair) for pair in seen], float)
    errors = np.array([1 - np.mean(values) for values in seen.values()])
    by_label = np.linalg.lstsq(np.hstack([rows, np.ones((len(rows), 1))]), errors, rcond=None)[0]
    table = np.array([[1 - by_label[i] - by_label[j] - by_label[-1] for j in range(LABELS)] for i in range(LABELS)])
    for (i, j), values in seen.items():
        table[i, j] = table[j, i] = np.mean(values)
    return table


def main(name: str) -> None:
    """Print the spread of the mean over clients."""
    table = accuracy_by_pair(name)
    draws = [covering(CLIENTS, LABELS, 2, np.random.default_rng(seed)) for seed in range(DRAWS)]
    means = 100 * np.array([np.mean([table[tuple(np.flatnonzero(row))] for row in owned]) for owned in draws])
    low, middle, high = np.quantile(means, [0.01, 0.5, 0.99])
    spread = f"mean {means.mean():.2f}, deviation {means.std():.2f}"
    print(f"{DRAWS} draws: {spread}; 1 % below {low:.2f}, median {middle:.2f}, 1 % above {high:.2f}")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("label_pairs.py: name a data set whose SOLO runs are kept here: cifar10 or fashion_mnist")
    main(sys.argv[1])
