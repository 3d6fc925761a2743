"""Every registered method passes the battery; adding a method enrols it."""

from collections.abc import Callable
from pathlib import Path

import pytest

from coterie.algorithms import ALGORITHMS
from coterie.native import available
from coterie.testing import BATTERY, learns, needs_nothing_but_messages, repeats_itself

QUICK = (learns, repeats_itself, needs_nothing_but_messages)
"""Checks that run with PyTorch too in every test run; the others do in `make slow`, as it takes minutes."""
CASES = [
    pytest.param(trainer, check, marks=[pytest.mark.slow] if trainer == "torch" and check not in QUICK else [])
    for trainer in ("native", "torch")
    for check in BATTERY
]


@pytest.mark.parametrize("method", list(ALGORITHMS))
@pytest.mark.parametrize(("trainer", "check"), CASES, ids=[f"{c.values[0]}-{c.values[1].__name__}" for c in CASES])
def test_method(method: str, check: Callable[..., None], trainer: str, tmp_path: Path) -> None:
    if trainer == "native" and not available():
        pytest.skip("the compiled trainer was not built here")
    if trainer == "native" and "model" in getattr(ALGORITHMS[method], "battery", {}):
        pytest.skip("the compiled trainer does not know the network that this method needs")
    check(method, tmp_path, trainer=trainer)
