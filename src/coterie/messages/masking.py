"""What a client adds to a secure sum: the agreement about it, and in which order its numbers stand there.

An update Δ is what was trained less a reference that both sides have. Of each client the sum has w Δ/W of what is
learnt, u Δ/U of what BatchNorm counts, its change of the control, and a few numbers: u is its weight (its samples, or
1), at most U, and w is u, or u over the normaliser of its steps (FedNova), at most W.

Where clients choose among models and keep their choices to themselves, the sum has a slot for each model, and a client
zeros in all but one. What says nothing of a model (steps, loss, whether an update was cut) stands in the first slot,
whatever was chosen: by how many steps a slot has, the server could tell who is in it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from coterie.messages.params import SENT_IF_SET, STATISTICS, Array, Params

Weighing = Literal["samples", "equal", "normalised"]
"""How clients count in a mean: by samples; all alike; by samples, with updates over the normaliser of their steps."""
LEAST = 3
"""No sum has fewer summands: of two, each would know the other's."""
LARGEST_STATISTIC = 1e6
"""Beyond this a change of a number that BatchNorm counts is cut."""
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Masking:
    """What the clients of a sum agree on before they train."""

    clients: tuple[int, ...]
    """Who has shared secrets (U2): masks are made for these."""
    minimum: int
    """With fewer survivors nobody helps to unmask the sum."""
    weighing: Weighing
    clip: float
    """The longest update; longer ones are cut."""
    heaviest: float
    """U: no client counts for more."""
    largest: float
    """W: the largest weight of what is learnt."""
    clip_control: float = 0.0
    """The longest change of a control, where the plan has a correction."""
    slots: tuple[str, ...] | None = field(default=None, metadata=SENT_IF_SET)
    """The models among which clients choose and do not tell, in the order of their slots."""


class Tally(NamedTuple):
    """The numbers beside an update, as shares of what they are at most, or their sums."""

    weight: float
    """u/U."""
    learnt: float
    """w/W."""
    normaliser: float
    """u/U times the normaliser of its steps, where that counts."""
    steps: float
    loss: float
    cut: float
    """1 if the update was longer than the limit."""


TALLY_BOUNDS = Tally(1.0, 1.0, 1e9, 1e9, 1e6, 1.0)
OF_NO_MODEL = 3
"""So many numbers at the end of a tally say nothing of a model."""


@dataclass(frozen=True)
class SumLayout:
    """The order of the numbers in a sum, which follows from the network and the question."""

    learnt: dict[str, tuple[int, ...]]
    """Shapes of what is learnt, by name."""
    counted: dict[str, tuple[int, ...]]
    """Of what BatchNorm counts, in more digits."""
    control: dict[str, tuple[int, ...]]
    slots: int = 1
    """How often all of these are there."""

    @classmethod
    def of(cls, template: Params, sent: Sequence[str], control: Sequence[str], slots: int = 1) -> "SumLayout":
        """Return the layout of tensors that are sent, with a control or without."""
        wide = {name for name in sent if template[name].dtype.kind != "f" or name.endswith(STATISTICS)}
        shapes = {name: template[name].shape for name in template}
        return cls(
            {name: shapes[name] for name in sent if name not in wide},
            {name: shapes[name] for name in sent if name in wide},
            {name: shapes[name] for name in control},
            slots,
        )

    @property
    def sizes(self) -> tuple[int, int]:
        """How many numbers there are in more digits, with the tally, and in fewer."""
        wide, narrow = size(self.counted) + len(TALLY_BOUNDS), size(self.learnt) + size(self.control)
        return self.slots * wide, self.slots * narrow


def size(shapes: dict[str, tuple[int, ...]]) -> int:
    """Return how many numbers tensors of these shapes have."""
    return sum(int(np.prod(shape)) for shape in shapes.values())


def flat(tensors: Params, shapes: dict[str, tuple[int, ...]]) -> Floats:
    """Return the numbers of tensors one after another."""
    parts = [np.asarray(tensors[name], np.float64).ravel() for name in shapes]
    return np.concatenate(parts) if parts else np.zeros(0)


def unflat(numbers: Floats, shapes: dict[str, tuple[int, ...]]) -> dict[str, Array]:
    """Return tensors whose numbers stand one after another.

    >>> unflat(np.array([1.0, 2.0, 3.0]), {"w": (1, 2), "b": (1,)})["w"]
    array([[1., 2.]])
    """
    found, begin = dict[str, Array](), 0
    for name, shape in shapes.items():
        end = begin + int(np.prod(shape))
        found[name] = numbers[begin:end].reshape(shape)
        begin = end
    return found
