"""Prune: what a training led to, with its least weights and channels removed (Sub-FedAvg)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import numpy.typing as npt

from coterie.messages.envelope import Answer, Part, Request, Verb
from coterie.messages.limits import Limits, bytes_of, error_in_tensors
from coterie.messages.params import SENT_IF_SET, STATISTICS, Params
from coterie.messages.plan import total_steps
from coterie.messages.verbs.train import Train

Verdict = Literal["pruned", "unchanged", "target", "reverted"]
"""On a proposal to prune: taken; too near to the first one; not needed, as enough is pruned; not accurate enough."""


@dataclass(frozen=True)
class Channels:
    """The channels that a convolution makes, of which some can be removed, and the layers that know them."""

    conv: str
    norm: str
    """The BatchNorm behind it, whose scales say which channels matter."""
    reader: str
    """The layer that takes the channels as its inputs."""
    floor: int
    """So many stay at least."""

    @property
    def own(self) -> tuple[str, ...]:
        """The tensors with an entry or a row per channel."""
        scaled = ("weight", "bias", "running_mean", "running_var")
        return (f"{self.conv}.weight", f"{self.conv}.bias", *(f"{self.norm}.{part}" for part in scaled))

    @property
    def read(self) -> str:
        """The tensor with one or several columns per channel."""
        return f"{self.reader}.weight"


@dataclass(frozen=True)
class PruneReply(Answer):
    """The outcome of ``Prune``: what is left of the model."""

    wire_name = "Pruned"

    params: Params
    """Whole tensors; of those of which something is pruned only what is left, (left,)."""
    bitmaps: Params
    """Where that belongs: a bit per position of those tensors, 1 for what is left, (⌈positions/8⌉,)."""
    weights: Verdict
    channels: Verdict | None = None

    @classmethod
    def of(
        cls, model: Params, mask: Params, names: Iterable[str], weights: Verdict, channels: Verdict | None
    ) -> PruneReply:
        """Take tensors of a model, as they are sent under a mask."""
        params = {name: model[name] for name in names}
        holes = {name: mask[name].astype(bool) for name in params if name in mask and not mask[name].all()}
        left = {name: model[name][kept] for name, kept in holes.items()}
        return cls(params | left, {name: np.packbits(kept) for name, kept in holes.items()}, weights, channels)

    def mask(self, name: str, shape: tuple[int, ...]) -> npt.NDArray[np.bool_]:
        """Return what is left of a tensor of a shape, as booleans.

        >>> weights, kept = np.float32([[1, 0, 3]]), np.array([[True, False, True]])
        >>> answer = PruneReply.of({"w": weights}, {"w": kept}, ["w"], "pruned", None)
        >>> answer.params["w"], answer.bitmaps["w"], answer.mask("w", (1, 3))
        (array([1., 3.], dtype=float32), array([160], dtype=uint8), array([[ True, False,  True]]))
        """
        if name not in self.bitmaps:
            return np.ones(shape, bool)
        return np.unpackbits(self.bitmaps[name], count=int(np.prod(shape))).astype(bool).reshape(shape)


@dataclass(frozen=True)
class Prune(Verb):
    """Prune what the ``Train`` before it led to, if that pays, and send what is left (Sub-FedAvg).

    Where that training was kept, the client keeps the new mask and the model under it. Rates and the like are shares
    between 0 and 1.
    """

    answer_type = PruneReply
    parts = (Channels,)

    weights: tuple[str, ...]
    """Tensors whose smallest weights are pruned."""
    rate: float = 0.1
    """Share of the weights that are left in a tensor which goes at a time."""
    target: float = 0.5
    """Share of all these weights up to which they go."""
    distance: float = 1e-4
    """They go if the masks proposed after the first and the last epoch differ in more than this share."""
    accuracy: float = 0.5
    """And if the model is right on more than this share of samples afterwards."""
    last_rate: float | None = None
    """The largest rate of the last steps, which are made to end at the target."""
    channels: tuple[Channels, ...] = ()
    channel_rate: float = 0.45
    """Share of a convolution's channels that goes."""
    channel_distance: float = 0.05
    on: Part = "holdout"
    """The samples on which accuracy is measured; where there are none, it is not."""
    share: float = 0.1
    """Of the training samples, where `on` is the hold-out."""
    statistics: bool = True
    """Whether BatchNorm's running statistics are sent."""
    scales_of: Literal["network"] | None = field(default=None, metadata=SENT_IF_SET)
    """Among whose scales the percentile of channels is taken: each layer's own, or all of the network."""

    def sent(self, names: Iterable[str]) -> list[str]:
        """Return which tensors of a model are sent."""
        return [name for name in names if self.statistics or not name.endswith(STATISTICS)]

    def masked(self, names: Iterable[str]) -> list[str]:
        """Return which tensors of a model have a mask."""
        of_channels = (name for layer in self.channels for name in (*layer.own, layer.read))
        prunable = {*self.weights, *of_channels}
        return [name for name in names if name in prunable]

    def error_in(self, answer: PruneReply, request: Request, limits: Limits) -> str | None:
        """Compare bitmaps with the tensors that they belong to, and these with what the bitmaps leave."""
        if (answer.channels is None) == bool(self.channels):
            asked = "one" if self.channels else "none"
            return f"the verdict on channels is {answer.channels}, but {asked} was asked for"
        template = limits.template
        sent = self.sent(template)
        if unmasked := sorted(set(answer.bitmaps) - set(self.masked(sent))):
            return f"parameters that are not to be pruned: {', '.join(unmasked[:3])}"
        left = dict(template)
        for name, bits in answer.bitmaps.items():
            size = template[name].size
            if bits.dtype != np.uint8 or bits.shape != (-(-size // 8),) or np.unpackbits(bits)[size:].any():
                return f"the bitmap of '{name}' is {bits.dtype} {bits.shape}, expected uint8 with {size} bits"
            left[name] = np.empty(np.count_nonzero(np.unpackbits(bits)), template[name].dtype)
        if error := error_in_tensors(answer.params, sent, left):
            return error
        trained = (verb for verb in request.verbs if isinstance(verb, Train))
        steps = ((verb, total_steps(limits.samples, verb.plan)) for verb in trained)
        return next((verb.error_in_counters(answer.params, request, limits, most) for verb, most in steps), None)

    def of_labels(self) -> bool:
        """Say that it goes by the accuracy."""
        return True

    def largest_answer(self, request: Request, limits: Limits) -> int:
        """Return the bytes of a model, and more than its bitmaps need."""
        return 2 * bytes_of(limits.template)

    def models_needed(self) -> tuple[str, ...]:
        """Name what is pruned."""
        return ("trained",)


def transfers_when_pruned(pruned: float) -> float:
    """Return how many messages of a model's size a client exchanges in a round (ALGORITHMS 0.5).

    A whole model down; up, what is left of it in 32 bits, and a bit for each of the `pruned` share.
    """
    return 1 + (1 - pruned) + pruned / 32
