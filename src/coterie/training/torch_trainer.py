"""Plans executed by PyTorch: any network, one thread per client."""

from __future__ import annotations

import math
import threading
from collections.abc import Set

import numpy as np
import torch
from torch import nn
from torch.nn.functional import cross_entropy

from coterie.messages import Array, L1Penalty, ModelSpec, Params
from coterie.messages.plan import steps_per_epoch
from coterie.models import GLOBAL_GENERATOR, build
from coterie.models.learning import learning
from coterie.training.batches import steps
from coterie.training.job import Diverged, Floats, Job, Outcome
from coterie.training.own_models import OwnPart, approached, checked, network_at

CHUNK = 250
"""Samples per forward pass. Fixed, since rounding depends on it and results must not vary with who evaluates."""


class TorchTrainer:
    """Executes jobs with PyTorch; each thread keeps a network of its own."""

    name = "torch"

    def __init__(self) -> None:
        self._local = threading.local()

    def train(self, job: Job) -> Outcome:
        """Execute a job; raise Diverged where the numbers end."""
        network = self._network(job.spec, job.plan.train)
        own = None if job.plan.mixture is None else self._network(job.spec, job.plan.train, "own part")
        if not network.is_random:
            return _train(network, job, own)
        with GLOBAL_GENERATOR, torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(int(job.rng.integers(2**63)))
            return _train(network, job, own)

    def logits(self, spec: ModelSpec, params: Params, x: Floats) -> Floats:
        """Return the outputs of a network, (samples, classes)."""
        network = self._network(spec)
        network.load(params)
        network.module.eval()
        outputs = np.empty((len(x), spec.classes), np.float32)
        with torch.inference_mode():
            for start in range(0, len(x), CHUNK):
                part = slice(start, start + CHUNK)
                outputs[part] = network.module(torch.from_numpy(x[part])).numpy()
        return outputs

    def _network(self, spec: ModelSpec, train: tuple[str, ...] | None = None, use: str = "") -> _Network:
        networks: dict[object, _Network] | None = getattr(self._local, "networks", None)
        if networks is None:
            # OpenMP counts threads per thread: without this the first matrix product in a new one may be split,
            # and rounds differently.
            torch.set_num_threads(1)
            networks = self._local.networks = {}
        if (spec, train, use) not in networks:
            networks[spec, train, use] = _Network(build(spec), learning(spec, train))
        return networks[spec, train, use]


class _Network:
    """A module whose parameters are views of one vector, so that an optimiser step is a few operations in all.

    Only those that learn are in it.
    """

    def __init__(self, module: nn.Module, learns: frozenset[str]) -> None:
        self.module = module
        for name, parameter in module.named_parameters():
            parameter.requires_grad_(name in learns)
        self.names = [name for name, p in module.named_parameters() if p.requires_grad]
        self.parameters = [p for p in module.parameters() if p.requires_grad]
        # Dropout draws from PyTorch's one global generator: networks that have it train one at a time.
        self.is_random = any(
            isinstance(m, nn.modules.dropout._DropoutNd) or getattr(m, "dropout", 0.0) for m in module.modules()
        )
        self.vector = torch.empty(sum(p.numel() for p in self.parameters))
        position = 0
        for parameter in self.parameters:
            view = self.vector[position : position + parameter.numel()].view_as(parameter)
            parameter.data = view
            position += parameter.numel()
        self.state = module.state_dict()
        self._still = _with_buffers(module, self.state.keys() - learns)

    def begin_training(self) -> None:
        """Let layers do as they do in training, but for those whose buffers stay: these use them, and count nothing."""
        self.module.train()
        for layer in self._still:
            layer.training = False

    def load(self, params: Params) -> None:
        for name, tensor in self.state.items():
            tensor.copy_(torch.from_numpy(np.array(params[name])))  # a copy: PyTorch warns about read-only arrays

    def copy(self) -> dict[str, Array]:
        return {name: tensor.numpy().copy() for name, tensor in self.state.items()}

    def flatten(self, params: Params, default: float = 0.0) -> torch.Tensor:
        """Return parameters in the vector's order; those that are not named get the default."""
        pieces = []
        for name, parameter in zip(self.names, self.parameters, strict=True):
            if name in params:
                pieces.append(torch.from_numpy(np.array(params[name], np.float32)).reshape(-1))
            else:
                pieces.append(torch.full((parameter.numel(),), default))
        return torch.cat(pieces)

    def strengths(self, penalty: L1Penalty) -> torch.Tensor:
        """Return the strength of a penalty on each parameter, in the vector's order."""
        return self.flatten(
            {name: np.full(self.state[name].shape, penalty.strength, np.float32) for name in penalty.tensors}
        )

    def gradient(self, x: torch.Tensor, y: torch.Tensor, offset: torch.Tensor | None) -> tuple[float, torch.Tensor]:
        logits = self.module(x)
        loss = cross_entropy(logits if offset is None else logits + offset, y)
        pieces = torch.autograd.grad(loss, self.parameters, materialize_grads=True)
        return loss.item(), torch.cat([piece.reshape(-1) for piece in pieces])


def _with_buffers(module: nn.Module, names: Set[str]) -> list[nn.Module]:
    """Return the layers that have some of these as buffers of their own."""
    owners = {name.rpartition(".")[0] for name in names - dict(module.named_parameters(remove_duplicate=False)).keys()}
    return [layer for name, layer in module.named_modules(remove_duplicate=False) if name in owners]


def _train(network: _Network, job: Job, own_network: _Network | None) -> Outcome:
    plan = job.plan
    network.load(job.start)
    network.begin_training()
    w = network.vector
    x, y = torch.from_numpy(job.x), torch.from_numpy(job.y)
    anchors = [
        (network.flatten(model), network.flatten({name: np.full_like(a, strength) for name, a in model.items()}))
        for model, strength in job.anchors
    ]
    correction = None if job.correction is None else network.flatten(job.correction)
    mask = None if job.mask is None else network.flatten(job.mask, default=1.0)
    l1 = None if plan.l1 is None else network.strengths(plan.l1)
    offset = None if job.label_offset is None else torch.from_numpy(np.array(job.label_offset, np.float32))
    own = None if own_network is None else OwnPart(own_network, job, offset)
    theta: torch.Tensor | None = None
    velocity = torch.zeros_like(w) if plan.momentum else None
    snapshot_steps = {epoch * steps_per_epoch(len(y), plan) for epoch in plan.snapshots} if len(y) else set()
    snapshots, losses = [], []
    if mask is not None:
        w.mul_(mask)

    for step, batches in enumerate(steps(len(y), plan, job.rng, job.order, job.even_batches)):
        rate = plan.lr.at(step)
        batch = torch.from_numpy(batches[0])
        loss, gradient = network.gradient(x[batch], y[batch], offset)
        if (inner := plan.meta_step) is not None:
            before = w.clone()
            if inner.shared_momentum and velocity is not None:
                gradient = velocity.mul_(plan.momentum).add_(gradient)
            w.sub_(gradient if mask is None else gradient * mask, alpha=inner.rate)
            batch = torch.from_numpy(batches[1])
            loss, gradient = network.gradient(x[batch], y[batch], offset)
            w.copy_(before)
        if not math.isfinite(loss):
            raise Diverged(step)
        if own is not None:
            own.step(w, x[batch], y[batch], rate)
        if plan.proximal is not None:
            theta = approached(network, plan.proximal, x[batch], y[batch], offset, gradient)
            gradient = (w - theta) * plan.proximal.strength
        for anchor, strength in anchors:
            gradient.addcmul_(w - anchor, strength)
        if plan.weight_decay:
            gradient.add_(w, alpha=plan.weight_decay)
        if l1 is not None:
            gradient.addcmul_(w.sign(), l1)
        if velocity is not None:
            gradient = velocity.mul_(plan.momentum).add_(gradient)
        w.sub_(gradient, alpha=rate)
        if correction is not None:
            w.sub_(correction, alpha=rate)
        if mask is not None:
            w.mul_(mask)
        losses.append(loss)
        if step + 1 in snapshot_steps:
            snapshots.append(network.copy())

    params = checked(network.copy(), len(losses))
    kept = {} if own is None else own.kept(w)
    kept |= {} if theta is None else {"model": network_at(network, theta, len(losses))}
    return Outcome(params, float(np.mean(losses)) if losses else 0.0, len(losses), tuple(snapshots), kept)
