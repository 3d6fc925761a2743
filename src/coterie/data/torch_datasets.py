"""PyTorch's data sets: every sample is taken once, as it comes."""

import sys
from typing import Any

import numpy as np

from coterie.bounded import LARGEST_ARRAYS
from coterie.data.federated import Array
from coterie.errors import CoterieError


def torch_arrays(given: Any) -> dict[str, Array] | None:
    """Return the arrays of a data set, or of a pair to train and test on; None for anything else."""
    torch = sys.modules.get("torch")
    if torch is None:
        return None
    parts = given if isinstance(given, tuple) and len(given) == 2 else (given,)
    if not all(isinstance(part, torch.utils.data.Dataset) for part in parts):
        return None
    arrays = {}
    for part, dataset in zip(("train", "test"), parts, strict=False):
        arrays[f"x_{part}"], arrays[f"y_{part}"] = _samples(dataset, torch)
    return arrays


def _samples(dataset: Any, torch: Any) -> tuple[Array, Array]:
    """Return inputs and labels."""
    if isinstance(dataset, torch.utils.data.IterableDataset):
        raise CoterieError(
            "dataset: an IterableDataset has no number of samples: give one with len() and [i], or arrays (x, y)"
        )
    if isinstance(dataset, torch.utils.data.TensorDataset):
        if len(dataset.tensors) != 2:
            raise CoterieError(
                f"dataset: a TensorDataset of {len(dataset.tensors)} tensors: give two, inputs and labels"
            )
        x, y = (_array(tensor, torch) for tensor in dataset.tensors)
        return x, y
    pairs = [_pair(dataset[position], position, torch) for position in range(_length(dataset))]
    shapes = {x.shape for x, _ in pairs}
    if len(shapes) != 1:
        raise CoterieError(
            f"dataset: its inputs have {len(shapes)} shapes, such as {sorted(shapes)[:3]}: they need one"
        )
    if (size := pairs[0][0].nbytes * len(pairs)) > LARGEST_ARRAYS:
        raise CoterieError(f"dataset: its inputs take {size:,} bytes, more than the {LARGEST_ARRAYS:,} that are read")
    return np.stack([x for x, _ in pairs]), np.array([y for _, y in pairs])


def _length(dataset: Any) -> int:
    try:
        length = len(dataset)
    except (TypeError, NotImplementedError):
        raise CoterieError(f"dataset: a {type(dataset).__name__} has no len(): give it one, or arrays (x, y)") from None
    if not length:
        raise CoterieError("dataset: it has no samples")
    return length


def _pair(sample: Any, position: int, torch: Any) -> tuple[Array, Any]:
    """Return one sample's input and label."""
    if not isinstance(sample, tuple | list) or len(sample) != 2:
        raise CoterieError(f"dataset[{position}] is a {type(sample).__name__}: it should be a pair (x, y)")
    x, y = _array(sample[0], torch), _array(sample[1], torch)
    if y.ndim:
        raise CoterieError(f"dataset[{position}] has a label of shape {y.shape}: it should be one number or text")
    return x, y.item()


def _array(value: Any, torch: Any) -> Array:
    if not isinstance(value, torch.Tensor):
        return np.asarray(value)
    try:
        array: Array = value.detach().cpu().numpy()
    except (TypeError, RuntimeError):  # such as bfloat16, or sparse
        raise CoterieError(
            f"dataset: a tensor of {value.dtype}, {value.layout}, is no array: convert it, .to_dense().float()"
        ) from None
    return array
