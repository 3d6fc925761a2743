"""The app of a new federation, with a site's data."""

from pathlib import Path

import numpy as np
import pytest

from coterie.deploy.app_folder import init


@pytest.fixture(autouse=True)
def _rehearsed_once(policies_made_once: None) -> None:
    """Most apps have the same terms."""


@pytest.fixture
def app(tmp_path: Path) -> Path:
    init(tmp_path / "app")
    rng = np.random.default_rng(0)
    x, y = rng.integers(0, 256, (60, 1, 8, 8)).astype(np.uint8), np.arange(60) % 10
    np.savez(tmp_path / "app" / "data.npz", x_train=x, y_train=y)
    return tmp_path / "app"
