"""What all contestants share: the federation, its samples, the network, and the line that each prints at the end.

Every environment imports this file, so it needs NumPy and PyTorch only.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from importlib.metadata import version
from pathlib import Path

import numpy as np
import torch
from torch import nn
from torch.nn.functional import cross_entropy

SHAPE, CLASSES = (3, 32, 32), 10
MEAN, STD = 0.5, 0.23
"""Of the images' bytes, divided by 255."""


@dataclass(frozen=True)
class Federation:
    """Who takes part and how they train; the same for all, from `federation.json` in the folder of the run."""

    rounds: int
    """The first is a warm-up."""
    clients: int = 100
    samples: int = 500
    cohort: int = 10
    epochs: int = 2
    batch_size: int = 10
    lr: float = 0.01
    momentum: float = 0.5
    seed: int = 0

    @property
    def steps(self) -> int:
        """Local steps of all clients in all rounds."""
        return self.rounds * self.cohort * self.epochs * -(-self.samples // self.batch_size)


def prepare(folder: Path, federation: Federation, first: np.ndarray) -> None:
    """Write settings, start and samples: client i has the i-th slice; Coterie divides the same images itself."""
    np.save(folder / "start.npy", first)
    rng = np.random.default_rng(federation.seed)
    count = federation.clients * federation.samples
    reserved = min(2500, round(count * 0.05 / 0.95))  # what Coterie's server keeps of all, so that clients have equally
    y = rng.permutation(np.arange(count + reserved) % CLASSES)
    x = rng.integers(0, 192, (len(y), *SHAPE), dtype=np.uint8)
    x += rng.integers(0, 64, (CLASSES, *SHAPE), dtype=np.uint8)[y]  # something to learn, so that all move alike
    np.save(folder / "x.npy", x[:count])
    np.save(folder / "y.npy", y[:count])
    images = x.transpose(0, 2, 3, 1)
    np.savez(folder / "images.npz", x_train=images, y_train=y, x_test=images[:1000], y_test=y[:1000])
    (folder / "federation.json").write_text(json.dumps(asdict(federation)))


def arguments(*more: str) -> argparse.Namespace:
    """Read a contestant's command line: the folder of the run, and `more` where it needs more."""
    parser = argparse.ArgumentParser()
    for name in ("folder", *more):
        parser.add_argument(name, type=Path if name == "folder" else str)
    return parser.parse_args()


def read_federation(folder: Path) -> Federation:
    """Read the settings of the run."""
    return Federation(**json.loads((folder / "federation.json").read_text()))


@lru_cache
def _arrays(folder: Path) -> tuple[np.ndarray, np.ndarray]:
    return np.load(folder / "x.npy", mmap_mode="r"), np.load(folder / "y.npy")


def samples_of(client: int, folder: Path, federation: Federation) -> tuple[torch.Tensor, torch.Tensor]:
    """Return a client's images, normalised, and labels; about 2 ms of the 150 and more that it trains."""
    x, y = _arrays(folder)
    own = slice(client * federation.samples, (client + 1) * federation.samples)
    images = torch.from_numpy(x[own].astype(np.float32))
    return images.div_(255).sub_(MEAN).div_(STD), torch.from_numpy(y[own].copy())


class LeNet5(nn.Sequential):
    """Coterie's `lenet5` for 3×32×32, layer by layer; it counts its training steps."""

    def __init__(self) -> None:
        super().__init__(
            nn.Conv2d(3, 6, 5), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(6, 16, 5), nn.ReLU(), nn.MaxPool2d(2),
            nn.Flatten(),
            nn.Linear(400, 120), nn.ReLU(),
            nn.Linear(120, 84), nn.ReLU(),
            nn.Linear(84, CLASSES),
        )  # fmt: skip
        self.steps = 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the logits."""
        self.steps += torch.is_grad_enabled()
        return super().forward(x)

    @property
    def vector(self) -> torch.Tensor:
        """A copy of all parameters, one after the other."""
        return nn.utils.parameters_to_vector(self.parameters()).detach().clone()


def start(folder: Path, federation: Federation) -> LeNet5:
    """Return the common start, which is Coterie's; seed PyTorch."""
    torch.manual_seed(federation.seed)
    model = LeNet5()
    nn.utils.vector_to_parameters(torch.from_numpy(np.load(folder / "start.npy")), model.parameters())
    return model


def sgd(model: nn.Module, federation: Federation) -> torch.optim.Optimizer:
    """Return the local optimiser; a client's momentum starts from zero in every round."""
    return torch.optim.SGD(model.parameters(), lr=federation.lr, momentum=federation.momentum)


def train(model: LeNet5, x: torch.Tensor, y: torch.Tensor, federation: Federation) -> None:
    """Train on a client's samples: the usual PyTorch loop, for contestants that leave it to the user."""
    optimiser = sgd(model, federation)
    model.train()
    for _ in range(federation.epochs):
        for batch in torch.randperm(len(y)).split(federation.batch_size):
            optimiser.zero_grad()
            cross_entropy(model(x[batch]), y[batch]).backward()
            optimiser.step()


class Clock:
    """Times the rounds: made when the first begins, told when each is over."""

    def __init__(self) -> None:
        self.seconds: list[float] = []
        self._last = time.perf_counter()

    def round_is_over(self) -> None:
        """Note a round."""
        now = time.perf_counter()
        self.seconds.append(now - self._last)
        self._last = now


def report(clock: Clock, steps: int, moved: float, packages: Sequence[str]) -> None:
    """Print the line that `run.py` reads: seconds of each round, steps in all, ‖w − w⁰‖ at the end, versions."""
    versions = {package: version(package) for package in ("torch", *packages)}
    line = {"seconds": clock.seconds, "steps": steps, "moved": moved, "versions": versions}
    print("\n" + json.dumps(line), flush=True)
