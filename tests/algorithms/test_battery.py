"""Every registered method passes the battery; adding a method enrols it."""

from pathlib import Path

import pytest

from coterie.algorithms import ALGORITHMS
from coterie.testing import BATTERY


@pytest.mark.parametrize("method", list(ALGORITHMS))
@pytest.mark.parametrize("check", BATTERY, ids=lambda check: check.__name__)
def test_method(method: str, check, tmp_path: Path) -> None:
    check(method, tmp_path)
