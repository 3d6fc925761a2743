"""Federated averaging in plain PyTorch on two processes: what the other contestants are compared with.

Each process trains half of a round's clients, one thread each; the parent averages. Nothing else is there.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from common import Clock, Federation, LeNet5, arguments, read_federation, report, samples_of, start, train
from torch import multiprocessing, nn


def train_clients(
    task: tuple[np.ndarray, Sequence[int], Path, Federation],
) -> tuple[list[np.ndarray], int]:
    """Train some clients from the same model, one after the other; return their models and the steps made."""
    vector, clients, folder, federation = task
    torch.set_num_threads(1)
    model = LeNet5()
    trained = []
    for client in clients:
        nn.utils.vector_to_parameters(torch.from_numpy(vector.copy()), model.parameters())
        train(model, *samples_of(client, folder, federation), federation)
        trained.append(model.vector.numpy())
    return trained, model.steps


def main() -> None:
    folder: Path = arguments().folder
    federation = read_federation(folder)
    rng = np.random.default_rng(federation.seed)
    first = vector = start(folder, federation).vector.numpy()
    steps = 0
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        pool.map(abs, range(2))  # both are there
        clock = Clock()
        for _ in range(federation.rounds):
            cohort = rng.choice(federation.clients, federation.cohort, replace=False)
            halves = pool.map(
                train_clients, [(vector, cohort[i::2], folder, federation) for i in range(2)], chunksize=1
            )
            vector = np.mean([model for trained, _ in halves for model in trained], axis=0)
            steps += sum(made for _, made in halves)
            clock.round_is_over()
    report(clock, steps, float(np.linalg.norm(vector - first)), [])


if __name__ == "__main__":
    main()
