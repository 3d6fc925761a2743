"""Flower as engine: a simulation on Ray, or real machines; the only package that imports flwr."""

import os
from importlib.util import find_spec

from coterie.errors import CoterieError

QUIET = {
    "FLWR_TELEMETRY_ENABLED": "0",
    "FLWR_DISABLE_UPDATE_CHECK": "1",
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
}
"""Neither Flower nor Ray calls home; the user may set these otherwise."""


def require() -> None:
    """Raise an error if Flower is not installed; if it is, keep it from calling home."""
    missing = [package for package in ("flwr", "ray") if find_spec(package) is None]
    if missing:
        raise CoterieError(
            f"engine 'flower' needs {' and '.join(missing)}, not installed here: pip install 'coterie[flower]'"
        )
    for name, value in QUIET.items():
        os.environ.setdefault(name, value)
