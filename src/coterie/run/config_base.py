"""What sections of the configuration are made of."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationInfo, field_validator

from coterie.registry import Registry, in_any_case

MOST = 10**6
"""Clients or rounds of a run: with more it would never end."""


class ConfigSection(BaseModel):
    """One table of the TOML file."""

    model_config = ConfigDict(extra="forbid", validate_default=True, strict=True, allow_inf_nan=False)

    @field_validator("*", mode="before")
    @classmethod
    def _in_any_case(cls, value: Any, info: ValidationInfo) -> Any:
        """Take a name out of a list of names whatever its capital letters."""
        field = cls.model_fields.get(info.field_name or "")
        return value if field is None else in_any_case(value, field.annotation)


class ChoiceSection(ConfigSection):
    """A section that names something registered; its other keys are that thing's options."""

    model_config = ConfigDict(extra="allow", strict=True)

    @property
    def options(self) -> dict[str, Any]:
        """The keys that are not fields of the section."""
        return dict(self.model_extra or {})


def setting(
    default: Any, help: str, flag: str | None = None, *, registry: Registry[Any] | None = None, **limits: Any
) -> Any:
    """Declare a key: its default, what it means, its flag where that is not ``--key``, and whose names it takes."""
    extra = {name: value for name, value in (("flag", flag), ("registry", registry)) if value is not None}
    return Field(default, description=help, json_schema_extra=extra or None, **limits)  # type: ignore[arg-type]
