"""Which groups the moments of labels tell apart before training: a table of federations whose true groups are known.

    python benchmarks/structure.py                     # all rows, seed 0
    python benchmarks/structure.py --seeds 0,1,2 --only svhn
    python benchmarks/structure.py --samples 60        # of each client

A row says what was found (groups, agreement with the true groups), what the highest merge that was refused or made was,
in times chance, and how long it took.
"""

import argparse
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from coterie.data import FederatedData
from coterie.run.building import load_data
from coterie.run.cluster import grouped
from coterie.run.progress import Progress
from coterie.run.settings import settings_to_config
from coterie.streams import stream

ONE: list[tuple[str, str, int]] = [
    (name, partition, 100)
    for name in ("fashion_mnist", "cifar10")
    for partition in ("iid", "label-skew:rho=0.2", "dirichlet:alpha=0.1", "shards")
] + [("mnist", "by-user", 100), ("mnist", "by-user", 300), ("svhn", "iid", 40), ("svhn", "dirichlet:alpha=0.1", 40)]
"""One group: clients differ in their labels' frequencies, or each in its own way."""
SEVERAL: list[tuple[str, str, int]] = [
    (name, partition, 100)
    for name in ("fashion_mnist", "cifar10", "svhn")
    for partition in ("rotated", "permuted", "rotated:parts=dirichlet:alpha=0.1", "rotated:parts=label-skew:rho=0.2")
] + [("mix-4", "", 100), ("fashion_mnist", "sc-niid", 100), ("digits-rotated", "", 20), ("digits-permuted", "", 20)]
"""As many groups as are planted."""


def with_samples(data: FederatedData, most: int) -> FederatedData:
    """Leave each client at most so many training samples, drawn at random."""
    parts = [
        np.sort(stream(0, "fewer", client).permutation(part)[:most]) for client, part in enumerate(data.train_parts)
    ]
    return replace(data, train_parts=parts)


def rows(only: str, seeds: list[int], samples: int | None) -> Iterator[tuple[str, ...]]:
    """Yield the rows of the table."""
    for name, partition, clients in ONE + SEVERAL:
        if only not in f"{name} {partition}":
            continue
        for seed in seeds:
            start = time.perf_counter()
            settings: dict[str, Any] = {"dataset": name, "clients": clients, "seed": seed}
            if partition:
                settings["partition"] = partition
            config = settings_to_config(None, settings, "kindred")
            data = load_data(config)
            if samples:
                data = with_samples(data, samples)
            with grouped(config, data, Progress()) as (_, groups):
                ari = "" if groups.ari is None else f"{groups.ari:.2f}"
                took = f"{time.perf_counter() - start:.0f} s"
                found = str(groups.grouping.n_groups)
                yield name, partition, str(data.clients), str(seed), found, ari, groups.grouping.reason, took


def main() -> None:
    """Print the table, row by row."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", default="0")
    parser.add_argument("--only", default="", help="rows with this text in data set and partition")
    parser.add_argument("--samples", type=int, help="at most so many per client")
    asked = parser.parse_args()
    print("| data | partition | clients | seed | groups | ARI | why | time |\n|---|---|---|---|---|---|---|---|")
    for row in rows(asked.only, [int(seed) for seed in asked.seeds.split(",")], asked.samples):
        print(f"| {' | '.join(row)} |")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
