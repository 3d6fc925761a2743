"""Experiments: configuration, running, going on, results."""

from coterie.experiment.api import cluster, inspect, resume, run
from coterie.experiment.comparison import Comparison, compare, sweep
from coterie.experiment.result import Result

__all__ = ["Comparison", "Result", "cluster", "compare", "inspect", "resume", "run", "sweep"]
