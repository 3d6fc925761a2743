"""Numbers to predict in place of labels: floats in `Samples.y`, and one output in place of a class each."""

from dataclasses import replace

import numpy as np

from coterie.data.federated import Array, Dataset, FederatedData, Samples
from coterie.data.registries import PARTITIONS
from coterie.errors import CoterieError, one_line
from coterie.registry import is_own

WITHOUT_LABELS = ("by-attribute", "by-user", "iid", "rotated", "shards")
"""Our partitions that divide numbers too; `shards` are then of the samples sorted by number."""


def as_labels(dataset: Dataset) -> Dataset:
    """Return a data set of classes; refuse one of numbers, saying how those are predicted."""
    if dataset.of_numbers:
        raise CoterieError(
            f"data set '{one_line(dataset.name)}' has numbers with fractions to predict, a quantity and not a class: "
            "to predict numbers write --metric mae; classes are whole numbers (y.astype(int)) or texts"
        )
    return dataset


def as_numbers(dataset: Dataset) -> Dataset:
    """Return a data set of numbers to predict; of one of classes, if their names are numbers, or they have none."""
    if dataset.of_numbers:
        return dataset
    try:
        values = np.array([float(name) for name in dataset.class_names] or range(dataset.classes), np.float64)
    except ValueError:
        names = [name for name in dataset.class_names if not _is_number(name)]
        raise CoterieError(
            f"data set '{one_line(dataset.name)}' has classes to predict, such as '{one_line(names[0], 60)}', and no "
            "numbers: measure it by --metric accuracy, f1 or auc, or name another label"
        ) from None
    train, test = (None if part is None else Samples(part.x, values[part.y]) for part in (dataset.train, dataset.test))
    assert train is not None
    return replace(dataset, train=train, test=test, classes=1, class_names=())


def _is_number(name: str) -> bool:
    try:
        float(name)
    except ValueError:
        return False
    return True


def scale_of(numbers: Array) -> tuple[float, float]:
    """Return mean and deviation of numbers to predict; those that are all alike are only shifted.

    >>> scale_of(np.array([1.0, 3.0])), scale_of(np.array([5.0, 5.0]))
    ((2.0, 1.0), (5.0, 1.0))
    """
    mean, deviation = float(numbers.mean()), float(numbers.std())
    return mean, deviation if deviation > 1e-9 * abs(mean) else 1.0


def scaled(dataset: Dataset, target: tuple[float, float] | None = None) -> tuple[Dataset, tuple[float, float] | None]:
    """Return numbers to predict in deviations from their mean, as networks learn them, and these two.

    They are those of the training samples, unless a `target` is given. Classes stay as they are.
    """
    if not dataset.of_numbers:
        return dataset, None
    mean, deviation = target or scale_of(dataset.train.y)

    def moved(part: Samples) -> Samples:
        return Samples(part.x, ((part.y - mean) / deviation).astype(np.float32))

    test = None if dataset.test is None else moved(dataset.test)
    return replace(dataset, train=moved(dataset.train), test=test), (mean, deviation)


def check_kind(data: FederatedData, numbers: bool) -> FederatedData:
    """Return data that came divided, if they are what is to be predicted: numbers, or classes."""
    if numbers and data.target is None:
        raise CoterieError(
            f"data set '{data.name}' has classes to predict and no numbers: measure it by --metric accuracy, f1 or "
            "auc, or give numbers as floats, y.astype(float)"
        )
    if data.target is not None and not numbers:
        raise CoterieError(
            f"data set '{data.name}' has numbers with fractions to predict: write --metric mae; classes are "
            "whole numbers, such as y.astype(int)"
        )
    return data


def check_partition(name: str) -> None:
    """Refuse a partition of ours that goes by labels."""
    if is_own(PARTITIONS[name]) and name not in WITHOUT_LABELS:
        raise CoterieError(
            f"partition '{name}' uses labels, which regression does not have: use {', '.join(WITHOUT_LABELS)}"
        )
