"""Turns what a user asks for into a rule, and says which rules a method accepts."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Literal

from coterie.clustering.hierarchical import Ints
from coterie.clustering.rules import RULES, Evidence, Rule
from coterie.errors import CoterieError

Linkage = Literal["single", "complete", "average", "weighted", "centroid", "median", "ward"]


Scale = Literal["exact", "landmarks"]
"""Compare every two clients, or all with some."""


@dataclass(frozen=True)
class GroupingOptions:
    """What the user asked for; everything is optional."""

    rule: str | None = None
    threshold: float | None = None
    groups: int | None = None
    granularity: float | None = None
    linkage: Linkage | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    """Further options of the rule."""
    scale: Scale | None = None
    """Whether every two clients are compared; by default up to 5,000."""

    @property
    def numbers(self) -> dict[str, float]:
        """The keys that were given of those that ask for a rule without naming it."""
        implying = [key.name for key in fields(self) if key.name in implied_rules()]
        return {key: value for key in implying if (value := getattr(self, key)) is not None}

    @property
    def named(self) -> str | None:
        """The rule asked for by name, or by the number that implies it."""
        return self.rule or next((implied_rules()[key] for key in self.numbers), None)

    def error(self) -> str | None:
        """Say what is contradictory, or None."""
        given = list(self.numbers)
        if len(given) > 1:
            return f"{' and '.join(given)} exclude each other: keep one"
        if self.rule is None:
            return None
        try:
            options = RULES.options(self.rule)
            if given and given[0] not in options:
                owner = implied_rules()[given[0]]
                return f"{given[0]} belongs to rule '{owner}', not to '{self.rule}': leave one of them out"
            RULES.validate(self.rule, {**self.numbers, **self.options})
        except CoterieError as error:
            return str(error)
        return None

    def make(
        self,
        default: str,
        *,
        unit: str = "degrees",
        linkage: str | None = None,
        samples: float = math.inf,
        score: Callable[[Ints], float] | None = None,
        **options: Any,
    ) -> Rule:
        """Return the rule that was asked for, or the method's default with these options.

        `unit` is that of the method's distances, `linkage` its own if it has one for all rules, `samples` the median
        number per client, `score` its trial.
        """
        name = self.named or default
        asked = {**self.numbers, **self.options}
        if asked:
            valid = RULES.validate(name, asked)
            asked = {key: valid[key] for key in asked}
        defaults = options if name == default else {}
        return RULES[name](self.linkage or linkage or "", unit, samples, score, **{**defaults, **asked})


@dataclass(frozen=True)
class RuleSupport:
    """Which rules can form a method's groups: all that need no more than the method offers."""

    offers: tuple[Evidence, ...] = ()
    """What rules may need. A method that offers nothing has no distances to cut, but can take a number of groups."""
    unit: str = "degrees"
    """Of its distances."""
    refuses: tuple[str, ...] = ()
    """Rules that ask for what the method can't do, or has an option for."""
    instead: str = ""
    """What else a user may set, for messages."""
    landmarks: bool = False
    """Whether the method can form groups by way of some of many clients."""

    def accepts(self, rule: str) -> bool:
        """Say whether a registered rule can form the groups."""
        kind = RULES[rule]
        suits = not kind.units or self.unit in kind.units
        return set(kind.needs) <= set(self.offers) and suits and rule not in self.refuses

    def takes(self, key: str) -> bool:
        """Say whether a key of [grouping] is of use to the method."""
        if key == "linkage":
            return "distances" in self.offers and "chance" not in self.offers
        if key == "scale":
            return self.landmarks
        return key == "rule" or self.accepts(implied_rules()[key])

    def error_in(self, options: GroupingOptions) -> str | None:
        """Say which of a user's options the method can't follow, or None."""
        if options.linkage is not None and "chance" in self.offers:
            return "merges groups by average linkage over the clients that it can compare: leave linkage out"
        if options.linkage is not None and "distances" not in self.offers:
            return "merges no groups, so there is no linkage: leave it out"
        if options.scale == "landmarks" and not self.landmarks:
            return "compares every two clients, so there are no landmarks: write --grouping exact, or use pacfl"
        if options.named is None or self.accepts(options.named):
            return None
        usable = [name for name in RULES if self.accepts(name)]
        instead = f", or {self.instead}" if self.instead else ""
        return f"can't form groups by rule '{options.named}': use {' or '.join(usable)}{instead}"


def implied_rules() -> dict[str, str]:
    """Return the rules that keys of [grouping] imply, by key."""
    return {key: name for name in RULES if (key := RULES[name].implied_by) is not None}
