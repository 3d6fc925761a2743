"""Divided data as files that several processes of a simulation map into their memory: read once, held once."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from coterie.data import FederatedData, Normaliser, Samples
from coterie.data.federated import Index, Phase
from coterie.data.on_demand import blocks
from coterie.data.parts import ClientParts, LabelParts


@dataclass(frozen=True)
class SharedData:
    """Where the files are; small enough to travel with every message."""

    folder: str
    name: str
    classes: int
    common_test: bool
    normalise: Normaliser
    starts: tuple[int, ...]
    """The rounds in which the clients' samples change."""
    has_views: bool
    """Whether groups see test samples in different ways."""
    drawn_tests: bool
    """Whether clients' test parts were drawn from their own samples."""

    def open(self) -> FederatedData:
        """Return the data as they were written; arrays are read when they are used."""

        def samples(part: str) -> Samples:
            return Samples(self._array(f"{part}-x"), self._array(f"{part}-y"))

        first, *later = [(self._parts(f"train-{k}"), self._parts(f"test-{k}")) for k in range(len(self.starts) + 1)]
        drift = [Phase(start, *parts) for start, parts in zip(self.starts, later, strict=True)]
        train, test, common = samples("train"), samples("test"), self.common_test
        views = self._array("test-views") if self.has_views else None
        return FederatedData(
            self.name,
            self.classes,
            train,
            test,
            *first,
            common,
            train[:0],
            self.normalise,
            test_views=views,
            drift=drift,
            drawn_tests=self.drawn_tests,
        )

    def _array(self, name: str) -> npt.NDArray[Any]:
        return np.asarray(np.load(Path(self.folder) / f"{name}.npy", mmap_mode="r", allow_pickle=False))

    def _parts(self, name: str) -> Sequence[Index]:
        offsets = self._array(f"{name}-offsets")
        if (Path(self.folder) / f"{name}-owned.npy").exists():
            return LabelParts(offsets, self._array(f"{name}-owned"), self._array(f"{name}-first"))
        return ClientParts(offsets, self._array(f"{name}-parts"))


def share(data: FederatedData, folder: Path) -> SharedData:
    """Write what clients need of divided data into a folder; the server's own samples stay with it."""
    folder.mkdir(parents=True, exist_ok=True)
    for part, samples in (("train", data.train), ("test", data.test)):
        _save_rows(folder / f"{part}-x.npy", samples.x)
        _save_rows(folder / f"{part}-y.npy", samples.y)
    phases = [(data.train_parts, data.test_parts), *((phase.train_parts, phase.test_parts) for phase in data.drift)]
    for k, parts in enumerate(phases):
        for name, whose in zip((f"train-{k}", f"test-{k}"), parts, strict=True):
            _save_parts(folder, name, whose)
    if data.test_views is not None:
        np.save(folder / "test-views.npy", data.test_views, allow_pickle=False)
    starts, views = tuple(phase.start for phase in data.drift), data.test_views is not None
    return SharedData(
        str(folder.absolute()),
        data.name,
        data.classes,
        data.common_test,
        data.normalise,
        starts,
        views,
        data.drawn_tests,
    )


def _save_rows(path: Path, rows: npt.NDArray[Any]) -> None:
    """Write inputs or labels, of which not all may be in memory."""
    file = np.lib.format.open_memmap(path, "w+", rows.dtype, rows.shape)
    done = 0
    for block in blocks(rows):
        file[done : done + len(block)] = block
        done += len(block)
    file.flush()


def _save_parts(folder: Path, name: str, parts: Sequence[Index]) -> None:
    """Write parts in the form in which they are, as all test samples of its labels for each client are many."""
    if isinstance(parts, LabelParts):
        first = np.zeros(len(parts), np.int64) if parts.first is None else parts.first
        arrays = {"offsets": parts.offsets, "owned": parts.owned, "first": first}
    else:
        listed = ClientParts.of(parts)
        arrays = {"offsets": listed.offsets - listed.offsets[0], "parts": listed.together}
    for kind, array in arrays.items():
        np.save(folder / f"{name}-{kind}.npy", array, allow_pickle=False)
