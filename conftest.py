"""For all tests: none is timed or random, and modules that can't be imported without an extra are not collected."""

from importlib.util import find_spec

from hypothesis import settings

settings.register_profile("coterie", deadline=None, derandomize=True, max_examples=50)
settings.load_profile("coterie")

collect_ignore = [] if find_spec("flwr_datasets") else ["src/coterie/engine/flower/partitioner.py"]
collect_ignore_glob = ["tests/*/conftest.py"]  # several would be one module to doctest
