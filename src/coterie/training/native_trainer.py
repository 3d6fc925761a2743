"""Plans executed by the compiled trainer, for the small networks that it knows; others go to PyTorch."""

from __future__ import annotations

import threading
from collections.abc import Sequence, Set
from dataclasses import astuple, dataclass

import numpy as np

from coterie.messages import Array, ModelSpec, Params, usable
from coterie.messages.plan import steps_per_epoch, total_steps
from coterie.models import build
from coterie.models.learning import learning
from coterie.native import CompiledPrivacy, Floats, Network, stages
from coterie.training.batches import batches_of
from coterie.training.job import TOO_LARGE, Diverged, Job, Outcome, Trainer, one_by_one

MOST_STEPS = 2_000_000
"""Whose batches are held at once: a few hundred megabytes. PyTorch makes them as it goes."""


def runs_natively(spec: ModelSpec) -> bool:
    """Say whether a network is a sequence that the compiled trainer knows, trained for the loss that it has."""
    return spec.loss is None and stages(build(spec), tuple(spec.shape)) is not None


class NativeTrainer:
    """Executes jobs in compiled code; each thread keeps networks of its own, with their memory."""

    name = "native"

    def __init__(self, fallback: Trainer, lanes: int = 0) -> None:
        """`fallback` takes the networks that are not compiled; `lanes` is for tests, see `Network`."""
        self._fallback, self._lanes = fallback, lanes
        self._local = threading.local()

    def train(self, job: Job) -> Outcome:
        """Execute a job; raise Diverged where the numbers end."""
        compiled, plan = self._network(job.spec), job.plan
        without_end = total_steps(len(job.y), plan) > MOST_STEPS
        own_model = plan.mixture is not None or plan.proximal is not None
        lacks = job.spec.loss is not None or own_model or plan.l1 is not None  # L1 is for scales that it never has
        if compiled is None or lacks or without_end:
            return self._fallback.train(job)
        moments = {epoch * steps_per_epoch(len(job.y), plan) for epoch in plan.snapshots} if len(job.y) else set()
        batches = list(batches_of(job))
        outcome = compiled.network.train(
            job.x,
            job.y,
            compiled.flatten(job.start),
            batches=[batch for step in batches for batch in step],
            rates=np.array([plan.lr.at(step) for step in range(len(batches))], np.float32),
            momentum=plan.momentum,
            weight_decay=plan.weight_decay,
            meta_step=None if plan.meta_step is None else (plan.meta_step.rate, plan.meta_step.shared_momentum),
            anchors=[
                (
                    compiled.flatten(model, default=0.0),
                    compiled.flatten({name: np.full_like(a, mu) for name, a in model.items()}, default=0.0),
                )
                for model, mu in job.anchors
            ],
            correction=None if job.correction is None else compiled.flatten(job.correction, default=0.0),
            mask=None if job.mask is None else compiled.flatten(job.mask, default=1.0),
            label_offset=job.label_offset,
            learns=compiled.flags(learning(job.spec, plan.train)),
            snapshot_steps=[moment for moment in moments if 0 < moment <= len(batches)],
            clip=plan.clip,
            smoothing=plan.smoothing or 0.0,
            adam=None if plan.optimiser is None else astuple(plan.optimiser),
            privacy=compiled.privacy(job),
        )
        if outcome.diverged is not None:
            raise Diverged(outcome.diverged)
        params = compiled.shaped(outcome.model)
        if not usable(params):
            raise Diverged(outcome.steps, "a parameter", TOO_LARGE)
        snapshots = tuple(compiled.shaped(snapshot) for snapshot in outcome.snapshots)
        return Outcome(params, outcome.loss, outcome.steps, snapshots)

    def train_together(self, jobs: Sequence[Job]) -> list[Outcome | Diverged]:
        """Execute jobs one by one where they are compiled; PyTorch may take the others together."""
        if any(self._network(job.spec) is not None for job in jobs):
            return one_by_one(self, jobs)
        return self._fallback.train_together(jobs)

    def logits(self, spec: ModelSpec, params: Params, x: Floats) -> Floats:
        """Return the outputs of a network, (samples, classes)."""
        compiled = self._network(spec)
        if compiled is None:
            return self._fallback.logits(spec, params, x)
        return compiled.network.logits(x, compiled.flatten(params))

    def _network(self, spec: ModelSpec) -> _CompiledNetwork | None:
        networks: dict[object, _CompiledNetwork | None] = self._local.__dict__.setdefault("networks", {})
        if spec not in networks:
            networks[spec] = _CompiledNetwork.of(spec, self._lanes)
        return networks[spec]


@dataclass(frozen=True)
class _CompiledNetwork:
    """A network in the library, and how its plain vectors are made up of named tensors."""

    network: Network
    shapes: dict[str, tuple[int, ...]]

    @classmethod
    def of(cls, spec: ModelSpec, lanes: int) -> _CompiledNetwork | None:
        module = build(spec)
        sequence = stages(module, tuple(spec.shape))
        if sequence is None:
            return None
        return cls(Network(sequence, lanes), {name: tuple(p.shape) for name, p in module.state_dict().items()})

    def flatten(self, params: Params, default: float | None = None) -> Floats:
        """Return parameters one after the other; those that are not named get the default, if there is one."""
        pieces = [
            np.asarray(params[name], np.float32).ravel()
            if name in params or default is None
            else np.full(int(np.prod(shape)), default, np.float32)
            for name, shape in self.shapes.items()
        ]
        return np.concatenate(pieces)

    def flags(self, learns: Set[str]) -> list[bool] | None:
        """Say of each tensor whether it learns; None: all do."""
        return None if learns >= self.shapes.keys() else [name in learns for name in self.shapes]

    def privacy(self, job: Job) -> CompiledPrivacy | None:
        """Return how samples are hidden where steps are private; noise is drawn for what learns only, as by PyTorch."""
        private, learns = job.plan.private, learning(job.spec, job.plan.train)
        if private is None:
            return None
        places = self.flatten({name: np.full(shape, name in learns) for name, shape in self.shapes.items()}) > 0
        count = int(places.sum())

        def noise() -> Floats:
            numbers = np.zeros(len(places), np.float32)
            numbers[places] = job.randomness.standard_normal(count)
            return numbers

        return CompiledPrivacy(private.clip, private.noise * private.clip, job.plan.batch_size, noise)

    def shaped(self, vector: Floats) -> dict[str, Array]:
        """Return a vector as named tensors."""
        ends = np.cumsum([int(np.prod(shape)) for shape in self.shapes.values()])
        pieces = np.split(vector, ends[:-1])
        return {name: piece.reshape(shape) for (name, shape), piece in zip(self.shapes.items(), pieces, strict=True)}
