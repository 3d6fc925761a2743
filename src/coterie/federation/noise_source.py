"""Where the server's coins and noise come from in private training, and what becomes of the models that it makes.

In a simulation it is the seed: whoever has it can draw everything again. The server of a deployed federation has a
secret of its own. It also keeps the models of a round before anybody receives them. A round that is asked again after a
crash may have other replies: made anew, its models would be one more release that nobody accounts for. So they are
those that were published.
"""

import os
from pathlib import Path
from typing import Protocol, TypeVar

from coterie.errors import CoterieError
from coterie.federation.checkpoint import load_checkpoint, save_checkpoint
from coterie.messages import Array, frozen
from coterie.privacy import Randomness, SecretRandomness, derived_key
from coterie.privacy.secret_file import secret_in
from coterie.streams import stream

SECRET, PUBLISHED = "secret", "published.safetensors"
"""The server's files in its run folder."""
FRESH = 32
"""Bytes of the system's randomness in each noise."""

K = TypeVar("K")
Models = dict[K, dict[str, Array]]


class NoiseSource(Protocol):
    """What private training draws from, and publishes through."""

    def draw(self, purpose: str, *address: int) -> Randomness:
        """Return the random numbers at an address, always the same."""
        ...

    def noise(self, purpose: str, *address: int) -> Randomness:
        """Return noise, which outside simulations is never drawn again."""
        ...

    def publish(self, round: int, models: Models[K], clip: float) -> tuple[Models[K], float]:
        """Return what a round publishes: models by group, and the clip of the next round."""
        ...


class SeededNoise:
    """That of simulations, which repeat."""

    def __init__(self, seed: int) -> None:
        self._seed = seed

    def draw(self, purpose: str, *address: int) -> Randomness:
        """Return the stream of the seed."""
        return stream(self._seed, purpose, *address)

    def noise(self, purpose: str, *address: int) -> Randomness:
        """Return that of the seed, too."""
        return self.draw(purpose, *address)

    def publish(self, round: int, models: Models[K], clip: float) -> tuple[Models[K], float]:
        """Nothing is sent to anybody."""
        return models, clip


class SecretNoise:
    """That of a server whose clients are real; it keeps a secret and what it published last in a folder."""

    def __init__(self, folder: Path) -> None:
        self._file, secret = folder / PUBLISHED, folder / SECRET
        self._secret = bytes.fromhex(secret_in(secret, "remove it: coins and noise of further rounds are new then"))

    def draw(self, purpose: str, *address: int) -> Randomness:
        """Return numbers that nobody else can tell from random ones."""
        where = (number.to_bytes(8, "little", signed=True) for number in address)
        return SecretRandomness(derived_key(self._secret, purpose.encode(), *where))

    def noise(self, purpose: str, *address: int) -> Randomness:
        """Return new numbers each time: if a round is made again, no difference of two models is without noise."""
        return SecretRandomness(derived_key(self._secret, purpose.encode(), os.urandom(FRESH)))

    def publish(self, round: int, models: Models[K], clip: float) -> tuple[Models[K], float]:
        """Keep what a round publishes, on disk; what it published before is published again.

        A group that has come since is added.
        """
        last, kept, kept_clip = self._last()
        if last not in (round, round - 1) and (last, round) != (-1, 1):
            known = f"says that round {last} is " + ("over" if last > round else "the last")
            raise CoterieError(
                f"models of round {round} can't be published: '{self._file}' "
                + ("is missing" if last < 0 else known)
                + ", and others would be one more release, which ε does not count: put back the newest copy of "
                "the run folder"
            )
        before = kept if last == round else {}
        models = {group: before.get(place, model) for place, (group, model) in enumerate(models.items())}
        clip = kept_clip if before else clip
        state = {"round": round, "models": {**before, **dict(enumerate(models.values()))}, "clip": clip}
        save_checkpoint(self._file, state, durable=True)
        return models, clip

    def _last(self) -> tuple[int, dict[int, dict[str, Array]], float]:
        """Return the last round that was published, its models and clip; -1: none."""
        if not self._file.exists():
            return -1, {}, 0.0
        state = load_checkpoint(self._file)
        models = {int(place): dict(frozen(model)) for place, model in state["models"].items()}
        return int(state["round"]), models, float(state["clip"])
