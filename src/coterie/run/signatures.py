"""Signatures that show settings one by one, where a function takes them as ``**settings``."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, TypeVar

from coterie.run.keywords import DEFAULTS

Function = TypeVar("Function", bound=Callable[..., Any])


def shows(settings: type) -> Callable[[Function], Function]:
    """Let `help`, and notebooks that complete names, see the keys of a TypedDict as keywords with their defaults."""

    def shown(function: Function) -> Function:
        signature = inspect.signature(function)
        own = [p for p in signature.parameters.values() if p.kind is not inspect.Parameter.VAR_KEYWORD]
        more = [
            inspect.Parameter(
                name, inspect.Parameter.KEYWORD_ONLY, default=DEFAULTS.get(name), annotation=_text(annotation)
            )
            for name, annotation in settings.__annotations__.items()
        ]
        function.__signature__ = signature.replace(parameters=[*own, *more])  # type: ignore[attr-defined]
        return function

    return shown


def _text(annotation: Any) -> str:
    """Return an annotation as it is written; those of a TypedDict are kept as references to what is not imported."""
    return str(annotation.__forward_arg__)
