"""How well labels are told apart."""

import numpy as np

from coterie.training.job import Floats, Index
from coterie.training.metrics import metric


@metric("accuracy")
def accuracy(scores: Floats, y: Index) -> float:
    """Share of the samples that are labelled right."""
    return float(np.mean(scores.argmax(axis=1) == y))


@metric("f1")
def f1(scores: Floats, y: Index) -> float:
    """F1, mean over the labels that samples have or are given (macro).

    >>> round(f1(np.eye(3)[[0, 0, 1, 1]], np.array([0, 1, 1, 1])), 4)
    0.7333
    """
    given = scores.argmax(axis=1)
    right, wanted, named = (np.bincount(labels, minlength=scores.shape[1]) for labels in (y[given == y], y, given))
    occurring = wanted + named > 0
    return float(np.mean(2 * right[occurring] / (wanted + named)[occurring]))


@metric("auc")
def auc(scores: Floats, y: Index) -> float | None:
    """Area under the ROC curve of each label against the others, mean over the labels that samples have.

    That of two labels is the usual one. None where all samples have one label.

    >>> auc(np.array([[0.9, 0.1], [0.6, 0.4], [0.65, 0.35], [0.2, 0.8]]), np.array([0, 0, 1, 1]))
    0.75
    """
    labels = np.unique(y)
    return float(np.mean([_area(scores[:, label], y == label) for label in labels])) if len(labels) > 1 else None


def _area(scores: Floats, positive: Index) -> float:
    """Return the share of pairs, of a positive sample and another, in which the positive one is higher; ties: half."""
    _, place, counts = np.unique(scores, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(counts) - (counts - 1) / 2)[place]
    n = int(positive.sum())
    return float((ranks[positive].sum() - n * (n + 1) / 2) / (n * (len(scores) - n)))
