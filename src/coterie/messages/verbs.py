"""What a client may be asked, a closed list, and what it answers.

A verb names models; a name is one of the request's own models, or one of these:

    own       what the client kept after its last training (``initial`` if it never trained)
    initial   the common start, which every client can make from the model's specification and the seed
    trained   the result of the ``Train`` before it in the same request
    epoch 1   what that ``Train`` noted on the way, after the epochs that its plan has as snapshots
    best      the winner of the ``Losses`` before it in the same request
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from coterie.messages.params import Array, Params
from coterie.messages.plan import Plan

Part = Literal["train", "holdout", "test"]
Verdict = Literal["pruned", "unchanged", "target", "reverted"]
"""On a proposal to prune: taken; too near to the first one; not needed, as enough is pruned; not accurate enough."""


@dataclass(frozen=True)
class Train:
    """Train locally by a plan."""

    plan: Plan
    start: tuple[str, ...] = ("model",)
    """Models laid over each other, the last on top: ``("own", "model")`` is one's own model with the sent layers."""
    keep: bool = True
    """Whether the result becomes the client's own model."""
    send: bool | tuple[str, ...] = True
    """Send back all parameters, none, or those whose names begin so."""
    purpose: str = "train"
    """Part of the address of the random stream that shuffles the samples."""


@dataclass(frozen=True)
class Evaluate:
    """Count the right answers of a model on the client's test part (or another)."""

    model: str | tuple[str, ...] = "model"
    """Or several, laid over each other as in ``Train.start``."""
    on: Part = "test"
    share: float = 0.1
    """Of the training samples, where `on` is the hold-out."""


@dataclass(frozen=True)
class Losses:
    """Give the mean loss of each of several models, and how many samples each wins; never per sample."""

    models: tuple[str, ...]
    on: Part = "train"
    share: float = 0.1
    """Of the training samples, where `on` is the hold-out."""
    by: Literal["loss", "accuracy"] = "loss"
    """What makes a model the best."""

    def winner(self, answer: LossesReply) -> int:
        """Return the position of the best model; of equals, the first."""
        scores = answer.losses if self.by == "loss" else [-number for number in answer.correct]
        return min(range(len(scores)), key=lambda k: scores[k])


@dataclass(frozen=True)
class Signature:
    """Describe the training data by the first left singular vectors of the raw samples, whole or per label."""

    p: int = 3
    """How many vectors, of all samples or of each label's."""
    per_label: bool = False
    share: float | None = None
    """If given, per label this share of its samples, rounded, at least 1, instead of `p`."""
    budget: int | None = None
    """If given, so many vectors in all, divided among labels in proportion to their samples, instead of `p`."""
    halves: int = 0
    """Cut the samples in two so many times, and tell how far apart the halves' signatures are."""
    measure: str = "theta1"
    """In which that distance is taken."""
    normalised: bool = False
    """Of the samples as networks see them, instead of the raw ones."""


@dataclass(frozen=True)
class ClassCounts:
    """Count the training samples of each class."""


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


STATISTICS = ("running_mean", "running_var", "num_batches_tracked")
"""What BatchNorm counts instead of learning it, by the ends of names."""


@dataclass(frozen=True)
class Prune:
    """Prune what the ``Train`` before it led to, if that pays, and send what is left (Sub-FedAvg).

    Where that training was kept, the client keeps the new mask and the model under it. Rates and the like are shares
    between 0 and 1.
    """

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

    def sent(self, names: Iterable[str]) -> list[str]:
        """Return which tensors of a model are sent."""
        return [name for name in names if self.statistics or not name.endswith(STATISTICS)]

    def masked(self, names: Iterable[str]) -> list[str]:
        """Return which tensors of a model have a mask."""
        of_channels = (name for layer in self.channels for name in (*layer.own, layer.read))
        known = {*self.weights, *of_channels}
        return [name for name in names if name in known]


@dataclass(frozen=True)
class TrainReply:
    """The outcome of ``Train``."""

    samples: int
    steps: int
    loss: float
    """Mean over the training steps."""
    params: Params = field(default_factory=dict)
    control: Params = field(default_factory=dict)
    """Change of the client's control, where the plan has a correction."""


@dataclass(frozen=True)
class EvaluateReply:
    """The outcome of ``Evaluate``; accuracy is correct / samples."""

    samples: int
    correct: int
    loss: float
    """Mean; 0 where there are no samples."""


@dataclass(frozen=True)
class LossesReply:
    """The outcome of ``Losses``, one number per model in the order asked."""

    samples: int
    losses: tuple[float, ...]
    wins: tuple[int, ...]
    """Samples on which each model has the smallest loss."""
    correct: tuple[int, ...]
    """Samples that each model labels right."""


@dataclass(frozen=True)
class SignatureReply:
    """The outcome of ``Signature``."""

    vectors: Array
    """(features, vectors)."""
    labels: Array
    """To which label each vector belongs, (vectors,); -1 where they are of all samples."""
    halves: float | None = None
    """Mean distance of halves in degrees; None where it was not asked for or there are too few samples."""


@dataclass(frozen=True)
class ClassCountsReply:
    """The outcome of ``ClassCounts``: (classes,)."""

    counts: Array


@dataclass(frozen=True)
class PruneReply:
    """The outcome of ``Prune``: what is left of the model."""

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


Verb: TypeAlias = Train | Evaluate | Losses | Signature | ClassCounts | Prune
Answer: TypeAlias = TrainReply | EvaluateReply | LossesReply | SignatureReply | ClassCountsReply | PruneReply
ANSWERS: dict[type[Verb], type[Answer]] = {
    Train: TrainReply,
    Evaluate: EvaluateReply,
    Losses: LossesReply,
    Signature: SignatureReply,
    ClassCounts: ClassCountsReply,
    Prune: PruneReply,
}
