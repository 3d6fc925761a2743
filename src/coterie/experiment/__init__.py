"""Experiments: configuration, running, going on, results."""

from coterie.experiment.api import resume, run
from coterie.experiment.result import Result

__all__ = ["Result", "resume", "run"]
