"""For all tests: none is timed or random, and modules that can't be imported without an extra are not collected."""

import gc
from importlib.util import find_spec

from hypothesis import settings

settings.register_profile("coterie", deadline=None, derandomize=True, max_examples=50)
settings.load_profile("coterie")

collect_ignore = [] if find_spec("flwr_datasets") else ["src/coterie/engine/flower/partitioner.py"]
collect_ignore_glob = ["tests/*/conftest.py"]  # several would be one module to doctest


def pytest_collection_finish() -> None:
    """Keep what was imported and collected out of all later garbage collections, a sixth of the time of many tests."""
    gc.collect()
    gc.freeze()
