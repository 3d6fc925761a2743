"""What goes to a device and comes back from it: as seldom as can be, since each time one side waits for the other."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice

import numpy as np
import numpy.typing as npt
import torch

from coterie.errors import CoterieError
from coterie.messages import Array
from coterie.training.batches import Step
from coterie.training.job import Diverged, Floats, Index

BLOCK = 1000
"""Steps whose batches are sent to the device, and whose losses are read, together."""


SEEDING = {"cuda": torch.cuda.manual_seed_all, "mps": torch.mps.manual_seed}
"""How the generators of devices are seeded that have one of their own."""


def choose_device(wanted: str) -> torch.device:
    """Return a device by name; ``auto`` is a GPU if there is one, else the CPU. Refuse one that is not there."""
    if wanted == "auto":
        wanted = "cuda" if torch.cuda.is_available() else "mps" if torch.backends.mps.is_available() else "cpu"
    try:
        device = torch.device(wanted)
        torch.empty(0, device=device)
    except (AssertionError, RuntimeError, NotImplementedError) as error:
        reason = str(error).partition("\n")[0].rstrip(". ")
        raise CoterieError(
            f"device '{wanted}' can't be used here ({reason}): write --device cpu, or auto for what there is"
        ) from None
    return device


def read(state: Mapping[str, torch.Tensor]) -> dict[str, Array]:
    """Return tensors of a device as arrays of their own."""
    return {name: tensor.cpu().numpy().copy() for name, tensor in state.items()}


class DeviceSamples:
    """Samples of a training: at one place, from where batches go to the device."""

    def __init__(self, x: Floats, y: Index, place: torch.device, device: torch.device) -> None:
        self.x, self.y = torch.from_numpy(x).to(place), torch.from_numpy(y).to(place)
        self.place, self.device = place, device

    def batch(self, index: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return inputs and labels of a batch, on the device."""
        return self.x[index].to(self.device), self.y[index].to(self.device)


def sent(batches: Iterator[Step], place: torch.device) -> Iterator[tuple[torch.Tensor, ...]]:
    """Yield the batches of each step as tensors at a place, where those of many steps go together."""
    while block := [*islice(batches, BLOCK)]:
        parts = [batch for step in block for batch in step]
        tensors = torch.split(torch.from_numpy(np.concatenate(parts)).to(place), [len(part) for part in parts])
        per_step = len(block[0])
        yield from (tensors[i : i + per_step] for i in range(0, len(tensors), per_step))


class StepLosses:
    """The losses of steps, which stay on the device until they are read together."""

    def __init__(self) -> None:
        self._known: list[npt.NDArray[np.float64]] = []
        self._waiting: list[torch.Tensor] = []

    def add(self, loss: torch.Tensor) -> None:
        """Note the loss of a step; after many they are read, so that what has diverged comes to an end."""
        self._waiting.append(loss)
        if len(self._waiting) == BLOCK:
            self._read()

    def read(self) -> npt.NDArray[np.float64]:
        """Return them all, (steps,); raise Diverged at the first that is not finite."""
        self._read()
        return np.concatenate(self._known) if self._known else np.zeros(0)

    def _read(self) -> None:
        if not self._waiting:
            return
        losses = torch.stack(self._waiting).cpu().numpy().astype(np.float64)
        if not np.isfinite(losses).all():
            raise Diverged(sum(map(len, self._known)) + int(np.argmin(np.isfinite(losses))))
        self._known.append(losses)
        self._waiting = []
