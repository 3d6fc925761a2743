"""Curricula of a run: what its settings say (ALGORITHMS 6)."""

import json
from collections.abc import Mapping
from typing import Any, Literal, Self, get_args

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from coterie.errors import suggestion, what_is_wanted
from coterie.federation.curriculum import ClientCurriculum, ClientScore
from coterie.federation.sampling import ClientSampler, UniformSampler
from coterie.messages import Curriculum
from coterie.messages.plan import Order, Pacing, Score


class Paced(BaseModel):
    """What both kinds of curriculum share: the pacing with its a and b, and the order."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False)

    pacing: Pacing = "linear"
    a: float = Field(0.8, ge=0, le=1)
    b: float = Field(0.2, ge=0, le=1)
    order: Literal[Order, "vanilla"] = "curriculum"

    @classmethod
    def read(cls, table: Any) -> Self:
        """Check a table of settings; an empty value takes the default. Raise ValueError with what would be right."""
        if not isinstance(table, Mapping):
            raise ValueError("it should be a table, or key=value,key=value")
        for key in table:
            if key not in cls.model_fields:
                raise ValueError(f"it has no '{key}': {suggestion(str(key), cls.model_fields)}")
        try:
            return cls(**{key: value for key, value in table.items() if value is not None and value != ""})
        except ValidationError as error:
            first = error.errors()[0]
            key, received = str(first["loc"][0]), first["input"]
            if first["type"] == "literal_error":
                names = get_args(cls.model_fields[key].annotation)
                raise ValueError(f"{key} '{received}' is unknown: {suggestion(str(received), names)}") from None
            raise ValueError(f"{key} = {received!r} {what_is_wanted([first])}") from None

    def short(self) -> str:
        """Write all settings as ``key=value,key=value``."""
        ordered = sorted(self, key=lambda item: item[0] != "score")  # which comes first, as in the papers
        return ",".join(f"{key}={value if isinstance(value, str) else json.dumps(value)}" for key, value in ordered)

    @property
    def hides_nothing(self) -> bool:
        """Whether the pool is everything from the first step on, as without a curriculum."""
        return self.order == "vanilla" or self.a == 0 or self.b == 1


class DataCurriculum(Paced):
    """Which of a client's samples a local step may use.

    >>> DataCurriculum.read({"score": "E", "a": ""}).short()
    'score=E,pacing=linear,a=0.8,b=0.2,order=curriculum'
    """

    score: Score = "G"

    def make(self) -> Curriculum | None:
        """Return what the plan of local training says; a random order needs no scores, and so no expert."""
        if self.hides_nothing or self.order == "vanilla":
            return None
        score: Score = "G" if self.order == "random" else self.score
        return Curriculum(score, self.pacing, self.a, self.b, self.order)


class ClientsCurriculum(Paced):
    """Which clients a round may draw.

    >>> ClientsCurriculum.read({"refresh_every": 5}).short()
    'score=G,pacing=linear,a=0.8,b=0.2,order=curriculum,refresh_every=5,all_batches=false'
    """

    score: ClientScore = "G"
    refresh_every: int = Field(1, ge=1)
    all_batches: bool = False

    def make(self) -> ClientSampler:
        """Return who draws the cohorts."""
        if self.order == "vanilla" or (self.hides_nothing and not self.all_batches):
            return UniformSampler()
        score: ClientScore = "G" if self.order == "random" else self.score
        return ClientCurriculum(self.pacing, self.a, self.b, self.order, self.refresh_every, self.all_batches, score)
