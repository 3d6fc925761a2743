"""What is not collected where an extra is missing: modules that can't be imported without it."""

from importlib.util import find_spec

collect_ignore = [] if find_spec("flwr_datasets") else ["src/coterie/engine/flower/partitioner.py"]
