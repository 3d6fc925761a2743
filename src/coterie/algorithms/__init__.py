"""Federated methods, one file each, in the words of their papers."""

import inspect
from typing import Any

from coterie.federation import Algorithm
from coterie.registry import Registry


def error_in_method(method: Any) -> str | None:
    """Say what keeps a class from being a method, or None."""
    if not inspect.isclass(method):
        return "a method is a class that derives from coterie.Algorithm"
    if not issubclass(method, Algorithm):
        return f"it does not derive from coterie.Algorithm: write class {method.__name__}(coterie.Algorithm)"
    if missing := sorted(method.__abstractmethods__):
        return f"it has no function {' and no '.join(missing)}"
    for name, declared in inspect.getmembers(Algorithm, inspect.isfunction):
        if name.startswith("__"):
            continue
        function, parameters = inspect.getattr_static(method, name), inspect.signature(declared).parameters
        if inspect.isfunction(function) and not _takes(function, len(parameters)):
            return f"{name}{inspect.signature(function)} should be {name}({', '.join(parameters)})"
    return None


def _takes(function: Any, arguments: int) -> bool:
    try:
        inspect.signature(function).bind(*range(arguments))
    except TypeError:
        return False
    return True


ALGORITHMS: Registry[type[Algorithm]] = Registry("method", "coterie.algorithms", error_in=error_in_method)
algorithm = ALGORITHMS.register
