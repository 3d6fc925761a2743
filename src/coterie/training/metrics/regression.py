"""How far predicted numbers are from those that should have come out, in their unit."""

import numpy as np
import numpy.typing as npt

from coterie.training.metrics import metric

Numbers = npt.NDArray[np.float64]


@metric("mae")
def mean_absolute_error(outputs: Numbers, targets: Numbers) -> float:
    """Mean absolute error of a regression, in the unit of the target; lower is better.

    >>> mean_absolute_error(np.array([1.0, 4.0]), np.array([2.0, 2.0]))
    1.5
    """
    return float(np.mean(np.abs(outputs - targets)))


@metric("rmse")
def root_mean_squared_error(outputs: Numbers, targets: Numbers) -> float:
    """Root mean squared error of a regression, in the unit of the target; lower is better.

    >>> round(root_mean_squared_error(np.array([1.0, 4.0]), np.array([2.0, 2.0])), 4)
    1.5811
    """
    return float(np.sqrt(np.mean(np.square(outputs - targets))))
