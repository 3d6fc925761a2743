"""Which network, its parameters by name, and the little arithmetic that servers do on them."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

Array: TypeAlias = npt.NDArray[Any]
Params: TypeAlias = Mapping[str, Array]

STATISTICS = ("running_mean", "running_var", "num_batches_tracked")
"""What BatchNorm counts instead of learning it, by the ends of names."""
LARGEST = 1e12
"""No number of a model is larger: of such numbers not even sums of squares would stay finite."""

SENT_IF_SET = {"sent if set": True}
"""Metadata of a field that came later than its class: where it is None it is not sent, and bytes stay as they were."""


@dataclass(frozen=True)
class ModelSpec:
    """A network by name, for inputs of one shape and a number of classes."""

    name: str
    shape: tuple[int, ...]
    """Of one input: (channels, height, width) for images, (features,) for vectors."""
    classes: int
    options: Mapping[str, Any] = field(default_factory=dict)
    """Can't be changed: server and clients of one process share it."""
    loss: str | None = field(default=None, metadata=SENT_IF_SET)
    """What its outputs are trained for, by name (`coterie.training.objectives`); None: the cross-entropy."""
    start: str | None = field(default=None, metadata=SENT_IF_SET)
    """The digest of the parameters that it starts with, which who builds it has (`coterie.models.STARTS`); None: such
    as it makes itself."""
    target: tuple[float, float] | None = field(default=None, metadata=SENT_IF_SET)
    """Of numbers to predict, mean and deviation: the one output is a number in units of these; None: outputs are of
    classes."""

    def __post_init__(self) -> None:
        fixed = MappingProxyType({key: _as_tuples(value) for key, value in self.options.items()})
        object.__setattr__(self, "options", fixed)

    def __reduce__(self) -> tuple[Any, ...]:
        return ModelSpec, (self.name, self.shape, self.classes, dict(self.options), self.loss, self.start, self.target)

    def __hash__(self) -> int:
        options = repr(sorted(self.options.items()))
        return hash((self.name, self.shape, self.classes, options, self.loss, self.start, self.target))

    def in_units(self, numbers: Array) -> Array:
        """Return what the network says of numbers to predict, or is trained for, in their own unit.

        >>> ModelSpec("mlp", (4,), 1, target=(100.0, 20.0)).in_units(np.array([0.0, -1.5]))
        array([100.,  70.])
        """
        mean, deviation = self.target or (0.0, 1.0)
        return np.asarray(mean + deviation * numbers.astype(np.float64))


def _as_tuples(value: Any) -> Any:
    """Return lists, and lists in them, as tuples, as the wire does."""
    return tuple(map(_as_tuples, value)) if isinstance(value, list | tuple) else value


def with_own(model: Params, own: Params | None, share: float | None) -> Params:
    """Return (1 − a) θ + a θ_i, the mean of a model and a client's own; counters are those of the model.

    >>> with_own({"w": np.ones(2), "steps": np.array(7)}, {"w": np.zeros(2), "steps": np.array(3)}, 0.25)
    {'w': array([0.75, 0.75]), 'steps': array(7)}
    """
    if own is None or not share:
        return model
    return {
        name: value + value.dtype.type(share) * (own[name] - value) if value.dtype.kind == "f" else value
        for name, value in model.items()
    }


class RunningMean:
    """Σ wᵢ θᵢ / Σ wᵢ of models that come one after another (WAvg of ALGORITHMS 0.1), summed in float64.

    Integer tensors (BatchNorm's counters) are not averaged: the largest is taken. What was added is not kept, so that
    it takes the memory of a few models, however many come; the order in which they come decides the last bit.
    """

    def __init__(self) -> None:
        self.weight = 0.0
        """Σ wᵢ so far."""
        self._totals: dict[str, Array] = {}
        self._weights: dict[str, Array] = {}
        """Σ of the weights of each tensor that is averaged, () or (rows,)."""
        self._dtypes: dict[str, np.dtype[Any]] | None = None

    def add(self, model: Params, weight: float, tensor_weights: Params = MappingProxyType({})) -> None:
        """Add a model, all of which has one weight but for tensors that have another, or one for each of their rows."""
        if self._dtypes is None:
            self._dtypes = {name: value.dtype for name, value in model.items()}
        self.weight += float(weight)
        for name, dtype in self._dtypes.items():
            value, known = model[name], name in self._totals
            if dtype.kind != "f":
                self._totals[name] = np.asarray(np.maximum(self._totals[name], value) if known else value)
                continue
            own = np.asarray(tensor_weights.get(name, weight), np.float64)
            weighted = np.asarray(np.multiply(value, _by_rows(own, value.ndim), dtype=np.float64))
            self._totals[name] = np.add(self._totals[name], weighted, out=weighted) if known else weighted
            self._weights[name] = np.asarray(self._weights[name] + own) if known else own

    def mean(self, otherwise: Params = MappingProxyType({})) -> dict[str, Array]:
        """Return the mean, in the models' types; rows that nobody had a weight for are as in `otherwise`."""
        if self._dtypes is None:
            raise ValueError("there is nothing to average")
        if not self.weight > 0:
            raise ValueError(f"an average needs weights with a positive sum, got {self.weight}")
        return frozen({name: self._mean(name, dtype, otherwise) for name, dtype in self._dtypes.items()})

    def _mean(self, name: str, dtype: np.dtype[Any], otherwise: Params) -> Array:
        total = self._totals[name]
        if dtype.kind != "f":
            return total.copy()
        weight = _by_rows(self._weights[name], total.ndim)
        if (weight > 0).all():
            return np.asarray(total / weight, dtype)
        return np.where(weight > 0, total / np.where(weight > 0, weight, 1.0), otherwise[name]).astype(dtype)


def _by_rows(weight: Array, ndim: int) -> Array:
    """Shape weights of a tensor of so many dimensions, () or (rows,), so that they multiply its rows."""
    return weight.reshape(weight.shape + (1,) * (ndim - weight.ndim))


def weighted_mean(models: Iterable[Params], weights: Iterable[float]) -> dict[str, Array]:
    """Return Σ wᵢ θᵢ / Σ wᵢ, tensor by tensor, as `RunningMean` does.

    >>> weighted_mean([{"w": np.float32([1, 2])}, {"w": np.float32([5, 2])}], [3, 1])
    {'w': array([2., 2.], dtype=float32)}
    """
    mean = RunningMean()
    for model, weight in zip(models, weights, strict=True):
        mean.add(model, weight)
    return mean.mean()


def frozen(params: dict[str, Array]) -> dict[str, Array]:
    """Make the arrays of a new model read-only, so that it can be recognised by identity."""
    for array in params.values():
        array.flags.writeable = False
    return params


def update(trained: Params, start: Params) -> npt.NDArray[np.float32]:
    """Return Δ = θ_i − θ as one vector, over the floating-point tensors in their order."""
    floating = [name for name, value in start.items() if np.issubdtype(value.dtype, np.floating)]
    return np.concatenate([np.subtract(trained[name], start[name], dtype=np.float32).ravel() for name in floating])


def distance(a: Params, b: Params) -> float:
    """Return the Euclidean distance of two models over their floating-point tensors."""
    squares = 0.0
    for name, value in a.items():
        if np.issubdtype(value.dtype, np.floating):
            difference = (value.astype(np.float64) - b[name]).ravel()
            squares += float(np.dot(difference, difference))
    return float(np.sqrt(squares))


def unusable(array: Array) -> bool:
    """Say whether an array holds what can't be computed with: a NaN, an infinity or a number beyond `LARGEST`.

    >>> [unusable(np.array([0.0, number])) for number in (1.0, -2e12, np.inf, np.nan)]
    [False, True, True, True]
    """
    return bool(array.size) and not (float(array.min()) >= -LARGEST and float(array.max()) <= LARGEST)  # NaN: neither


def usable(params: Params) -> bool:
    """Say whether no tensor holds what can't be computed with."""
    return not any(unusable(value) for value in params.values())
