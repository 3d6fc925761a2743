"""From plain arrays, as they come out of a file, to a checked `Dataset`: the border where data are validated.

The keys are ``x_train y_train``, optionally ``x_test y_test``, ``user_train`` where it is known who made each training
sample, and ``attributes`` and ``attribute_names`` where it is known what else these have. Inputs may be

- vectors, (n, features);
- grey images, (n, height, width);
- images (n, height, width, channels) with 1, 3 or 4 channels; where the last axis cannot be channels, but
  the second can, (n, channels, height, width).

Inside Coterie images are (n, channels, height, width). Bytes (uint8) are kept, all else becomes float32.
Labels are integers from 0; a class may be missing from the training part, as long as label 0 is not. Where it is known
how many classes there are, by the format or because the user says so, any of them may be missing. Labels may also be
texts: these are the names of the classes, which are numbered in their order. Labels with a decimal point are numbers to
predict, and no classes.
"""

from collections.abc import Mapping, Sequence
from typing import Annotated

import numpy as np
import numpy.typing as npt
from annotated_types import Ge

from coterie.data.federated import Array, Dataset, Normaliser, Samples, published
from coterie.data.on_demand import blocks, is_in_file
from coterie.errors import CoterieError, counted, one_line, suggestion

USED_AS_THEY_ARE = (np.dtype(np.uint8), np.dtype(np.float32))
"""Types of inputs that are not converted."""
_CHANNELS = (1, 3, 4)
_CLASSES_WITHOUT_DOUBT = 1000
_LONGEST_NAME = 200
_LARGEST_NUMBER = 1e12

Classes = Annotated[
    int | None, Ge(2), "How many classes there are, of which any may be missing; by default as the labels tell."
]

ClassNames = Annotated[
    list[str] | None,
    "The names of all classes, in the order of their numbers; by default those that there are, sorted.",
]


def dataset_from_arrays(
    name: str,
    arrays: Mapping[str, Array],
    place: str,
    *,
    classes: int | None = None,
    class_names: Sequence[str] | None = None,
    lookup: Normaliser | None = None,
) -> Dataset:
    """Return the data set that the arrays make up; `place` is where they came from, for messages.

    With a `lookup` the inputs are numbers of words or letters, which it turns into vectors: they are kept as they are.
    """
    if arrays["y_train"].dtype.kind in "US":
        if classes is not None and class_names is None:
            raise CoterieError(
                f"{place}: the labels are texts, which would be numbered by those that are there, but classes = "
                f"{classes} are agreed on: give the names of all, class_names = [...]"
            )
        arrays, class_names = numbered(arrays, class_names, place)
    classes = classes if class_names is None else len(class_names)
    if of_numbers := arrays["y_train"].dtype.kind == "f":
        _check_numbers(arrays, classes, place)
    train = _samples(arrays, "train", place, lookup is not None)
    test = _samples(arrays, "test", place, lookup is not None) if "x_test" in arrays else None
    if test is not None:
        _check_alike(arrays, place)
    classes = 1 if of_numbers else _classes(train, test, classes, place)
    users = arrays.get("user_train")
    if users is not None and (users.shape != train.y.shape or users.dtype.kind not in "iu"):
        raise CoterieError(
            f"{place}: user_train has shape {users.shape} and type {users.dtype}: it must hold one integer for each of "
            f"the {len(train)} training samples"
        )
    users = None if users is None else users.astype(np.int64)
    attributes, names = _attributes(arrays, len(train), place)
    normaliser = lookup or published(name, train.x)
    return Dataset(name, train, test, classes, normaliser, users, attributes, names, tuple(class_names or ()))


def numbered(
    arrays: Mapping[str, Array], class_names: Sequence[str] | None, place: str
) -> tuple[dict[str, Array], list[str]]:
    """Return arrays with numbers for labels that are texts, and the names that these stand for, in order."""
    texts = {key: as_texts(arrays[key]) for key in ("y_train", "y_test") if key in arrays}
    names = list(class_names or sorted(set(texts["y_train"]), key=_in_order))
    number = {name: k for k, name in enumerate(names)}
    for key, labels in texts.items():
        if unknown := sorted(set(labels) - number.keys()):
            where = "class_names" if class_names else "y_train"
            hint = suggestion(unknown[0], names) if len(names) <= _CLASSES_WITHOUT_DOUBT else "compare the two"
            raise CoterieError(f"{place}: the class '{unknown[0]}' is in {key}, but not in {where}: {hint}")
    return {**arrays, **{key: np.array([number[text] for text in labels]) for key, labels in texts.items()}}, names


def as_texts(raw: Array) -> list[str]:
    """Return labels as texts of one line: those of a file of bytes are UTF-8."""
    texts = (text.decode(errors="replace") if isinstance(text, bytes) else str(text) for text in raw.ravel().tolist())
    return [one_line(text, _LONGEST_NAME) for text in texts]


def _in_order(name: str) -> tuple[int, str]:
    """Sort numbers written as texts as numbers, 2 before 10."""
    return (int(name), name) if name.isascii() and name.isdecimal() else (-1, name)


def _attributes(
    arrays: Mapping[str, Array], samples: int, place: str
) -> tuple[npt.NDArray[np.bool_] | None, tuple[str, ...]]:
    """Return which attributes each training sample has, and their names: above 0 it has one, else it lacks it."""
    if "attributes" not in arrays:
        return None, ()
    raw, names = arrays["attributes"], tuple(map(str, arrays.get("attribute_names", ())))
    if raw.ndim != 2 or len(raw) != samples or raw.dtype.kind not in "biu":
        raise CoterieError(
            f"{place}: attributes has shape {raw.shape} and type {raw.dtype}: it must hold a row of whole numbers, 1 "
            f"where a sample has an attribute, for each of the {samples} training samples"
        )
    if names and len(names) != raw.shape[1]:
        raise CoterieError(f"{place}: {len(names)} attribute_names for {raw.shape[1]} columns of attributes")
    return raw > 0, names


def _classes(train: Samples, test: Samples | None, agreed: int | None, place: str) -> int:
    """Return how many classes there are: as agreed, or by the labels."""
    if agreed is not None:
        for key, part in (("y_train", train), ("y_test", test)):
            if part is not None:
                _within(part, agreed, f"{place}: {key}")
        return agreed
    if train.y.min() > 0:
        raise CoterieError(
            f"{place}: the labels in y_train start at {train.y.min()}, but must start at 0: "
            f"subtract {train.y.min()} from all labels"
        )
    classes = int(train.y.max()) + 1
    if classes > max(len(train), _CLASSES_WITHOUT_DOUBT):
        raise CoterieError(
            f"{place}: the largest label in y_train is {classes - 1}, with only {len(train)} samples: "
            "number the classes 0, 1, 2, ..."
        )
    if test is not None and test.y.max() >= classes:
        raise CoterieError(
            f"{place}: y_test holds the label {test.y.max()}, but the labels in y_train go from 0 to "
            f"{classes - 1}: a model cannot learn a class that is only in the test part"
        )
    return classes


def _within(samples: Samples, classes: int, where: str) -> None:
    if samples.y.max() >= classes:
        largest, last = samples.y.max(), classes - 1
        raise CoterieError(f"{where} holds the label {largest}, but there are {classes} classes, 0 to {last}")


def _samples(arrays: Mapping[str, Array], part: str, place: str, as_they_are: bool) -> Samples:
    x_key, y_key = f"x_{part}", f"y_{part}"
    x = arrays[x_key] if as_they_are else checked_inputs(arrays[x_key], f"{place}: {x_key}")
    y = _labels(arrays[y_key], f"{place}: {y_key}", arrays["y_train"].dtype.kind == "f")
    if len(x) != len(y):
        raise CoterieError(f"{place}: {x_key} has {len(x)} samples, but {y_key} has {len(y)} labels: each needs one")
    return Samples(x, y)


def regular(values: npt.ArrayLike, where: str) -> Array:
    """Return values as an array; refuse those whose rows are not of one length."""
    try:
        return np.asarray(values)
    except ValueError:
        raise CoterieError(
            f"{where} is ragged: all its samples need the same shape; pad or cut them, and check np.shape of each"
        ) from None


def checked_inputs(raw: Array, where: str) -> Array:
    """Return inputs as bytes or float32, images as (n, channels, height, width)."""
    if raw.dtype.kind not in "buif":
        raise CoterieError(f"{where} is of type {raw.dtype}: inputs must be numbers, such as uint8 or float32")
    x = _channels_first(raw, where)
    if x.size == 0:
        raise CoterieError(f"{where} is empty, with shape {raw.shape}: it needs at least one sample")
    if x.dtype != np.uint8:
        with np.errstate(over="ignore"):  # what is too large for float32 becomes infinite, and is reported below
            x = x.astype(np.float32, copy=False)
        finite = [np.isfinite(block).reshape(len(block), -1).all(axis=1) for block in blocks(x)]
        not_finite = np.flatnonzero(~np.concatenate(finite))
        if len(not_finite):
            raise CoterieError(
                f"{where} has {len(not_finite)} of {len(x)} samples with NaN or infinite values, first in sample "
                f"{not_finite[0]}: replace these values or drop the samples"
            )
    return x if is_in_file(x) else np.ascontiguousarray(x)


def _channels_first(raw: Array, where: str) -> Array:
    """Return inputs in the layout used inside; which layouts are understood is said above."""
    match raw.ndim:
        case 2:
            return raw
        case 3:
            return raw[:, None]
        case 4 if raw.shape[3] in _CHANNELS:
            return raw.transpose(0, 3, 1, 2)
        case 4 if raw.shape[1] in _CHANNELS:
            return raw
    raise CoterieError(
        f"{where} has shape {raw.shape}: inputs must be (n, features), (n, height, width) or "
        "(n, height, width, channels) with 1, 3 or 4 channels"
    )


def _check_numbers(arrays: Mapping[str, Array], classes: int | None, place: str) -> None:
    """Refuse what does not go with numbers to predict."""
    if classes is not None:
        raise CoterieError(
            f"{place}: y_train is of type {arrays['y_train'].dtype}, a regression target, but classes are named: "
            "write labels as integers (such as y.astype(int)) or texts, or leave out classes and class_names"
        )
    if "y_test" in arrays and arrays["y_test"].dtype.kind not in "iuf":
        raise CoterieError(f"{place}: y_train holds numbers, but y_test is of type {arrays['y_test'].dtype}")


def _numbers(raw: Array, where: str) -> npt.NDArray[np.float64]:
    y = raw.astype(np.float64)
    odd = np.flatnonzero(~(np.abs(y) <= _LARGEST_NUMBER))
    if len(odd):
        raise CoterieError(
            f"{where} has {counted(len(odd), 'regression target')} that can't be used (NaN, infinite or beyond "
            f"{_LARGEST_NUMBER:g}), first in sample {odd[0]}: replace them or drop the samples"
        )
    return y


def _labels(raw: Array, where: str, numbers: bool = False) -> Array:
    if raw.ndim != 1:
        raise CoterieError(f"{where} has shape {raw.shape}: labels must be (n,), one class number per sample")
    if len(raw) == 0:
        raise CoterieError(f"{where} is empty: it needs at least one label")
    if numbers:
        return _numbers(raw, where)
    if raw.dtype.kind not in "iu":
        raise CoterieError(
            f"{where} is of type {raw.dtype}: labels must be integers 0, 1, 2, ... (such as y.astype(int)), or texts"
        )
    y = raw.astype(np.int64)
    negative = np.flatnonzero(y < 0)
    if len(negative):
        raise CoterieError(
            f"{where} has {len(negative)} negative labels, first {y[negative[0]]} in sample {negative[0]}: "
            "labels must start at 0"
        )
    return y


def _check_alike(arrays: Mapping[str, Array], place: str) -> None:
    """Training and test inputs must have one shape, and be in the same units."""
    train, test = arrays["x_train"], arrays["x_test"]
    if train.shape[1:] != test.shape[1:]:
        raise CoterieError(
            f"{place}: inputs have the shape {train.shape[1:]} in x_train, but {test.shape[1:]} in x_test: "
            "they must have the same shape"
        )
    if (train.dtype == np.uint8) != (test.dtype == np.uint8):
        raise CoterieError(
            f"{place}: x_train is of type {train.dtype}, but x_test of type {test.dtype}: uint8 means shades "
            "0..255, so both parts or none must be uint8"
        )
