"""A plan with everything filled in, and what a trainer makes of it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import numpy.typing as npt

from coterie.messages import LARGEST, Array, ModelSpec, Params, Plan
from coterie.privacy import Randomness

Floats = npt.NDArray[np.float32]
Index = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Job:
    """One local training: the plan, and the arrays and the random stream that it is executed with."""

    spec: ModelSpec
    plan: Plan
    start: Params
    x: Floats
    y: Index
    rng: np.random.Generator
    anchors: tuple[tuple[Params, float], ...] = ()
    correction: Params | None = None
    mask: Params | None = None
    """Zeros and ones; parameters that it does not name are not masked."""
    order: Index | None = None
    """Samples from first to last of the curriculum; needed where the plan has one."""
    label_offset: Floats | None = None
    """Added to the logits, (classes,)."""
    own_part: tuple[Params, float] | None = None
    """The client's part of a mixture and its share α; needed where the plan has one."""
    even_batches: bool = False
    """Whether the batches of a pass are of one size, as far as that can be, instead of full ones and a rest."""
    secret: Randomness | None = None
    """Where coins and noise of private steps come from; None: `rng`, whose numbers a simulation can draw again."""

    @property
    def randomness(self) -> Randomness:
        """What private steps draw from: the coins of all steps first, then the noise of each."""
        return self.rng if self.secret is None else self.secret


@dataclass(frozen=True)
class Outcome:
    """What local training led to."""

    params: dict[str, Array]
    loss: float
    """Mean over the steps; 0 of private ones, whose losses are nowhere kept: a mean of them would be a release."""
    steps: int
    snapshots: tuple[dict[str, Array], ...] = ()
    kept: Mapping[str, Params] = field(default_factory=dict)
    """What the client keeps in place of these parameters (``model``), or beside them."""


TOO_LARGE = f"is not finite, or beyond {LARGEST:g},"


class Diverged(Exception):
    """The loss or a parameter became NaN, infinite or too large to compute with."""

    def __init__(self, step: int, what: str = "loss", how: str = "is not finite") -> None:
        super().__init__(f"{what} {how} at step {step}")
        self.step = step


class Trainer(Protocol):
    """What can execute jobs and run networks; safe to use from several threads."""

    name: str

    def train(self, job: Job) -> Outcome:
        """Execute a job; raise Diverged where the numbers end."""
        ...

    def train_together(self, jobs: Sequence[Job]) -> list[Outcome | Diverged]:
        """Execute jobs, some at once where that is possible; what has diverged is returned as such."""
        ...

    def logits(self, spec: ModelSpec, params: Params, x: Floats) -> Floats:
        """Return the outputs of a network, (samples, classes)."""
        ...


def one_by_one(trainer: Trainer, jobs: Sequence[Job]) -> list[Outcome | Diverged]:
    """Execute jobs one after the other."""
    outcomes: list[Outcome | Diverged] = []
    for job in jobs:
        try:
            outcomes.append(trainer.train(job))
        except Diverged as event:
            outcomes.append(event)
    return outcomes
