"""Gradients of private steps (DP-SGD): each sample's is shortened, and their sum hidden in noise."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import nn
from torch.func import functional_call, grad, vmap
from torch.nn.functional import cross_entropy

from coterie.errors import CoterieError
from coterie.training.job import Job
from coterie.training.objectives import sample_losses
from coterie.training.optimisers import TINY

if TYPE_CHECKING:
    from coterie.training.torch_trainer import TorchNetwork

AT_ONCE = 2**25
"""Numbers of the gradients of single samples that are held at a time."""


class PrivateGradients:
    """What takes the place of a batch's gradient, for one local training."""

    def __init__(self, network: TorchNetwork, job: Job) -> None:
        if job.plan.private is None:
            raise TypeError("a plan without private steps has no private gradients")
        if layer := mixes_samples(network.module):
            raise CoterieError(
                f"network '{job.spec.name}' can't be trained privately: its layer '{layer}' normalises a sample by the "
                "others of its batch; use one with GroupNorm, or let the layer not learn"
            )
        self._network, self._job, self._private = network, job, job.plan.private
        self._vectorised = True
        self._of_each = vmap(grad(self._loss), in_dims=(None, 0, 0), randomness="different")

    def gradient(self, x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return no loss, and (Σ g_i min(1, C / ‖g_i‖) + noise) / B; a sample whose gradient is not finite has none."""
        network, private = self._network, self._private
        total = torch.zeros_like(network.vector)
        most = max(1, AT_ONCE // max(1, len(total)))
        for start in range(0, len(y), most):
            gradients = self._gradients(x[start : start + most], y[start : start + most])
            norms = torch.linalg.vector_norm(gradients, dim=1, keepdim=True)
            scales = (private.clip / (norms + TINY)).clamp_(max=1.0)
            total += torch.where(norms.isfinite(), gradients * scales, 0.0).sum(dim=0)
        noise = torch.from_numpy(self._job.randomness.standard_normal(len(total))).to(total)
        total.add_(noise, alpha=private.noise * private.clip)
        return total.new_zeros(()), total.div_(self._job.plan.batch_size)

    def _gradients(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        """Return the gradient of each sample, (samples, parameters)."""
        network = self._network
        if self._vectorised:
            given = {name: p.detach() for name, p in zip(network.names, network.parameters, strict=True)}
            try:
                pieces = self._of_each(given, x, y)
                return torch.cat([pieces[name].reshape(len(y), -1) for name in network.names], dim=1)
            except (RuntimeError, NotImplementedError):  # a layer that can't be vectorised
                self._vectorised = False
        smoothing = self._job.plan.smoothing or 0.0
        return torch.stack([network.gradient(x[i : i + 1], y[i : i + 1], None, smoothing)[1] for i in range(len(y))])

    def _loss(self, given: dict[str, torch.Tensor], x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        logits, y = functional_call(self._network.module, given, (x.unsqueeze(0),)), y.unsqueeze(0)
        if self._network.loss is None:
            return cross_entropy(logits, y, label_smoothing=self._job.plan.smoothing or 0.0)
        return sample_losses(self._network.loss, logits, y).mean()


def mixes_samples(module: nn.Module) -> str | None:
    """Return the name of a layer by which samples of a batch see each other, or that keeps count of them; or None."""
    for name, layer in module.named_modules():
        if isinstance(layer, nn.modules.batchnorm._NormBase) and layer.training:
            by_batch = isinstance(layer, nn.modules.batchnorm._BatchNorm)
            if by_batch or layer.track_running_stats:
                return str(name)
    return None
