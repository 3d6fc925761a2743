"""A run's checkpoint as it is read back: whole, and of the kind that a run writes (`coterie.run.recorder`)."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from coterie.errors import CoterieError, what_is_wanted
from coterie.federation.checkpoint import load_checkpoint
from coterie.messages import ModelSpec
from coterie.results.run_folder import RunFolder
from coterie.run.config import Config
from coterie.run.plugins import blamed_on_plugin

NEEDED: dict[str, type | tuple[type, ...]] = {
    "config": str,
    "round": int,
    "seconds": (int, float),
    "algorithm": Mapping,
    "evaluator": Mapping,
    "federation": Mapping,
    "journal": Mapping,
    "spec": ModelSpec,
    "dtype": str,
    "raw_shape": tuple,
    "normalise": (Mapping, type(None)),
}
"""What is in a checkpoint, and of which type."""
AGAIN = "put back a copy, or start over with --overwrite"


def read_checkpoint(folder: RunFolder) -> tuple[dict[str, Any], Config]:
    """Return what a run goes on from, and the configuration in it; no plugin is imported."""
    state = load_checkpoint(folder.checkpoint)
    for key, kind in NEEDED.items():
        if key not in state or not isinstance(state[key], kind):
            problem = f"'{key}' is a {type(state[key]).__name__}" if key in state else f"there is no '{key}'"
            raise CoterieError(f"the checkpoint {folder.checkpoint} is not of a run ({problem}): {AGAIN}")
    try:
        return state, Config.model_validate_json(state["config"])
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, ("config", *first["loc"])))
        raise CoterieError(
            f"the checkpoint {folder.checkpoint} is damaged ({where}: {what_is_wanted([first])}): {AGAIN}"
        ) from None


@contextmanager
def damage_named(checkpoint: Path) -> Iterator[None]:
    """Say which file it was where a state can't be restored; an error of a plugin stays what it is."""
    try:
        yield
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RuntimeError) as error:
        if blamed_on_plugin(error):
            raise
        problem = f"{type(error).__name__}: {error}"
        raise CoterieError(
            f"the checkpoint {checkpoint} holds a state that can't be restored ({problem}): {AGAIN}"
        ) from error
