"""What tests of several packages share."""

import os
from pathlib import Path

import pytest


@pytest.fixture
def real_data(monkeypatch: pytest.MonkeyPatch) -> None:
    """The folder of real data sets, which COTERIE_DATA then names."""
    place = Path(os.environ.get("COTERIE_DATA") or Path(__file__).parents[2] / "shared" / "data")
    missing = [name for name in ("fashion_mnist", "cifar10", "svhn", "usps") if not (place / f"{name}.npz").exists()]
    if missing:
        pytest.skip(f"no {', '.join(missing)} in {place}: set COTERIE_DATA to the folder of real data sets")
    monkeypatch.setenv("COTERIE_DATA", str(place))
