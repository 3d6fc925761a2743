"""The section of the configuration that says what is measured, when, and on whom."""

from __future__ import annotations

import sys
from typing import Any, Literal

from pydantic import ValidationInfo, field_validator

from coterie.federation.evaluation_options import EvaluationOptions
from coterie.messages.numbers import LARGEST_ERROR, is_error
from coterie.registry import same_name
from coterie.results.protocols import FOLLOWED
from coterie.run.config_base import MOST, ConfigSection, setting
from coterie.run.values import parse_value, split_names
from coterie.training.metrics import METRICS, USUAL


class EvaluationSection(ConfigSection):
    """What is measured, and when."""

    metric: str = setting("accuracy", "what models are measured by, under all protocols", registry=METRICS)
    every: int = setting(
        5, "evaluate every this many rounds, and at the end; 0: at the end only", "--eval-every", ge=0, le=MOST
    )
    clients: int | Literal["all"] | None = setting(
        None,
        "evaluate so many clients, drawn once by the seed, or all; by default all up to 2,000, else 1,000 of them",
        "--eval-clients",
    )
    test_samples: int | None = setting(
        None, "test samples of each client to evaluate on at most, drawn once; by default all", ge=1, le=10**9
    )
    plus: bool | float = setting(
        True, "whether protocol + is measured at the end, or on which share of the evaluated clients, like 0.2"
    )
    validation: float = setting(
        0.0,
        "share of each client's training samples to test on instead of its test part, for choosing settings without "
        "looking at test samples",
        ge=0,
        lt=1,
    )
    targets: list[str] = setting(
        [], "accuracy, or other metric, to note the first round and the bytes of, for instance L=0.8", "--target"
    )

    def options(self) -> EvaluationOptions:
        """Return on whom is measured, as the federation sees it."""
        clients = sys.maxsize if self.clients == "all" else self.clients
        return EvaluationOptions(clients, self.test_samples, float(self.plus))

    @property
    def other_metric(self) -> str | None:
        """The metric, if it is not accuracy."""
        return None if self.metric == USUAL else self.metric

    @field_validator("clients", "plus", mode="before")
    @classmethod
    def _read(cls, value: Any) -> Any:
        """Read what a flag gives as text."""
        return parse_value(value.lower()) if isinstance(value, str) else value

    @field_validator("clients")
    @classmethod
    def _clients(cls, clients: int | Literal["all"] | None) -> int | Literal["all"] | None:
        if isinstance(clients, int) and clients > MOST:
            raise ValueError(f"should be less than or equal to {MOST:,}, or all")
        if isinstance(clients, int) and clients < 2:
            raise ValueError("should be at least 2, since of one client no standard error is known, or all")
        return clients

    @field_validator("plus")
    @classmethod
    def _plus(cls, plus: bool | float) -> bool | float:
        if not 0 <= plus <= 1:
            raise ValueError("should be true, false, or a share of the evaluated clients, 0 to 1")
        return bool(plus) if plus in (0, 1) else plus

    @field_validator("targets")
    @classmethod
    def _targets(cls, targets: list[str], info: ValidationInfo) -> list[str]:
        of_errors = is_error(info.data.get("metric"))
        return [_target(target, of_errors) for text in targets for target in split_names(text)]

    @property
    def predicts_numbers(self) -> bool:
        """Whether numbers are predicted, and measured by an error."""
        return is_error(self.metric)


def _target(text: str, of_errors: bool) -> str:
    """Check a target, and return it with its protocol in the right letters."""
    protocol, _, value = text.partition("=")
    protocol = same_name(protocol, FOLLOWED)
    try:
        right = protocol in FOLLOWED and 0 < float(value) <= (LARGEST_ERROR if of_errors else 1)
    except ValueError:
        right = False
    if not right:
        wanted = "an error" if of_errors else "a fraction"
        raise ValueError(f"'{text}' should be a protocol ({', '.join(FOLLOWED)}) and {wanted}, like L=0.8")
    return f"{protocol}={value}"
