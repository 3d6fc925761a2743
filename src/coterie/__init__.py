"""Coterie: clustered federated learning.

>>> import coterie
>>> result = coterie.run(algorithm="fedavg", dataset="digits", clients=5, rounds=2, epochs=1)
>>> sorted(result.accuracy)
['C', 'G', 'L', 'L_max', 'W_max', 'plus']
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from coterie.errors import CoterieError

if TYPE_CHECKING:
    from coterie.algorithms import algorithm
    from coterie.data import dataset, divided_dataset, partition
    from coterie.experiment import Comparison, Result, cluster, compare, inspect, resume, run, sweep
    from coterie.models import model

__version__ = "0.1.0"
__all__ = [
    "Comparison",
    "CoterieError",
    "Result",
    "algorithm",
    "cluster",
    "compare",
    "dataset",
    "divided_dataset",
    "inspect",
    "model",
    "partition",
    "resume",
    "run",
    "sweep",
]

# Imported when first used, so that `import coterie` and the command line start at once.
_HOMES = {
    "run": "coterie.experiment",
    "cluster": "coterie.experiment",
    "compare": "coterie.experiment",
    "sweep": "coterie.experiment",
    "Comparison": "coterie.experiment",
    "inspect": "coterie.experiment",
    "resume": "coterie.experiment",
    "Result": "coterie.experiment",
    "algorithm": "coterie.algorithms",
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
