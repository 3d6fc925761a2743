"""What the numbers called accuracy are: accuracy itself, or the metric that runs were told to measure by."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from coterie.messages import is_error

ACCURACY = "accuracy"
TITLES = {"f1": "F1", "auc": "AUC", "mae": "MAE", "rmse": "RMSE"}
"""As people write them."""
LARGEST_WRITTEN = 1e7
"""Errors beyond it are written with a power of ten."""


def title(metric: str) -> str:
    """Return what a metric is called within a sentence.

    >>> title("accuracy"), title("f1"), title("my-own")
    ('accuracy', 'F1', 'my-own')
    """
    return TITLES.get(metric, metric)


def title_of(result: Mapping[str, Any]) -> str:
    """Return what the accuracies of a result are of; files of earlier versions do not say."""
    return title(str(result.get("metric", ACCURACY)))


def common_title(metrics: Iterable[str]) -> str:
    """Return what is measured by all: its title, or ``metric`` where they differ.

    >>> common_title(["f1", "f1"]), common_title(["f1", "auc"]), common_title([])
    ('F1', 'metric', 'accuracy')
    """
    names = [*dict.fromkeys(metrics)] or [ACCURACY]
    return title(names[0]) if len(names) == 1 else "metric"


def capital(text: str) -> str:
    """Return a text that begins a line.

    >>> capital("accuracy L"), capital("F1")
    ('Accuracy L', 'F1')
    """
    return text[:1].upper() + text[1:]


@dataclass(frozen=True)
class MetricScale:
    """How a metric is shown: a share in %, of which more is better, or an error in its own unit, of which less is."""

    metric: str
    """As people write it."""
    is_error: bool

    @property
    def factor(self) -> float:
        """What a number of a file is multiplied by to be shown."""
        return 1.0 if self.is_error else 100.0

    @property
    def unit(self) -> str:
        """What stands behind the name of a column or an axis."""
        return "" if self.is_error else " (%)"

    @property
    def behind(self) -> str:
        """What stands behind a number."""
        return "" if self.is_error else " %"

    @property
    def best(self) -> str:
        """Where the best is."""
        return "lowest" if self.is_error else "highest"

    @property
    def worse(self) -> str:
        """What others than the best are."""
        return "higher" if self.is_error else "lower"

    @property
    def sign(self) -> int:
        """What makes more better."""
        return -1 if self.is_error else 1

    @property
    def difference(self) -> str:
        """What differences are in."""
        return f"the unit of {self.metric}" if self.is_error else "percentage points"

    @property
    def heading(self) -> str:
        """The metric with its unit, at the beginning of a line."""
        return f"{capital(self.metric)} (less is better)" if self.is_error else f"{capital(self.metric)} in %"

    def shown(self, number: float, digits: int = 2, sign: str = "") -> str:
        """Write a number that is multiplied by `factor` already: an error with four digits that count.

        >>> scale("accuracy").shown(93.456, 1), scale("MAE").shown(19926.74), scale("MAE").shown(0.012345)
        ('93.5', '19927', '0.01235')
        """
        if self.is_error:
            if not 1e-6 < abs(number) < LARGEST_WRITTEN:
                return f"{number:{sign}.3g}"
            digits = max(0, 3 - math.floor(math.log10(abs(number))))
        return f"{number:{sign}.{digits}f}"

    def text(self, number: float, digits: int = 2) -> str:
        """Write such a number with its unit.

        >>> scale("accuracy").text(93.456), scale("MAE").text(1.5)
        ('93.46 %', '1.500')
        """
        return self.shown(number, digits) + self.behind

    def written(self, value: float | None, digits: int = 2, error: float | None = None) -> str:
        """Write a number of a file, without its unit, and its standard error if it has one; a dash for no number.

        >>> scale("accuracy").written(0.93456, error=0.012), scale("MAE").written(None)
        ('93.46 ± 1.20', '–')
        """
        if value is None:
            return "–"
        return self.shown(self.factor * value, digits) + (
            "" if error is None else f" ± {self.shown(self.factor * error, digits)}"
        )

    def best_of(self, numbers: Iterable[float | None]) -> float | None:
        """Return the best of those that are there; None of none."""
        there = [number for number in numbers if number is not None]
        if not there:
            return None
        return min(there) if self.is_error else max(there)


def scale(metric: str) -> MetricScale:
    """Return how a metric is shown, by its name or as people write it."""
    return MetricScale(title(metric), is_error(metric))


def scale_of(result: Mapping[str, Any]) -> MetricScale:
    """Return how the accuracies of a result are shown."""
    return scale(title_of(result))
