"""Numbers to predict in place of labels: which metrics are of them, and how large an error is believed."""

ERRORS = ("mae", "rmse")
ENDING = "-error"
LARGEST_ERROR = 1e12
"""Stands for an error that is not finite, and for larger ones, so that means and files stay finite."""


def is_error(metric: str | None) -> bool:
    """Say whether a metric is of numbers to predict: an error in their unit, of which less is better.

    It goes by the name, in any letters, so that whoever reads a file knows it without the plugin that made it.

    >>> is_error("mae"), is_error("MAE"), is_error("median-error"), is_error("f1"), is_error(None)
    (True, True, True, False, False)
    """
    name = (metric or "").casefold()
    return name in ERRORS or name.endswith(ENDING)
