"""Coterie: clustered federated learning.

>>> import coterie
>>> result = coterie.run(algorithm="fedavg", dataset="digits", clients=5, rounds=2, epochs=1)
>>> sorted(result.accuracy)
['C', 'C_lacking', 'C_own', 'G', 'L', 'L_best', 'L_max', 'W_max', 'plus']
"""

from typing import TYPE_CHECKING, Any

from coterie.audit import audit
from coterie.compare import compare, load, sweep
from coterie.errors import CoterieError
from coterie.inspect import inspect
from coterie.report import report
from coterie.reproduce import reproduce
from coterie.run import cluster, export, predict, resume, run

if TYPE_CHECKING:
    from coterie.algorithms import algorithm
    from coterie.clustering import rule
    from coterie.compare.comparison import Comparison
    from coterie.compare.jobs import BatchProgress
    from coterie.data import dataset, divided_dataset, partition
    from coterie.federation import Algorithm
    from coterie.models import model
    from coterie.run.progress import Progress
    from coterie.run.result import Result
    from coterie.similarity import measure
    from coterie.tracking import Tracker
    from coterie.training.metrics import metric
    from coterie.training.objectives import loss

__version__ = "0.2.0"
__all__ = [
    "Algorithm",
    "BatchProgress",
    "Comparison",
    "CoterieError",
    "Progress",
    "Result",
    "Tracker",
    "algorithm",
    "audit",
    "cluster",
    "compare",
    "dataset",
    "divided_dataset",
    "export",
    "inspect",
    "load",
    "loss",
    "measure",
    "metric",
    "model",
    "partition",
    "predict",
    "report",
    "reproduce",
    "resume",
    "rule",
    "run",
    "sweep",
]

# Imported when first used, so that `import coterie` and the command line start at once. The functions above are
# thin, and bound here after the packages of the same names were loaded: `coterie.run` is the function.
_HOMES = {
    "Algorithm": "coterie.federation",
    "BatchProgress": "coterie.compare.jobs",
    "Comparison": "coterie.compare.comparison",
    "Progress": "coterie.run.progress",
    "Result": "coterie.run.result",
    "Tracker": "coterie.tracking",
    "algorithm": "coterie.algorithms",
    "rule": "coterie.clustering",
    "loss": "coterie.training.objectives",
    "measure": "coterie.similarity",
    "metric": "coterie.training.metrics",
    "model": "coterie.models",
    "dataset": "coterie.data",
    "divided_dataset": "coterie.data",
    "partition": "coterie.data",
}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        import importlib

        return getattr(importlib.import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'coterie' has no attribute '{name}'")


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
