"""How long a table takes here, roughly: local steps and evaluated samples, counted from the catalogue and timed."""

import os
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from coterie.messages import ModelSpec
from coterie.reproduce.catalogue import Cell, Reproducible
from coterie.reproduce.request import TRAINED, ReproductionRequest
from coterie.results.run_folder import RunFolder
from coterie.run.config_evaluation import EvaluationSection
from coterie.training import one_thread

TESTED = 0.2
"""Test samples, as a share of the training samples."""
BESIDE = 1.05
"""All else: reading, grouping, writing."""
STEPS, SAMPLES = 5, 20
"""How many are timed: few, so that the list is quick."""
EVERY = EvaluationSection().every
TRAINS = (*TRAINED, "layers")

Speed = Callable[[ModelSpec, int], tuple[float, float]]
"""From a network and the size of batches to seconds per step and per evaluated sample, on one core."""


def minutes(
    item: Reproducible,
    request: ReproductionRequest | None = None,
    cores: int | None = None,
    *,
    here: bool = False,
    place: Path | None = None,
    speed: Speed | None = None,
) -> float | None:
    """Return about how many minutes a table takes on this machine's cores; None if nothing of it can be made.

    With `here`, only what needs no other data than those that are here counts; runs that are finished in the folder
    `place` take no time.
    """
    entry, cores = item.entry, cores or os.cpu_count() or 1
    if entry.kind in ("cannot", "same"):
        return None
    if entry.kind not in TRAINS:
        return (entry.minutes or 0.0) / min(cores, 2)
    request = request or ReproductionRequest()
    runs: dict[Path, float] = {}
    for cell in request.cells(item, place) if here else request.asked(item):
        paths = request.runs(item, cell, place or Path())
        waiting = [path for path in paths if place is None or not RunFolder(path).finished]
        if paths and paths[0] not in runs:
            seconds = _seconds(item, cell, request.scaled(cell.settings), speed or measured_speed) if waiting else 0.0
            runs[paths[0]] = len(waiting) * seconds
    if not runs:
        return None
    return sum(runs.values()) / 60 / (1 + 0.9 * (cores - 1))


def _seconds(item: Reproducible, cell: Cell, settings: Mapping[str, Any], speed: Speed) -> float:
    """Return seconds of one run on one core."""
    from coterie.models import MODELS

    training, algorithm = settings["training"], settings.get("algorithm", {})
    data, method = item.book.data[cell.data or ""], item.book.method(cell.method)
    options = {"name": "lenet5", **settings.get("model", {})}
    model = options.pop("name")
    spec = ModelSpec(model, data.shape, 10, MODELS.validate(model, options))
    batch_size = training.get("batch_size", 10)
    per_step, per_sample = speed(spec, batch_size)
    rounds, once = training.get("rounds", 50), training.get("epochs", 10)
    epochs = rounds * training.get("fraction", 0.1) * once + once  # the last for protocol +, by all clients
    if algorithm.get("name") == "solo":
        epochs = algorithm.get("epochs") or epochs - once
    every = settings.get("evaluation", {}).get("every", EVERY)
    evaluated = method.passes * TESTED * data.samples * (rounds / every if every else 1)
    steps = method.effort * epochs * data.samples / batch_size
    return float((steps * per_step + evaluated * per_sample) * BESIDE)


@cache
def measured_speed(spec: ModelSpec, batch_size: int) -> tuple[float, float]:
    """Time a few steps and evaluations of a network on this machine, once in a process."""
    import numpy as np

    from coterie.messages import Plan, Schedule
    from coterie.run.dry_run import measure_speed
    from coterie.training.choice import choose_trainer

    x = np.random.default_rng(0).standard_normal((SAMPLES, *spec.shape), np.float32)
    y, plan = np.arange(SAMPLES) % spec.classes, Plan(lr=Schedule(0.01), batch_size=batch_size)
    with one_thread():
        return measure_speed(choose_trainer("auto", spec), spec, plan, x, y, STEPS)


def duration(minutes: float | None) -> str:
    """Write minutes.

    >>> duration(0.2), duration(12.3), duration(300), duration(None)
    ('< 1 min', '12 min', '5 h', '–')
    """
    if minutes is None:
        return "–"
    if minutes < 1:
        return "< 1 min"
    if minutes < 90:
        return f"{minutes:.0f} min"
    return f"{minutes / 60:.0f} h" if minutes < 48 * 60 else f"{minutes / 60 / 24:.0f} days"
