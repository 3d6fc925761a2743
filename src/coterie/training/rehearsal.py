"""A trainer that does no work but counts what there would be, for estimates before a run."""

import threading
from collections.abc import Sequence

import numpy as np

from coterie.messages import ModelSpec, Params
from coterie.messages.plan import total_steps
from coterie.models.learning import learning
from coterie.training.job import Diverged, Floats, Job, Outcome, one_by_one


class RehearsalTrainer:
    """Counts training steps and evaluated samples, and in how many trainings and evaluations they were."""

    name = "rehearsal"

    def __init__(self) -> None:
        self.steps = self.evaluated = self.trainings = self.evaluations = 0
        self._lock = threading.Lock()

    def train(self, job: Job) -> Outcome:
        """Return the start, changed a little, so that it counts as a new model."""
        steps = total_steps(len(job.y), job.plan)
        with self._lock:
            self.steps += steps
            self.trainings += 1
        floats = [key for key in sorted(learning(job.spec, job.plan.train)) if job.start[key].dtype.kind == "f"]
        name = min(floats, key=lambda key: job.start[key].size)
        changed = np.asarray(job.start[name] + job.rng.random(), job.start[name].dtype)
        return Outcome({**job.start, name: changed}, 0.0, steps)

    def train_together(self, jobs: Sequence[Job]) -> list[Outcome | Diverged]:
        """Count the steps of each."""
        return one_by_one(self, jobs)

    def logits(self, spec: ModelSpec, params: Params, x: Floats) -> Floats:
        """Return zeros."""
        with self._lock:
            self.evaluated += len(x)
            self.evaluations += 1
        return np.zeros((len(x), spec.classes), np.float32)
