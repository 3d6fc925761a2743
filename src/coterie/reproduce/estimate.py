"""How long a table takes here, roughly: local steps and evaluated samples, counted from the catalogue."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from coterie.reproduce.catalogue import Cell, MethodNote, Reproducible
from coterie.reproduce.request import ReproductionRequest
from coterie.reproduce.trained import KINDS as TRAINED
from coterie.reproduce.trained import run_path
from coterie.run.config import EvaluationSection

MILLISECONDS: dict[str, float] = {
    "lenet5": 0.72,
    "lenet5-bn": 3.5,
    "cnn": 0.3,
    "cnn-bn": 3.0,
    "mclr": 0.03,
    "mlp": 0.15,
    "resnet9": 300.0,
    "lstm": 15.0,
}
"""Of a step of 10 samples on one core of the 2-core reference machine ('coterie bench train' measures them here)."""
SMALL = 0.5
"""LeNet-5 on 1 x 28 x 28 takes so much of the time that it takes on 3 x 32 x 32."""
FORWARD = 0.065
"""Steps that take as long as the evaluation of one sample."""
TESTED = 0.2
"""Test samples, as a share of the training samples."""
BESIDE = 1.05
"""All else: reading, grouping, writing."""
EVERY = EvaluationSection().every
TRAINS = (*TRAINED, "layers")


def minutes(
    one: Reproducible, request: ReproductionRequest | None = None, cores: int | None = None, *, here: bool = False
) -> float | None:
    """Return about how many minutes a table takes on this machine's cores; None if nothing of it can be made.

    With `here`, only what needs no other data than those that are here counts.
    """
    entry, cores = one.entry, cores or os.cpu_count() or 1
    if entry.kind in ("cannot", "same"):
        return None
    if entry.kind not in TRAINS:
        return (entry.minutes or 0.0) / min(cores, 2)
    request = request or ReproductionRequest()
    runs: dict[Path, float] = {}
    for cell in request.cells(one) if here else request.asked(one):
        settings = request.scaled(cell.settings)
        runs[run_path(Path(), settings, 0)] = _seconds(one, cell, settings)
    if not runs:
        return None
    return len(request.seeds_of(one)) * sum(runs.values()) / 60 / (1 + 0.9 * (cores - 1))


def _seconds(one: Reproducible, cell: Cell, settings: Mapping[str, Any]) -> float:
    """Return seconds of one run on one core."""
    training, algorithm = settings["training"], settings.get("algorithm", {})
    data = one.book.data[cell.data or ""]
    model = settings.get("model", {}).get("name", "lenet5")
    rounds, once = training.get("rounds", 50), training.get("epochs", 10)
    epochs = rounds * training.get("fraction", 0.1) * once + once  # the last for protocol +, by all clients
    if algorithm.get("name") == "solo":
        epochs = algorithm.get("epochs") or epochs - once
    every = settings.get("evaluation", {}).get("every", EVERY)
    passes = one.book.methods[cell.method].passes if cell.method else MethodNote(label="").passes
    evaluated = passes * TESTED * data.samples * (rounds / every if every else 1)
    small = SMALL if model == "lenet5" and settings["data"]["name"] in ("fashion_mnist", "mnist") else 1.0
    effort = one.book.methods[cell.method].effort if cell.method else 1.0
    steps = effort * epochs * data.samples / training.get("batch_size", 10) + FORWARD * evaluated
    return float(steps * MILLISECONDS.get(model, 1.0) * small * BESIDE / 1000)


def told(found: float | None) -> str:
    """Write minutes.

    >>> told(0.2), told(12.3), told(300), told(None)
    ('< 1 min', '12 min', '5 h', '–')
    """
    if found is None:
        return "–"
    if found < 1:
        return "< 1 min"
    if found < 90:
        return f"{found:.0f} min"
    return f"{found / 60:.0f} h" if found < 48 * 60 else f"{found / 60 / 24:.0f} days"
