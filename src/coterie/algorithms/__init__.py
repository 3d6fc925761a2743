"""Federated methods, one file each, in the words of their papers."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

from coterie.registry import Registry

if TYPE_CHECKING:
    from coterie.federation import Algorithm

REQUIRED = {
    "begin": ("fed",),
    "round": ("fed", "cohort"),
    "admit": ("fed", "newcomers"),
    "model_for": ("client",),
    "groups": (),
    "save": (),
    "load": ("state",),
}
"""The functions of a method and what they are given, as `coterie.federation.Algorithm` declares them."""


def _error_in_method(method: Any) -> str | None:
    """Say what keeps a class from being a method."""
    if not inspect.isclass(method):
        return f"a method is a class, with the functions {', '.join(REQUIRED)}"
    missing = [name for name in REQUIRED if not _has(method, name)]
    if missing:
        return f"it has no function {' and no '.join(missing)}; a method has {', '.join(REQUIRED)}"
    for name, given in REQUIRED.items():
        function = inspect.getattr_static(method, name)
        if inspect.isfunction(function) and not _takes(function, 1 + len(given)):
            wanted = ", ".join(("self", *given))
            return f"{name}{inspect.signature(function)} should be {name}({wanted})"
    return None


def _has(method: type, name: str) -> bool:
    """Say whether a function is there, and not just declared by the protocol."""
    function = getattr(method, name, None)
    return callable(function) and getattr(function, "__module__", "") != "coterie.federation.algorithm"


def _takes(function: Any, arguments: int) -> bool:
    try:
        inspect.signature(function).bind(*range(arguments))
    except TypeError:
        return False
    return True


ALGORITHMS: Registry[type[Algorithm]] = Registry("method", "coterie.algorithms", error_in=_error_in_method)
algorithm = ALGORITHMS.register
