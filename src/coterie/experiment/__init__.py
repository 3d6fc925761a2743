"""Experiments: configuration, running, going on, results."""

from coterie.experiment.api import cluster, resume, run
from coterie.experiment.result import Result

__all__ = ["Result", "cluster", "resume", "run"]
