"""Where clients keep their state: in memory, on disk, or both.

The last two generations are kept, each stamped with the round that made it. A round that is asked again,
because the server died in it, starts from the state before it; what the lost attempt left is dropped.
"""

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol, TypeAlias

from coterie.bounded import check_tensors
from coterie.errors import CoterieError
from coterie.files import write_whole
from coterie.messages import ClientId, Params

State: TypeAlias = Mapping[str, Params]
"""Parameter sets by purpose: ``model``, ``control``, ``mask``."""

GENERATIONS = 2
_NAME = re.compile(r"(0|[1-9][0-9]{0,17})\.safetensors")


class Store(Protocol):
    """Client states by client and round; one client is used by one thread at a time."""

    def load(self, client: ClientId, before: int) -> State:
        """Return the latest state of a round earlier than `before`; empty if there is none."""
        ...

    def save(self, client: ClientId, round: int, state: State) -> None:
        """Keep the state of a round, and drop those of later rounds and all but the last two."""
        ...


class MemoryStore:
    """States in this process."""

    def __init__(self) -> None:
        self._states: dict[ClientId, dict[int, State]] = {}

    def load(self, client: ClientId, before: int) -> State:
        """Return the latest state of a round earlier than `before`."""
        states = self._states.get(client, {})
        rounds = [round for round in states if round < before]
        return states[max(rounds)] if rounds else {}

    def save(self, client: ClientId, round: int, state: State) -> None:
        """Keep the state of a round."""
        earlier = {r: s for r, s in self._states.get(client, {}).items() if r < round}
        kept = sorted(earlier)[1 - GENERATIONS :]
        self._states[client] = {r: earlier[r] for r in kept} | {round: state}


class DiskStore:
    """One folder per client, one file per generation; a file appears whole or not at all."""

    def __init__(self, folder: Path, durable: bool = False) -> None:
        """With `durable` a saved state survives a power cut too; each save then waits for the disk."""
        self.folder, self.durable = folder, durable

    def load(self, client: ClientId, before: int) -> State:
        """Return the latest state of a round earlier than `before`."""
        from safetensors import SafetensorError
        from safetensors.numpy import load_file

        rounds = [round for round in self._rounds(client) if round < before]
        if not rounds:
            return {}
        path = self._path(client, max(rounds))
        try:
            check_tensors(path)
            arrays = load_file(path)
        except (SafetensorError, OSError, ValueError) as error:
            raise CoterieError(f"the state of client {client} in {path} can't be read: {error}") from None
        state: dict[str, dict[str, object]] = {}
        for key, array in arrays.items():
            purpose, _, name = key.partition("/")
            state.setdefault(purpose, {})[name] = array
        return state  # type: ignore[return-value]

    def save(self, client: ClientId, round: int, state: State) -> None:
        """Keep the state of a round."""
        from safetensors.numpy import save

        path = self._path(client, round)
        path.parent.mkdir(parents=True, exist_ok=True)
        arrays = {f"{purpose}/{name}": array for purpose, params in state.items() for name, array in params.items()}
        write_whole(path, save(arrays), durable=self.durable)
        rounds = self._rounds(client)
        kept = set([r for r in rounds if r <= round][-GENERATIONS:])
        for stale in set(rounds) - kept:
            self._path(client, stale).unlink()

    def _path(self, client: ClientId, round: int) -> Path:
        return self.folder / str(client) / f"{round}.safetensors"

    def _rounds(self, client: ClientId) -> list[int]:
        try:
            names = os.listdir(self.folder / str(client))
        except FileNotFoundError:
            return []
        states = [name for name in names if name.endswith(".safetensors")]
        if odd := next((name for name in states if not _NAME.fullmatch(name)), None):
            raise CoterieError(
                f"'{self.folder / str(client)}' holds '{odd}', which is no state: they are called after their round, "
                "like 12.safetensors; remove it, or put its name back"
            )
        return sorted(int(name.partition(".")[0]) for name in states)


class CachedStore:
    """A disk store whose states also stay in memory."""

    def __init__(self, disk: DiskStore) -> None:
        self._disk, self._memory = disk, MemoryStore()
        self._from_before = set(os.listdir(disk.folder)) if disk.folder.exists() else set()
        """The folders of clients that had a state before: of the others, memory has all there is."""

    def load(self, client: ClientId, before: int) -> State:
        """Return the latest state of a round earlier than `before`."""
        state = self._memory.load(client, before)
        return state or (self._disk.load(client, before) if str(client) in self._from_before else {})

    def save(self, client: ClientId, round: int, state: State) -> None:
        """Keep the state of a round."""
        self._disk.save(client, round, state)
        self._memory.save(client, round, state)
