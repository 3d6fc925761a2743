"""What the numbers called accuracy are: accuracy itself, or the metric that runs were told to measure by."""

from collections.abc import Iterable, Mapping
from typing import Any

ACCURACY = "accuracy"
TITLES = {"f1": "F1", "auc": "AUC"}
"""As people write them."""


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
