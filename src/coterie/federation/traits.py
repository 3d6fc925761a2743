"""What is true of a method whatever its options are."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from coterie.clustering import RuleSupport


@dataclass(frozen=True)
class Traits:
    """Constants of a method; ``traits = Traits(...)`` in its class declares them."""

    rules: RuleSupport | None = None
    """Which rules of ``[grouping]`` can form its groups; None: it takes no key of that section."""
    one_shot: bool = False
    """Whether it forms groups before training and says how in `grouping`, so that ``coterie cluster`` can use it."""
    allows_new_groups: bool = False
    """Whether newcomers may form a group of their own."""
    selects_clients: bool = False
    """Whether it draws clients itself, whoever is in the cohort."""
    transfers: float | None = None
    """Models sent per client and round, both ways, for the papers' cost formula; None: the formula has no number."""
    default_model: str | None = None
    """The network for images where the user names none."""
    battery: Mapping[str, Any] = field(default_factory=dict)
    """Settings of ``coterie.run`` with which the battery of tests tries it."""
