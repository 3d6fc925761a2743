"""Rules: from proximities to groups, with the reason. One file each; a user's own are registered alike."""

import inspect
from collections.abc import Callable
from typing import Any, TypeVar

from coterie.clustering.rule import Rule
from coterie.registry import Registry

R = TypeVar("R", bound=type[Rule])


def _error_in_rule(item: Any) -> str | None:
    """Say what keeps a class from being a rule."""
    if not (inspect.isclass(item) and issubclass(item, Rule)):
        return "a rule is a subclass of coterie.clustering.Rule"
    if not item.name:
        return "it has no name: register it by @coterie.rule"
    return "it has no function cut(self, merges, distances)" if inspect.isabstract(item) else None


RULES: Registry[type[Rule]] = Registry("rule", "coterie.clustering.rules", "coterie.rules", error_in=_error_in_rule)


def rule(name: str) -> Callable[[R], R]:
    """Register a subclass of `coterie.clustering.Rule`; its keyword-only fields are its options."""
    register = RULES.register(name)

    def enter(item: R) -> R:
        item.name = name
        register(item)
        return item

    return enter
