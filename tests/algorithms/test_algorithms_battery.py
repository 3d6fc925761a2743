"""Every registered method passes the battery; adding a method enrols it."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from coterie.algorithms import ALGORITHMS
from coterie.native import available
from coterie.testing import (
    BATTERY,
    needs_nothing_but_messages,
    repeats_itself,
    takes_more_rounds,
)

QUICK = (needs_nothing_but_messages,)
"""Checks that a sample runs with PyTorch too in every test run; the others do in `make slow`, as it takes minutes."""
LONG = (repeats_itself, takes_more_rounds)
"""Checks of many runs: where PyTorch alone trains a method's network they are left to `make slow`, too.

That such a method repeats itself is shown all the same: what it comes to after an interruption, or through bytes, is
what it comes to without.
"""
SAMPLE = ("fedavg", "pacfl")
"""The methods that `make quick` puts through the battery too: one with a single model, one with groups."""


def cases() -> Iterator[Any]:
    """Each check with the compiled trainer where that knows the method's network, and with PyTorch."""
    for method in ALGORITHMS:
        compiled = available() and "model" not in ALGORITHMS[method].traits.battery
        for check in BATTERY:
            name = f"{check.__name__}-{method}"
            marks = [] if method in SAMPLE else [pytest.mark.integration]
            if compiled:
                yield pytest.param(method, check, "native", id=f"native-{name}", marks=marks)
            now = check in QUICK and method in SAMPLE if compiled else check not in LONG
            late = [] if now else [pytest.mark.slow]
            yield pytest.param(method, check, "torch", id=f"torch-{name}", marks=marks + late)


@pytest.mark.parametrize(("method", "check", "trainer"), list(cases()))
def test_method(method: str, check: Callable[..., None], trainer: str, tmp_path: Path) -> None:
    check(method, tmp_path, trainer=trainer)
