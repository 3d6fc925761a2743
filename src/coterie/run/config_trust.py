"""Sections of the configuration about trust: what is done about liars, what clients hold back, and what is played."""

from __future__ import annotations

from pydantic import model_validator

from coterie.engine.faults import Lie
from coterie.federation.aggregation import AggregationOptions, AggregationRule, Mixing
from coterie.messages.limits import MOST_SAMPLES
from coterie.run.config_base import MOST, ConfigSection, setting


class AggregationSection(ConfigSection):
    """How the models of clients are put together, inside each group."""

    rule: AggregationRule = setting(
        "mean",
        "weighted by samples; the same with long updates cut; or a rule that counts each client once and bears liars",
        "--aggregation",
    )
    clip: float = setting(3.0, "rule clipped: updates are cut to this multiple of their median length", gt=0)
    trim: float = setting(
        0.25, "rule trimmed: share of the clients left out at either end, number by number, rounded up", gt=0, lt=0.5
    )
    mixing: Mixing = setting(
        "neighbours", "rules median and trimmed: replace each model by the mean of the half nearest to it first, or not"
    )
    assumed_liars: int | None = setting(
        None,
        "rule krum: how many clients of a group may lie; by default as many as the rule bears, (n - 3) / 2",
        ge=0,
        le=MOST,
    )
    max_samples: int | None = setting(
        None, "clients that declare more training samples are left out", ge=1, le=MOST_SAMPLES
    )
    max_weight: float | None = setting(
        None, "no client counts for more than this multiple of the median number of samples", ge=1
    )

    def options(self) -> AggregationOptions:
        """Return the options as the federation sees them."""
        return AggregationOptions(**self.model_dump())


class FaultsSection(ConfigSection):
    """Simulated faults, as probabilities per client and round."""

    drop: float = setting(0.0, "a client never receives the request", ge=0, le=1)
    straggle: float = setting(0.0, "a client's reply comes too late", ge=0, le=1)
    hostile: float = setting(0.0, "a client lies", ge=0, le=1)
    hostile_kind: Lie = setting(
        "nonsense",
        "how: what no check believes; its update turned round, also ten times as far; a model that replaces all "
        "others'; 1e11 everywhere; or 1e9 samples claimed for an update turned round",
    )
    liars: int | None = setting(
        None, "instead of a probability: so many clients lie in all rounds, drawn by the seed", ge=1, le=MOST
    )

    @model_validator(mode="after")
    def _agree(self) -> FaultsSection:
        if self.hostile and self.liars:
            raise ValueError("hostile is a probability for all clients, liars a number of them: set one")
        if self.hostile and self.hostile_kind == "samples":
            raise ValueError("hostile_kind 'samples' is a lie that clients declare once: set liars, not hostile")
        return self


class PrivacySection(ConfigSection):
    """What clients hold back; nothing by default in simulations."""

    min_samples: int = setting(
        0,
        "a client trains and evaluates on at least this many distinct samples, or does not answer; 10 in deployments",
        ge=0,
        le=MOST_SAMPLES,
    )
    min_label_samples: int = setting(
        0,
        "a label with fewer samples for each vector that describes it is left out of what a client says of its labels; "
        "10 in deployments",
        ge=0,
        le=MOST_SAMPLES,
    )
    max_requests: int | None = setting(
        None,
        "deployed federations: different requests that a site answers in a round; by default found by a rehearsal",
        ge=1,
        le=MOST,
    )
