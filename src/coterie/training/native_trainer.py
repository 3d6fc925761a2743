"""Plans executed by the compiled trainer, for the small networks that it knows; others go to PyTorch."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from dataclasses import astuple, dataclass

import numpy as np

from coterie.messages import Array, ModelSpec, Params, usable
from coterie.messages.params import STATISTICS
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
        if compiled is None or not compiled.executes(job):
            return self._fallback.train(job)
        epochs = {epoch * steps_per_epoch(len(job.y), plan) for epoch in plan.snapshots} if len(job.y) else set()
        batches, learns = list(batches_of(job)), learning(job.spec, plan.train)
        moments = sorted(step for step in epochs if 0 < step <= len(batches))
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
                (compiled.flatten(model, default=0.0), compiled.strengths(compiled.shapes.keys() & model.keys(), by))
                for model, by in job.anchors
            ],
            correction=None if job.correction is None else compiled.flatten(job.correction, default=0.0),
            mask=None if job.mask is None else compiled.flatten(job.mask, default=1.0),
            label_offset=job.label_offset,
            learns=compiled.flags(learns),
            snapshot_steps=moments,
            clip=plan.clip,
            smoothing=plan.smoothing or 0.0,
            adam=None if plan.optimiser is None else astuple(plan.optimiser),
            privacy=compiled.privacy(job),
            l1=None if plan.l1 is None else compiled.strengths(plan.l1.tensors, plan.l1.strength),
        )
        if outcome.diverged is not None:
            raise Diverged(outcome.diverged)
        vectors, steps = [outcome.model, *outcome.snapshots], [outcome.steps, *moments]
        params, *snapshots = [compiled.after(job, s, vector) for s, vector in zip(steps, vectors, strict=True)]
        if not usable(params):
            raise Diverged(outcome.steps, "a parameter", TOO_LARGE)
        return Outcome(params, outcome.loss, outcome.steps, tuple(snapshots))

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
    """Of the tensors in a vector."""
    names: tuple[str, ...]
    """Of all tensors: also of what norms count in whole numbers, which the library never sees."""

    @classmethod
    def of(cls, spec: ModelSpec, lanes: int) -> _CompiledNetwork | None:
        module = build(spec)
        sequence = stages(module, tuple(spec.shape))
        if sequence is None:
            return None
        state = module.state_dict()
        shapes = {name: tuple(p.shape) for name, p in state.items() if p.is_floating_point()}
        return cls(Network(sequence, lanes), shapes, tuple(state))

    def executes(self, job: Job) -> bool:
        """Say whether the library does all that a job asks for."""
        plan = job.plan
        own_model = plan.mixture is not None or plan.proximal is not None
        mixes_samples = len(self.names) > len(self.shapes)
        if job.spec.loss is not None or own_model or (plan.private is not None and mixes_samples):
            return False
        return total_steps(len(job.y), plan) <= MOST_STEPS

    def flatten(self, params: Params, default: float | None = None) -> Floats:
        """Return parameters one after the other; those that are not named get the default, if there is one."""
        pieces = [
            np.asarray(params[name], np.float32).ravel()
            if name in params or default is None
            else np.full(int(np.prod(shape)), default, np.float32)
            for name, shape in self.shapes.items()
        ]
        return np.concatenate(pieces)

    def strengths(self, tensors: Iterable[str], strength: float) -> Floats:
        """Return the strength with which each parameter is drawn to another number, where it is in one of these."""
        named = {name: np.full(self.shapes[name], strength, np.float32) for name in tensors}
        return self.flatten(named, default=0.0)

    def flags(self, learns: frozenset[str]) -> list[bool] | None:
        """Say of weights, biases and so on whether they learn, as `Stage.flags` has them; None: all do.

        A norm counts batches if all that it counts may change (`TorchNetwork.begin_training`).
        """
        if learns.issuperset(self.names):
            return None
        return [
            name in learns if not name.endswith(STATISTICS) else learns.issuperset(_counted_with(name))
            for name in self.names
            if not name.endswith(STATISTICS[:2])
        ]

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

    def after(self, job: Job, steps: int, vector: Floats) -> dict[str, Array]:
        """Return the vector that some steps of a job led to as named tensors, with the number of batches so far."""
        ends = np.cumsum([int(np.prod(shape)) for shape in self.shapes.values()])
        pieces = zip(self.shapes.items(), np.split(vector, ends[:-1]), strict=True)
        floats = {name: piece.reshape(shape) for (name, shape), piece in pieces}
        return {name: floats[name] if name in floats else self._batches(job, steps, name) for name in self.names}

    def _batches(self, job: Job, steps: int, name: str) -> Array:
        counts = learning(job.spec, job.plan.train).issuperset(_counted_with(name))
        per_step = 1 if job.plan.meta_step is None else 2
        before = np.asarray(job.start[name], np.int64).reshape(())
        return np.array(before + counts * steps * per_step, np.int64)


def _counted_with(name: str) -> list[str]:
    """Name all that the norm counts that counts this."""
    return [name.rpartition(".")[0] + f".{other}" for other in STATISTICS]
