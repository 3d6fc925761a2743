"""Plans executed by PyTorch: any network on any device, one thread per client.

A training is put on the device once and read from it once: no step waits for a number of the one before.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator, Sequence, Set
from contextlib import contextmanager

import numpy as np
import torch
from torch import nn
from torch.nn.functional import cross_entropy

from coterie.errors import one_line
from coterie.messages import L1Penalty, ModelSpec, Params
from coterie.messages.plan import steps_per_epoch
from coterie.models import GLOBAL_GENERATOR, build
from coterie.models.learning import learning
from coterie.training.batches import batches_of
from coterie.training.job import Diverged, Floats, Job, Outcome, one_by_one
from coterie.training.objectives import sample_losses
from coterie.training.optimisers import StepRule
from coterie.training.own_models import OwnPart, approached, checked, network_at
from coterie.training.torch_device import SEEDING, DeviceSamples, StepLosses, read, sent
from coterie.training.torch_private import PrivateGradients
from coterie.training.torch_together import StackedNetwork, alike, can_stack

LOG = logging.getLogger("coterie")
CHUNK = 250
"""Samples per forward pass. Fixed, since rounding depends on it and results must not vary with who evaluates."""
LARGEST_ON_DEVICE = 2**30
"""Bytes of samples that are on the device during a training; of more, each batch is sent by itself."""


class TorchTrainer:
    """Executes jobs with PyTorch on a device; each thread keeps a network of its own there."""

    name = "torch"

    def __init__(self, device: torch.device | str = "cpu", largest: int = LARGEST_ON_DEVICE) -> None:
        """`largest` are the bytes of samples that are on the device at once."""
        self.device, self._largest = torch.device(device), largest
        self._local = threading.local()

    def train(self, job: Job) -> Outcome:
        """Execute a job; raise Diverged where the numbers end."""
        network = self._network(job.spec, job.plan.train)
        own = None if job.plan.mixture is None else self._network(job.spec, job.plan.train, "own part")
        place = self._place([job])
        if not network.is_random:
            return _train(network, job, place, own)
        with _seeded(int(job.rng.integers(2**63)), self.device):
            return _train(network, job, place, own)

    def train_together(self, jobs: Sequence[Job]) -> list[Outcome | Diverged]:
        """Execute jobs, those of one network and plan as one stacked network where both allow it."""
        groups: dict[object, list[int]] = {}
        for position, job in enumerate(jobs):
            groups.setdefault(alike(job), []).append(position)
        outcomes: dict[int, Outcome | Diverged] = {}
        for members in groups.values():
            together = [jobs[position] for position in members]
            stacked = self._stacked(together) if len(together) > 1 else None
            made = one_by_one(self, together) if stacked is None else stacked.train(together, self._place(together))
            outcomes |= zip(members, made, strict=True)
        return [outcomes[position] for position in range(len(jobs))]

    def _stacked(self, jobs: Sequence[Job]) -> StackedNetwork | None:
        """Return what trains jobs of one network and plan together; None where network or plan do not allow it."""
        spec, plan, sizes = jobs[0].spec, jobs[0].plan, sorted(len(job.y) for job in jobs)
        if not can_stack(plan) or sizes[-2] < 2 or sizes[-1] < 3:  # too few to compare
            return None
        network = self._network(spec, plan.train)
        stacked = network.stacked = network.stacked or StackedNetwork(network)
        if stacked.is_right is None and (reason := stacked.error_on(jobs)):
            LOG.warning("clients train one by one, as '%s' can't be stacked: %s", spec.name, one_line(reason))
        return stacked if stacked.is_right else None

    def _place(self, jobs: Sequence[Job]) -> torch.device:
        """Return where the samples of a training are: on the device, if they fit."""
        return self.device if sum(job.x.nbytes for job in jobs) <= self._largest else torch.device("cpu")

    def logits(self, spec: ModelSpec, params: Params, x: Floats) -> Floats:
        """Return the outputs of a network, (samples, classes)."""
        network = self._network(spec)
        network.load(params)
        network.module.eval()
        with torch.inference_mode():
            outputs = torch.empty((len(x), spec.classes), device=self.device)
            for start in range(0, len(x), CHUNK):
                part = slice(start, start + CHUNK)
                outputs[part] = network.module(torch.from_numpy(x[part]).to(self.device))
            return outputs.cpu().numpy()

    def _network(self, spec: ModelSpec, train: tuple[str, ...] | None = None, use: str = "") -> TorchNetwork:
        networks: dict[object, TorchNetwork] | None = getattr(self._local, "networks", None)
        if networks is None:
            # OpenMP counts threads per thread: without this the first matrix product in a new one may be split,
            # and rounds differently.
            torch.set_num_threads(1)
            networks = self._local.networks = {}
        if (spec, train, use) not in networks:
            module = build(spec).to(self.device)
            networks[spec, train, use] = TorchNetwork(module, learning(spec, train), self.device, spec.loss)
        return networks[spec, train, use]


@contextmanager
def _seeded(seed: int, device: torch.device) -> Iterator[None]:
    """Let the generator that dropout draws from begin anew, one thread at a time; that of the CPU is put back."""
    with GLOBAL_GENERATOR, torch.random.fork_rng(devices=[]):
        SEEDING.get(device.type, torch.default_generator.manual_seed)(seed)
        yield


class TorchNetwork:
    """A module whose parameters are views of one vector, so that an optimiser step is a few operations in all.

    Only those that learn are in it.
    """

    def __init__(self, module: nn.Module, learns: frozenset[str], device: torch.device, loss: str | None) -> None:
        self.module, self.device, self.loss = module, device, loss
        for name, parameter in module.named_parameters():
            parameter.requires_grad_(name in learns)
        self.names = [name for name, p in module.named_parameters() if p.requires_grad]
        self.parameters = [p for p in module.parameters() if p.requires_grad]
        # Dropout draws from PyTorch's one global generator: networks that have it train one at a time.
        self.is_random = any(
            isinstance(m, nn.modules.dropout._DropoutNd) or getattr(m, "dropout", 0.0) for m in module.modules()
        )
        self.vector = torch.empty(sum(p.numel() for p in self.parameters), device=device)
        position = 0
        for parameter in self.parameters:
            view = self.vector[position : position + parameter.numel()].view_as(parameter)
            parameter.data = view
            position += parameter.numel()
        self.state = module.state_dict()
        self.stacked: StackedNetwork | None = None
        """The same for several clients at once; made when it is first wanted."""
        self._still = _with_buffers(module, self.state.keys() - learns)

    def begin_training(self) -> None:
        """Let layers do as they do in training, but for those whose buffers stay: these use them, and count nothing."""
        self.module.train()
        for layer in self._still:
            layer.training = False

    def load(self, params: Params) -> None:
        """Take over all parameters and buffers."""
        for name, tensor in self.state.items():
            tensor.copy_(torch.from_numpy(np.array(params[name])))  # a copy: PyTorch warns about read-only arrays

    def copy(self) -> dict[str, torch.Tensor]:
        """Return the present state, on the device."""
        return {name: tensor.clone() for name, tensor in self.state.items()}

    def flatten(self, params: Params, default: float = 0.0) -> torch.Tensor:
        """Return parameters in the vector's order, on the device; those that are not named get the default."""
        pieces = []
        for name, parameter in zip(self.names, self.parameters, strict=True):
            if name in params:
                pieces.append(torch.from_numpy(np.array(params[name], np.float32)).reshape(-1))
            else:
                pieces.append(torch.full((parameter.numel(),), default))
        return torch.cat(pieces).to(self.device)

    def strengths(self, penalty: L1Penalty) -> torch.Tensor:
        """Return the strength of a penalty on each parameter, in the vector's order."""
        return self.flatten(
            {name: np.full(self.state[name].shape, penalty.strength, np.float32) for name in penalty.tensors}
        )

    def gradient(
        self, x: torch.Tensor, y: torch.Tensor, offset: torch.Tensor | None, smoothing: float = 0.0
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the loss on a batch, and its gradient in the vector's order."""
        logits = self.module(x)
        if self.loss is None:
            loss = cross_entropy(logits if offset is None else logits + offset, y, label_smoothing=smoothing)
        else:
            loss = sample_losses(self.loss, logits, y).mean()
        pieces = torch.autograd.grad(loss, self.parameters, materialize_grads=True)
        return loss.detach(), torch.cat([piece.reshape(-1) for piece in pieces])


def _with_buffers(module: nn.Module, names: Set[str]) -> list[nn.Module]:
    """Return the layers that have some of these as buffers of their own."""
    owners = {name.rpartition(".")[0] for name in names - dict(module.named_parameters(remove_duplicate=False)).keys()}
    return [layer for name, layer in module.named_modules(remove_duplicate=False) if name in owners]


def _train(network: TorchNetwork, job: Job, place: torch.device, own_network: TorchNetwork | None) -> Outcome:
    plan = job.plan
    network.load(job.start)
    network.begin_training()
    w, y = network.vector, job.y
    samples = DeviceSamples(job.x, job.y, place, network.device)
    anchors = [
        (network.flatten(model), network.flatten({name: np.full_like(a, strength) for name, a in model.items()}))
        for model, strength in job.anchors
    ]
    correction = None if job.correction is None else network.flatten(job.correction)
    mask = None if job.mask is None else network.flatten(job.mask, default=1.0)
    l1 = None if plan.l1 is None else network.strengths(plan.l1)
    offset = (
        None if job.label_offset is None else torch.tensor(job.label_offset, dtype=torch.float32).to(network.device)
    )
    own = None if own_network is None else OwnPart(own_network, job, offset)
    theta: torch.Tensor | None = None
    rule, smoothing = StepRule(plan, w, anchors, correction, mask, l1), plan.smoothing or 0.0
    snapshot_steps = {epoch * steps_per_epoch(len(y), plan) for epoch in plan.snapshots} if len(y) else set()
    snapshots, losses = [], StepLosses()
    private = None if plan.private is None else PrivateGradients(network, job)

    for step, batches in enumerate(sent(batches_of(job), place)):
        batch = samples.batch(batches[0])
        if private is None:
            loss, gradient = network.gradient(*batch, offset, smoothing)
        else:
            loss, gradient = private.gradient(*batch)
        if plan.meta_step is not None:
            before = w.clone()
            rule.inner(w, gradient)
            batch = samples.batch(batches[1])
            loss, gradient = network.gradient(*batch, offset, smoothing)
            w.copy_(before)
        if own is not None:
            own.step(w, *batch, plan.lr.at(step))
        if plan.proximal is not None:
            theta = approached(network, plan.proximal, *batch, offset, smoothing, gradient)
            gradient = (w - theta) * plan.proximal.strength
        rule.step(w, gradient, step)
        losses.add(loss)
        if step + 1 in snapshot_steps:
            snapshots.append(network.copy())

    by_step = losses.read()
    params = checked(read(network.state), len(by_step))
    kept = {} if own is None else own.kept(w)
    kept |= {} if theta is None else {"model": network_at(network, theta, len(by_step))}
    loss_of_all = float(by_step.mean()) if len(by_step) else 0.0
    return Outcome(params, loss_of_all, len(by_step), tuple(read(snapshot) for snapshot in snapshots), kept)
