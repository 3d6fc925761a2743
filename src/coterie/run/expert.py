"""The expert, which knows which samples are hard: the one kept by a run, read from where settings say, or trained."""

import json
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from coterie.data import FederatedData
from coterie.errors import CoterieError, counted
from coterie.federation.curriculum import ClientCurriculum
from coterie.messages import ModelSpec, Params, Plan
from coterie.models import initial
from coterie.results.run_folder import RunFolder
from coterie.run.config import Config
from coterie.run.parameter_files import error_in_parameters, read_parameters
from coterie.run.plugins import NotPermitted
from coterie.run.progress import Progress
from coterie.run.trained_models import find_model, plugins_of
from coterie.streams import stream
from coterie.training import Diverged, Job, Trainer, losses

BLOCK = 2000
"""Samples judged at a time."""
QUIET = 2.0
"""Seconds between two lines of progress."""


def check_expert(path: str) -> None:
    """Refuse an expert that is not there, before any data are read."""
    place = Path(path).expanduser()
    if place.is_dir():
        if not RunFolder(place).checkpoint.is_file():
            raise CoterieError(f"the expert '{path}' is a folder without a checkpoint: name a run that has trained")
    elif not place.is_file():
        raise CoterieError(f"there is no expert '{path}': name a run folder, or a .safetensors file of its parameters")


def trust_expert(tables: dict[str, Any]) -> None:
    """Add to tables of a configuration the plugins that the run names which is its expert: the user trusts it."""
    sections = [tables.get(name, {}) for name in ("curriculum", "run")]
    if not all(isinstance(section, dict) for section in sections):
        return  # which whoever checks the tables will say
    expert, named = sections[0].get("expert"), sections[1].get("plugins", [])
    if isinstance(expert, str) and (place := Path(expert).expanduser()).is_dir() and isinstance(named, list):
        check_expert(expert)
        if added := [plugin for plugin in plugins_of(place) if plugin not in named]:
            tables.setdefault("run", {})["plugins"] = [*named, *added]


def needs_expert(config: Config) -> bool:
    """Say whether an expert judges samples: for their order or that of clients, or to divide them among clients."""
    curriculum, sampler = config.curriculum.of_samples, config.curriculum.sampler
    orders_samples = curriculum is not None and curriculum.score == "E"
    orders_clients = isinstance(sampler, ClientCurriculum) and sampler.score == "E"
    return bool(config.partition.f_ord) or orders_samples or orders_clients


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
    run, settings = None if folder is None else RunFolder(folder), _settings_of(config)
    if run is not None and run.expert_settings() == settings:
        return read_expert(str(run.expert_file), spec)
    if config.curriculum.expert is not None:
        expert = read_expert(config.curriculum.expert, spec)
    else:
        expert = _trained(config.curriculum.expert_epochs, config.run.seed, data, spec, plan, trainer, progress)
    if run is not None:
        run.write_expert(expert, settings)
    return expert


def _trained(
    epochs: int, seed: int, data: FederatedData, spec: ModelSpec, plan: Plan, trainer: Trainer, progress: Progress
) -> Params:
    """Train on all clients' samples together, an epoch at a time, as a federation of one client would."""
    pooled = np.concatenate(data.train_parts)
    x, y = data.normalise(data.train.x[pooled]), data.train.y[pooled]
    epoch_plan = replace(plan, epochs=1, steps=None, curriculum=None)
    expert: Params = initial(spec, seed)
    progress.phase(
        f"training an expert on all {len(y):,} samples of {counted(data.clients, 'client')} "
        f"for {counted(epochs, 'epoch')} (only a simulation can)"
    )
    shown = time.monotonic()
    for epoch in range(1, epochs + 1):
        try:
            outcome = trainer.train(Job(spec, epoch_plan, expert, x, y, stream(seed, "expert", epoch)))
        except Diverged as event:
            raise CoterieError(
                f"the expert's {event} of epoch {epoch}: lower --lr, or name one that is trained with --expert"
            ) from None
        expert = outcome.params
        if time.monotonic() - shown > QUIET or epoch == epochs:
            progress.phase(f"the expert's epoch {epoch} of {epochs}: loss {outcome.loss:.3f}")
            shown = time.monotonic()
    return expert


def difficulty(data: FederatedData, spec: ModelSpec, expert: Params, trainer: Trainer) -> npt.NDArray[np.float64]:
    """Return the expert's loss on each training sample of the clients, (samples,); NaN for those that nobody has."""
    losses_by_sample = np.full(len(data.train), np.nan)
    held = np.sort(np.concatenate(data.train_parts))
    for begin in range(0, len(held), BLOCK):
        part = held[begin : begin + BLOCK]
        logits = trainer.logits(spec, expert, data.normalise(data.train.x[part]))
        losses_by_sample[part] = losses(logits, data.train.y[part], spec.loss)
    return losses_by_sample


def read_expert(path: str, spec: ModelSpec) -> Params:
    """Read an expert from a run folder, where it is the model of all clients, or from a file of named parameters."""
    check_expert(path)
    place = Path(path).expanduser()
    expert = _of_run(place) if place.is_dir() else read_parameters(place, "the expert")
    expected = initial(spec, 0)
    if error := error_in_parameters(expert, expected):
        raise CoterieError(f"the expert '{path}' is another network than '{spec.name}' of this run: {error}")
    return {name: np.asarray(expert[name], value.dtype) for name, value in expected.items()}


def _of_run(folder: Path) -> Params:
    try:
        return find_model(folder).params
    except NotPermitted:
        raise
    except CoterieError as error:
        raise CoterieError(
            f"the expert '{folder}' has no single model for all clients ({error}): name a run of fedavg, or a file"
        ) from None


def _settings_of(config: Config) -> str:
    """Return the settings that an expert depends on, to recognise one that was trained by others."""
    chosen = config.model_dump()
    kept = {section: chosen[section] for section in ("data", "partition", "model", "training")}
    expert = {key: chosen["curriculum"][key] for key in ("expert", "expert_epochs")}
    return json.dumps({**kept, **expert, "seed": config.run.seed, "trainer": config.engine.trainer}, sort_keys=True)
