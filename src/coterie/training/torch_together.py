"""Several clients trained at once: their networks stacked into one by `torch.func.vmap`, each with its own batches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from itertools import islice, zip_longest
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import torch
from torch.func import functional_call, grad_and_value, vmap
from torch.nn.functional import cross_entropy

from coterie.messages import Array, Params, Plan, usable
from coterie.training.batches import Step, steps
from coterie.training.job import TOO_LARGE, Diverged, Job, Outcome
from coterie.training.objectives import sample_losses
from coterie.training.optimisers import StepRule
from coterie.training.torch_device import BLOCK, DeviceSamples, read

if TYPE_CHECKING:
    from coterie.training.torch_trainer import TorchNetwork

STACKED = {
    "lr", "epochs", "steps", "batch_size", "momentum", "weight_decay", "anchors", "correction", "mask", "curriculum",
    "holdout", "label_offset", "train", "optimiser", "clip",
}  # fmt: skip
"""Fields of a plan that stacked clients can have; with any other that is set, they train one by one."""
CLOSE = 1e-4
"""How far the gradients of the two ways may be apart, as a share of the longest, to be the same."""

Tensors = dict[str, torch.Tensor]


def can_stack(plan: Plan) -> bool:
    """Say whether clients can execute a plan together."""
    return all(getattr(plan, field.name) == field.default for field in fields(plan) if field.name not in STACKED)


def alike(job: Job) -> object:
    """Return what jobs that are executed together have in common."""
    return job.spec, job.plan, len(job.anchors), job.correction is None, job.mask is None, job.label_offset is None


class StackedNetwork:
    """A network with parameters for several clients, (clients, parameters), each of whom sees its own samples.

    What does not learn and is the same for all is there once.
    """

    def __init__(self, network: TorchNetwork) -> None:
        self._network = network
        parameters = dict(network.module.named_parameters(remove_duplicate=False))
        first: dict[int, str] = {}
        for name, parameter in parameters.items():
            first.setdefault(id(parameter), name)
        self._same_as = {name: first[id(parameter)] for name, parameter in parameters.items()}
        """Of parameters that layers share, the name under which they are given."""
        fixed = [name for name in network.state if name not in network.names]
        self._fixed = [name for name in fixed if self._same_as.get(name, name) == name]
        self.is_right: bool | None = None
        """Whether it leads to the gradients of one client at a time; None: not known yet."""

    def error_on(self, jobs: Sequence[Job]) -> str | None:
        """Compare it with one client at a time, on few samples of the two who have most; say what is wrong.

        A network may do what can't be stacked, change its buffers, or look at other samples of a batch, of which
        some here only fill it up.
        """
        network = self._network
        self.is_right = False
        if network.is_random:
            return "it draws at random (dropout)"
        pair, expected = sorted(jobs, key=lambda job: -len(job.y))[:2], []
        counts = [min(len(pair[0].y), 4), 2]
        for job, count in zip(pair, counts, strict=True):
            network.load(job.start)
            network.begin_training()
            x, y = (torch.from_numpy(array[:count]).to(network.device) for array in (job.x, job.y))
            expected.append(network.gradient(x, y, None)[1])
            if not all(np.array_equal(value, job.start[name]) for name, value in read(network.state).items()):
                return "it changes its buffers (BatchNorm)"
        batches = _Batches.of([[(np.arange(count),) for count in counts]], [0, len(pair[0].y)])
        try:
            models = _Models.of(self, pair)
            samples = _joined(pair, network.device, network.device)
            _, found = self._gradients(models, samples, *batches.on(network.device)[0], None)
        except Exception as error:  # whatever a network does that torch.func does not know
            return str(error).partition("\n")[0]
        apart, length = (found - torch.stack(expected)).abs().max(), torch.stack(expected).abs().max()
        if not torch.isfinite(length):  # somebody's samples or model are none: others will tell
            self.is_right = None
            return None
        self.is_right = bool(apart <= CLOSE * length)
        return None if self.is_right else "stacked, it has other gradients"

    def train(self, jobs: Sequence[Job], place: torch.device) -> list[Outcome | Diverged]:
        """Execute jobs of one network and plan; who has fewer steps than others is done earlier."""
        network, plan = self._network, jobs[0].plan
        network.begin_training()
        models, samples = _Models.of(self, jobs), _joined(jobs, place, network.device)
        rule, offset = self._rule(jobs, models.learnt), None
        if jobs[0].label_offset is not None:
            offset = torch.from_numpy(np.stack([np.asarray(job.label_offset, np.float32) for job in jobs]))
            offset = offset.to(network.device)
        first = np.cumsum([0, *(len(job.y) for job in jobs)]).tolist()
        paths = [steps(len(job.y), plan, job.rng, job.order, job.even_batches) for job in jobs]
        taken, results, losses = np.zeros(len(jobs), np.int64), models.learnt.clone(), list[torch.Tensor]()
        together, done = zip_longest(*paths), 0
        while block := [*islice(together, BLOCK)]:
            batches, by_step = _Batches.of(block, first), []
            for step, (index, weight) in enumerate(batches.on(place)):
                loss, gradient = self._gradients(models, samples, index, weight, offset)
                rule.step(models.learnt, gradient, done + step)
                by_step.append(loss)
                for client in batches.last_of(step):
                    results[client] = models.learnt[client]
            losses.append(torch.stack(by_step))
            taken, done = taken + batches.steps, done + len(block)
        known = torch.cat(losses).cpu().numpy().astype(np.float64) if losses else np.zeros((0, len(jobs)))
        learnt = results.cpu().numpy()
        return [self._outcome(job, learnt[i], known[: taken[i], i], int(taken[i])) for i, job in enumerate(jobs)]

    def _rule(self, jobs: Sequence[Job], w: torch.Tensor) -> StepRule:
        """Return the step of all clients: what it uses is stacked."""

        def stacked(models: Sequence[Params], default: float = 0.0) -> torch.Tensor:
            return torch.stack([self._network.flatten(model, default) for model in models])

        anchors = [
            (
                stacked([model for model, _ in pairs]),
                stacked([{name: np.full_like(a, mu) for name, a in model.items()} for model, mu in pairs]),
            )
            for pairs in zip(*(job.anchors for job in jobs), strict=True)
        ]
        corrections = [job.correction for job in jobs if job.correction is not None]
        masks = [job.mask for job in jobs if job.mask is not None]
        return StepRule(
            jobs[0].plan,
            w,
            anchors,
            stacked(corrections) if corrections else None,
            stacked(masks, default=1.0) if masks else None,
        )

    def _gradients(
        self,
        models: _Models,
        samples: DeviceSamples,
        index: torch.Tensor,
        weight: torch.Tensor,
        offset: torch.Tensor | None,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Return each client's loss, (clients,), and gradient, (clients, parameters), on its own batch."""
        x, y = samples.batch(index)

        def loss(learnt: Tensors, own: Tensors, x: torch.Tensor, y: torch.Tensor, *more: torch.Tensor) -> torch.Tensor:
            logits = functional_call(self._network.module, {**models.shared, **own, **learnt}, (x,))
            logits = logits if len(more) == 1 else logits + more[1]
            return (self._sample_losses(logits, y) * more[0]).sum()

        more = (weight.to(x.device),) if offset is None else (weight.to(x.device), offset)
        gradients, losses = vmap(grad_and_value(loss))(models.views(self._network), models.own, x, y, *more)
        pieces = [gradients[name].reshape(len(index), -1) for name in self._network.names]
        return losses.detach(), torch.cat(pieces, dim=1)

    def _sample_losses(self, logits: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        other = self._network.loss
        return cross_entropy(logits, y, reduction="none") if other is None else sample_losses(other, logits, y)

    def _outcome(
        self, job: Job, learnt: npt.NDArray[np.float32], losses: npt.NDArray[np.float64], count: int
    ) -> Outcome | Diverged:
        """Return what became of one client."""
        if not np.isfinite(losses).all():
            return Diverged(int(np.argmin(np.isfinite(losses))))
        params: dict[str, Array] = {name: np.array(job.start[name]) for name in self._network.state}
        position = 0
        for name, parameter in zip(self._network.names, self._network.parameters, strict=True):
            params[name] = learnt[position : position + parameter.numel()].reshape(parameter.shape).copy()
            position += parameter.numel()
        params |= {name: params[same].copy() for name, same in self._same_as.items() if same != name and name in params}
        if not usable(params):
            return Diverged(count, "a parameter", TOO_LARGE)
        return Outcome(params, float(losses.mean()) if count else 0.0, count)


@dataclass(frozen=True)
class _Models:
    """The state of stacked clients."""

    learnt: torch.Tensor
    """(clients, parameters)."""
    shared: Tensors
    """What does not learn and all have alike."""
    own: Tensors
    """What does not learn and each has for itself, (clients, ...)."""

    @classmethod
    def of(cls, stacked: StackedNetwork, jobs: Sequence[Job]) -> _Models:
        network, shared, own = stacked._network, {}, {}
        for name in stacked._fixed:
            arrays = [job.start[name] for job in jobs]
            if all(array is arrays[0] for array in arrays):
                shared[name] = torch.from_numpy(np.array(arrays[0])).to(network.device)
            else:
                own[name] = torch.from_numpy(np.stack(arrays)).to(network.device)
        return cls(torch.stack([network.flatten(job.start) for job in jobs]), shared, own)

    def views(self, network: TorchNetwork) -> Tensors:
        """Return what learns by name, each (clients, ...)."""
        sizes = [parameter.numel() for parameter in network.parameters]
        parts = zip(network.names, network.parameters, torch.split(self.learnt, sizes, dim=1), strict=True)
        return {name: part.view(len(part), *parameter.shape) for name, parameter, part in parts}


@dataclass(frozen=True)
class _Batches:
    """Which samples the clients use in some steps; where a batch is smaller than others it is filled up."""

    index: npt.NDArray[np.int64]
    """(steps, clients, samples)."""
    weight: npt.NDArray[np.float32]
    """1/B for the B samples of a batch, 0 for those that fill it up."""
    sizes: list[int]
    """The largest batch of each step."""
    steps: npt.NDArray[np.int64]
    """How many of these steps each client makes, (clients,)."""

    @classmethod
    def of(cls, block: Sequence[Sequence[Step | None]], first: Sequence[int]) -> _Batches:
        """Stack the steps of each client, None after its last; `first` is where its samples begin."""
        sizes = [max(len(step[0]) for step in clients if step is not None) for clients in block]
        index = np.zeros((len(block), len(block[0]), max(sizes)), np.int64)
        weight = np.zeros(index.shape, np.float32)
        for s, clients in enumerate(block):
            for i, step in enumerate(clients):
                if step is not None:
                    batch = step[0] + first[i]
                    index[s, i, : len(batch)], index[s, i, len(batch) :] = batch, batch[0]  # never another's sample
                    weight[s, i, : len(batch)] = 1 / len(batch)
        made = np.array([[step is not None for step in clients] for clients in block]).sum(axis=0)
        return cls(index, weight, sizes, made)

    def on(self, place: torch.device) -> list[tuple[torch.Tensor, torch.Tensor]]:
        """Return samples and weights of each step, both (clients, samples), at a place."""
        index, weight = torch.from_numpy(self.index).to(place), torch.from_numpy(self.weight).to(place)
        return [(index[step, :, :size], weight[step, :, :size]) for step, size in enumerate(self.sizes)]

    def last_of(self, step: int) -> Iterator[int]:
        """Yield the clients that have no step after this one, of these steps."""
        return (client for client, made in enumerate(self.steps) if made == step + 1)


def _joined(jobs: Sequence[Job], place: torch.device, device: torch.device) -> DeviceSamples:
    """Return the samples of all clients one after the other."""
    return DeviceSamples(
        np.concatenate([job.x for job in jobs]), np.concatenate([job.y for job in jobs]), place, device
    )
