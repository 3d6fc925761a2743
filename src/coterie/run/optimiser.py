"""The optimiser of local training, as settings name it: ``sgd``, ``adam``, or with options ``adamw:beta2=0.99``."""

from typing import Literal, get_args

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from coterie.errors import CoterieError, suggestion, what_is_wanted
from coterie.messages import Optimiser
from coterie.run.values import parse_choice

Name = Literal["sgd", "adam", "adamw"]


class OptimiserChoice(BaseModel):
    """A name with its options.

    >>> OptimiserChoice.read("adam:beta2=0.99").short(), OptimiserChoice.read("SGD").short()
    ('adam:beta1=0.9,beta2=0.99,eps=1e-08', 'sgd')
    """

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False)

    name: Name
    beta1: float = Field(0.9, ge=0, lt=1)
    beta2: float = Field(0.999, ge=0, lt=1)
    eps: float = Field(1e-8, gt=0)

    @classmethod
    def read(cls, text: str) -> "OptimiserChoice":
        """Check a name and its options; raise ValueError with what would be right."""
        try:
            table = parse_choice(text)
        except CoterieError as error:
            raise ValueError(str(error)) from None
        name = str(table.pop("name")).lower()
        if name not in get_args(Name):
            raise ValueError(f"there is no optimiser '{name}': {suggestion(name, get_args(Name))}")
        options = [key for key in cls.model_fields if key != "name"]
        for key in table:
            if name == "sgd":
                raise ValueError(f"sgd has no '{key}': its momentum and weight decay are keys of their own")
            if key not in options:
                raise ValueError(f"{name} has no '{key}': {suggestion(key, options)}")
        try:
            return cls.model_validate({"name": name, **table})
        except ValidationError as error:
            first = error.errors()[0]
            raise ValueError(f"{first['loc'][0]} = {first['input']!r} {what_is_wanted([first])}") from None

    def short(self) -> str:
        """Write the name with all options that it has."""
        if self.name == "sgd":
            return self.name
        return f"{self.name}:beta1={self.beta1!r},beta2={self.beta2!r},eps={self.eps!r}"

    def make(self) -> Optimiser | None:
        """Return what the plan of local training says."""
        return None if self.name == "sgd" else Optimiser(self.name, self.beta1, self.beta2, self.eps)
