"""Every registered method passes the battery; adding a method enrols it."""

from pathlib import Path

import pytest

from coterie.algorithms import ALGORITHMS
from coterie.native import available
from coterie.testing import BATTERY


@pytest.mark.parametrize("method", list(ALGORITHMS))
@pytest.mark.parametrize("check", BATTERY, ids=lambda check: check.__name__)
@pytest.mark.parametrize("trainer", ["native", "torch"])
def test_method(method: str, check, trainer: str, tmp_path: Path) -> None:
    if trainer == "native" and not available():
        pytest.skip("the compiled trainer was not built here")
    if trainer == "native" and "model" in getattr(ALGORITHMS[method], "battery", {}):
        pytest.skip("the compiled trainer does not know the network that this method needs")
    check(method, tmp_path, trainer=trainer)
