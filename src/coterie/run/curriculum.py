"""Curricula of a run: what its settings say, and the expert that knows which samples are hard (ALGORITHMS 6)."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self, get_args, get_origin

import numpy as np
import numpy.typing as npt
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from coterie.errors import CoterieError, suggestion
from coterie.federation.curriculum import ClientCurriculum
from coterie.federation.federation import ClientSampler, UniformSampler
from coterie.files import write_whole
from coterie.messages import Array, Curriculum, ModelSpec, Params, Plan
from coterie.messages.plan import Order, Pacing, Score
from coterie.models import initial
from coterie.results.run_folder import RunFolder
from coterie.streams import stream
from coterie.training import Diverged, Job, Trainer, losses, pool_size

if TYPE_CHECKING:
    from coterie.data import FederatedData
    from coterie.run.config import Config
    from coterie.run.progress import Progress

BLOCK = 2000
"""Samples judged at a time."""
QUIET = 2.0
"""Seconds between two lines of progress."""


class Paced(BaseModel):
    """What both kinds of curriculum share: the pacing with its a and b, and the order."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False)

    pacing: Pacing = "linear"
    a: float = Field(0.8, ge=0, le=1)
    b: float = Field(0.2, ge=0, le=1)
    order: Order | Literal["vanilla"] = "curriculum"

    @classmethod
    def read(cls, table: Any) -> Self:
        """Check a table of settings; an empty value takes the default. Raise ValueError with what would be right."""
        if not isinstance(table, Mapping):
            raise ValueError("it should be a table, or key=value,key=value")
        for key in table:
            if key not in cls.model_fields:
                raise ValueError(f"it has no '{key}': {suggestion(str(key), cls.model_fields)}")
        given = {key: value for key, value in table.items() if value is not None and value != ""}
        for key, value in given.items():
            names = cls._names(key)
            if names and value not in names:
                raise ValueError(f"{key} '{value}' is unknown: {suggestion(str(value), names)}")
        try:
            return cls(**given)
        except ValidationError as error:
            wrong = error.errors()[0]
            key, message = wrong["loc"][0], wrong["msg"].removeprefix("Input ")
            raise ValueError(f"{key} = {wrong['input']!r} {message}") from None

    @classmethod
    def _names(cls, key: str) -> list[str]:
        """Return what may stand for a key that takes one of a few names."""
        annotation = cls.model_fields[key].annotation
        literals = [part for part in (annotation, *get_args(annotation)) if get_origin(part) is Literal]
        return [name for literal in literals for name in get_args(literal)]

    def short(self) -> str:
        """Write all settings as ``key=value,key=value``."""
        ordered = sorted(self, key=lambda item: item[0] != "score")  # which comes first, as in the papers
        return ",".join(f"{key}={value if isinstance(value, str) else json.dumps(value)}" for key, value in ordered)

    @property
    def hides_nothing(self) -> bool:
        """Whether the pool is everything from the first step on, as without a curriculum."""
        return self.order == "vanilla" or self.a == 0 or self.b == 1


class DataCurriculum(Paced):
    """Which of a client's samples a local step may use.

    >>> DataCurriculum.read({"score": "E", "a": ""}).short()
    'score=E,pacing=linear,a=0.8,b=0.2,order=curriculum'
    """

    score: Score = "G"

    def make(self) -> Curriculum | None:
        """Return what the plan of local training says; a random order needs no scores, and so no expert."""
        if self.hides_nothing or self.order == "vanilla":
            return None
        score: Score = "G" if self.order == "random" else self.score
        return Curriculum(score, self.pacing, self.a, self.b, self.order)


class ClientsCurriculum(Paced):
    """Which clients a round may draw.

    >>> ClientsCurriculum.read({"refresh_every": 5}).short()
    'pacing=linear,a=0.8,b=0.2,order=curriculum,refresh_every=5,all_batches=false'
    """

    refresh_every: int = Field(1, ge=1)
    all_batches: bool = False

    def make(self) -> ClientSampler:
        """Return who draws the cohorts."""
        if self.order == "vanilla" or (self.hides_nothing and not self.all_batches):
            return UniformSampler()
        return ClientCurriculum(self.pacing, self.a, self.b, self.order, self.refresh_every, self.all_batches)


def pacing_curves(a: float = 0.8, b: float = 0.2, steps: int = 200) -> dict[str, list[float]]:
    """Return for each pacing the share of samples in the pool at steps 0 … T−1 (dissertation, Figure 2.1)."""
    samples = 10**6
    return {
        pacing: [pool_size(Curriculum("G", pacing, a, b), t, steps, samples, 1) / samples for t in range(steps)]
        for pacing in get_args(Pacing)
    }


def check_expert(path: str) -> None:
    """Refuse an expert that is not there, before any data are read."""
    place = Path(path).expanduser()
    if place.is_dir():
        if not RunFolder(place).checkpoint.is_file():
            raise CoterieError(f"the expert '{path}' is a folder without a checkpoint: name a run that has trained")
    elif not place.is_file():
        raise CoterieError(f"there is no expert '{path}': name a run folder, or a .safetensors file of its parameters")


def needs_expert(config: Config) -> bool:
    """Say whether samples are judged by an expert: for their order in training, or to divide them among clients."""
    wanted = config.curriculum.of_data
    curriculum = None if wanted is None else wanted.make()
    return bool(config.partition.f_ord) or (curriculum is not None and curriculum.score == "E")


def make_expert(
    config: Config,
    data: FederatedData,
    spec: ModelSpec,
    plan: Plan,
    trainer: Trainer,
    progress: Progress,
    folder: Path | None = None,
) -> Params:
    """Return the expert of a run: the one kept in `folder`, else from where the settings say, else trained.

    It is trained on the samples of all clients together, which only a simulation can do. It is kept for when the run
    goes on, also if it was read, since what it was read from may change.
    """
    kept, made_by = None if folder is None else RunFolder(folder).expert_file, _made_by(config)
    if kept is not None and kept.is_file() and _told_by(kept) == made_by:
        return read_expert(str(kept), spec)
    if config.curriculum.expert is not None:
        expert = read_expert(config.curriculum.expert, spec)
    else:
        expert = _trained(config.curriculum.expert_epochs, config.run.seed, data, spec, plan, trainer, progress)
    if kept is not None:
        from safetensors.numpy import save

        arrays = {name: np.ascontiguousarray(value) for name, value in expert.items()}
        write_whole(kept, bytes(save(arrays, metadata={"coterie": made_by})))
    return expert


def _trained(
    epochs: int, seed: int, data: FederatedData, spec: ModelSpec, plan: Plan, trainer: Trainer, progress: Progress
) -> Params:
    """Train on all clients' samples together, an epoch at a time, as a federation of one client would."""
    pooled = np.concatenate(data.train_parts)
    x, y = data.normalise(data.train.x[pooled]), data.train.y[pooled]
    one = replace(plan, epochs=1, steps=None, curriculum=None)
    expert: Params = initial(spec, seed)
    progress.phase(
        f"training an expert on the samples of all {data.clients} clients, {len(y):,} in all, for {epochs} epochs "
        "(only a simulation can)"
    )
    said = time.monotonic()
    for epoch in range(1, epochs + 1):
        try:
            outcome = trainer.train(Job(spec, one, expert, x, y, stream(seed, "expert", epoch)))
        except Diverged as event:
            raise CoterieError(
                f"the expert's {event} of epoch {epoch}: lower --lr, or name one that is trained with --expert"
            ) from None
        expert = outcome.params
        if time.monotonic() - said > QUIET or epoch == epochs:
            progress.phase(f"the expert's epoch {epoch} of {epochs}: loss {outcome.loss:.3f}")
            said = time.monotonic()
    return expert


def difficulty(data: FederatedData, spec: ModelSpec, expert: Params, trainer: Trainer) -> npt.NDArray[np.float64]:
    """Return the expert's loss on each training sample of the clients, (samples,); NaN for those that nobody has."""
    found = np.full(len(data.train), np.nan)
    held = np.sort(np.concatenate(data.train_parts))
    for begin in range(0, len(held), BLOCK):
        part = held[begin : begin + BLOCK]
        found[part] = losses(trainer.logits(spec, expert, data.normalise(data.train.x[part])), data.train.y[part])
    return found


def read_expert(path: str, spec: ModelSpec) -> Params:
    """Read an expert from a run folder, where it is the model of all clients, or from a file of named parameters."""
    check_expert(path)
    place = Path(path).expanduser()
    found = _of_run(place) if place.is_dir() else _of_file(place)
    wanted = initial(spec, 0)
    wrong = _difference(found, wanted)
    if wrong:
        raise CoterieError(f"the expert '{path}' is another network than '{spec.name}' of this run: {wrong}")
    return {name: np.asarray(found[name], value.dtype) for name, value in wanted.items()}


def _of_run(folder: Path) -> Params:
    from coterie.run.trained_models import find_model

    try:
        return find_model(folder).params
    except CoterieError as error:
        raise CoterieError(
            f"the expert '{folder}' has no one model for all clients ({error}): name a run of fedavg, or a file"
        ) from None


def _of_file(file: Path) -> Params:
    from safetensors import SafetensorError
    from safetensors.numpy import load

    try:
        return dict[str, Array](load(file.read_bytes()))
    except OSError as error:
        raise CoterieError(f"the expert '{file}' can't be read: {error.strerror}") from None
    except (SafetensorError, KeyError, TypeError) as error:
        raise CoterieError(f"the expert '{file}' is not a .safetensors file of parameters: {error}") from None


def _difference(found: Params, wanted: Params) -> str | None:
    """Say in what two networks differ, by the names and shapes of their parameters."""
    missing, more = [n for n in wanted if n not in found], [n for n in found if n not in wanted]
    if missing or more:
        lacks = f"it lacks {_listed(missing)}" if missing else ""
        has = f"it has {_listed(more)}, unknown here" if more else ""
        return " and ".join(part for part in (lacks, has) if part)
    for name, value in wanted.items():
        if found[name].shape != value.shape:
            return f"its '{name}' is {found[name].shape}, here it is {value.shape}"
    return None


def _listed(names: list[str]) -> str:
    shown = ", ".join(f"'{name}'" for name in names[:3])
    return shown + (f" and {len(names) - 3} more" if len(names) > 3 else "")


def _made_by(config: Config) -> str:
    """Return the settings that an expert depends on, to recognise one that was trained by others."""
    chosen = config.model_dump()
    kept = {section: chosen[section] for section in ("data", "partition", "model", "training")}
    own = {key: chosen["curriculum"][key] for key in ("expert", "expert_epochs")}
    return json.dumps({**kept, **own, "seed": config.run.seed, "trainer": config.engine.trainer}, sort_keys=True)


def _told_by(file: Path) -> str | None:
    """Return the settings that a kept expert was trained by; None for a file that does not say so."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(file, framework="numpy") as content:
            return (content.metadata() or {}).get("coterie")
    except (OSError, SafetensorError):
        return None
