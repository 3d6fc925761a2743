"""What the files of a folder hold, checked when they are read: the one border behind which they are trusted.

A file may have been cut short, edited, or made up. What is of a wrong type or makes no sense is refused with the place
in the file; texts, which may come from anybody, are one line of printable letters behind it. Keys that are not known
here are let through: other versions have others.
"""

from __future__ import annotations

import math
from functools import cache
from typing import Annotated, Any, Literal, NotRequired

from annotated_types import Ge, Le, Len
from typing_extensions import TypedDict

from coterie.errors import one_line, what_is_wanted

LARGEST = 1e15
"""Beyond this no number is believed: hundredfold it must stay finite."""
MOST_TRIES = 10_000
"""Runs of a comparison, and combinations of settings to choose from."""


class Within:
    """What a number must be: within limits, or none at all (NaN, an infinity), which readers show as not measured."""

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> Any:
        from pydantic_core import core_schema

        return core_schema.no_info_after_validator_function(self.check, handler(source))

    @staticmethod
    def check(number: float) -> float:
        """Refuse a finite number that is too large."""
        if math.isfinite(number) and abs(number) > LARGEST:
            raise ValueError(f"{number:g} is beyond {LARGEST:g}")
        return number


Number = Annotated[float, Within()]
Value = Number | None
Count = Annotated[int, Ge(0), Le(10**18)]
Round = Annotated[int, Ge(0), Le(10**9)]
Place = Annotated[int, Ge(0), Le(10**6)]
"""The number of a client or a group."""
Seed = Annotated[int, Ge(0), Le(2**63 - 1)]
Share = Annotated[float, Ge(0), Le(1)]
Values = list[Value]


class Both(TypedDict):
    """Bytes of a kind of message."""

    up: Count
    down: Count


class Traffic(TypedDict):
    """What was sent."""

    up_bytes: Count
    down_bytes: Count
    by_kind: NotRequired[dict[str, Both]]
    by_client: NotRequired[dict[str, list[Count]]]
    paper_megabits: NotRequired[Value]


class Event(TypedDict):
    """What went wrong, of one kind."""

    kind: str
    count: Count
    first_round: NotRequired[Round | None]
    last_round: NotRequired[Round | None]
    example: NotRequired[str]
    clients: NotRequired[dict[str, Count]]
    details: NotRequired[dict[str, Count]]
    at_end: NotRequired[Count]
    of: NotRequired[Count]


class Newcomers(TypedDict):
    """Who came late."""

    clients: list[Place]
    round: Round
    groups: list[Place | None]
    founded: list[Place]
    accuracy: dict[str, Value]
    per_client: dict[str, Values]
    measured: NotRequired[dict[str, Count]]


class Target(TypedDict):
    """When an accuracy was reached."""

    protocol: str
    value: Number
    round: Round | None
    bytes: Count | None


class GroupingEntry(TypedDict, total=False):
    """How groups were found."""

    rule: str | None
    threshold: Value
    unit: str | None
    reason: str | None
    confidence: Value


class MeasuredEntry(TypedDict):
    """On how many clients a number stands."""

    clients: Count
    of: Count
    standard_error: Value


class PrivacyEntry(TypedDict):
    """How private something that clients told is."""

    what: str
    unit: Literal["sample", "client"]
    epsilon: Number
    delta: Share
    releases: Count
    mechanism: str
    simulated: bool
    not_covered: list[str]
    per_client: NotRequired[list[Number]]
    """ε of what each client told."""


class Details(TypedDict, total=False):
    """What pruning methods tell; others tell other things."""

    pruned: Value
    pruned_by_client: dict[str, Value]
    parameters: dict[str, Number]


class ResultFields(TypedDict):
    """``result.json``; what older versions did not write is not required."""

    accuracy: dict[str, Value]
    per_client: dict[str, Values]
    traffic: Traffic
    events: list[Event]
    algorithm: NotRequired[str]
    data: NotRequired[str]
    partition: NotRequired[str | None]
    model: NotRequired[str]
    seed: NotRequired[Seed]
    rounds: NotRequired[Round]
    groups: NotRequired[list[Place | None] | None]
    true_groups: NotRequired[list[Place | None] | None]
    ari: NotRequired[Value]
    grouping: NotRequired[GroupingEntry | None]
    details: NotRequired[Details | None]
    memberships: NotRequired[list[Any] | None]
    newcomers: NotRequired[Newcomers | None]
    targets: NotRequired[list[Target]]
    seconds: NotRequired[Number]
    trainer: NotRequired[str]
    engine: NotRequired[str]
    versions: NotRequired[dict[str, str]]
    validation: NotRequired[Share]
    unadapted: NotRequired[dict[str, Value] | None]
    accuracy_by_true_group: NotRequired[dict[str, Values] | None]
    accuracy_group_mean: NotRequired[dict[str, Value] | None]
    measured: NotRequired[dict[str, MeasuredEntry]]
    measured_by_true_group: NotRequired[dict[str, list[MeasuredEntry]] | None]
    client_names: NotRequired[list[str] | None]
    class_names: NotRequired[list[str] | None]
    metric: NotRequired[str]
    privacy: NotRequired[list[PrivacyEntry] | None]


Tables = dict[str, dict[str, Any]]
Typed: dict[str, dict[str, Any]] = {
    "data": {"name": str, "clients": Place | None},
    "partition": {"name": str | None},
    "model": {"name": str | None},
    "training": {"rounds": Round, "fraction": Number | None},
    "algorithm": {"name": str},
    "curriculum": {"data": str | None, "clients": str | None},
    "evaluation": {"validation": Share, "targets": list[str]},
    "engine": {"max_strikes": Round | None},
    "run": {"seed": Seed, "plugins": list[str]},
}
"""The keys of a configuration that are looked at here, by section; all of it is checked when it is run."""


class PlanFields(TypedDict):
    """[comparison] of ``comparison.toml``."""

    kind: Literal["compare", "sweep"]
    seeds: Annotated[list[Seed], Len(1, MOST_TRIES)]
    protocol: str
    baseline: NotRequired[str]
    tune: NotRequired[dict[str, Annotated[list[Any], Len(1)]]]
    tune_seeds: NotRequired[Annotated[list[Seed], Len(0, MOST_TRIES)]]
    tune_share: Share


class PlanFile(TypedDict):
    """``comparison.toml``."""

    comparison: PlanFields
    base: NotRequired[Tables]
    cells: Annotated[dict[str, dict[str, Any]], Len(1, MOST_TRIES)]


class SiteFields(TypedDict):
    """A site in ``sites.json``."""

    client: Place
    samples: NotRequired[Count]


class SitesFile(TypedDict):
    """``sites.json``, as far as it is shown."""

    sites: dict[str, SiteFields]


class FailedFields(TypedDict):
    """A run that failed, in ``comparison.json``."""

    seed: Seed
    why: str


class RunFields(TypedDict):
    """A run of a comparison."""

    seed: Seed
    accuracy: dict[str, Value]


class CellFields(TypedDict):
    """A cell of a comparison."""

    label: str
    failed: list[FailedFields]
    runs: list[RunFields]


class ComparisonFields(TypedDict):
    """``comparison.json``, as far as it is read back."""

    cells: list[CellFields]


@cache
def _checker(kind: Any) -> Any:
    from pydantic import ConfigDict, TypeAdapter, with_config

    if isinstance(kind, type) and issubclass(kind, dict):
        kind = with_config(ConfigDict(strict=True, extra="allow"))(kind)
        return TypeAdapter(kind)
    return TypeAdapter(kind, config=ConfigDict(strict=True))


def error_in(content: Any, kind: Any, place: str = "") -> str | None:
    """Say where in a file something is not what it should be, and what is wrong with it.

    >>> error_in({"sites": {"a": {"client": "0"}}}, SitesFile)
    'sites.a.client: should be a whole number, not a text'
    """
    from pydantic import ValidationError

    try:
        _checker(kind).validate_python(content)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(str(part) for part in (place, *first["loc"]) if part != "")
        return one_line(f"{where or 'it'}: {what_is_wanted([first])}")
    return None


def cleaned(value: Any) -> Any:
    r"""Return a value with texts of one line of printable letters, also as keys.

    >>> cleaned({"a\n": ["b\x1b[31m", 1]})
    {'a ': ['b [31m', 1]}
    """
    if isinstance(value, str):
        return one_line(value)
    if isinstance(value, dict):
        return {one_line(key) if isinstance(key, str) else key: cleaned(item) for key, item in value.items()}
    return [cleaned(item) for item in value] if isinstance(value, list) else value
