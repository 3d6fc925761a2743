"""Sections of the configuration about trust: robust aggregation, what clients hold back, and simulated faults."""

from __future__ import annotations

from pydantic import model_validator

from coterie.engine.faults import Lie
from coterie.federation.aggregation import AggregationOptions, AggregationRule, Mixing
from coterie.federation.secure_options import SecureOptions
from coterie.messages import Weighing
from coterie.messages.limits import MOST_SAMPLES
from coterie.messages.masking import LEAST
from coterie.run.config_base import MOST, ConfigSection, setting


class AggregationSection(ConfigSection):
    """How clients' models are aggregated, within each group."""

    rule: AggregationRule = setting(
        "mean",
        "mean weighted by samples; the same with long updates clipped; or a robust rule that counts each client once",
        "--aggregation",
    )
    clip: float = setting(3.0, "rule clipped: clip updates to this multiple of their median norm", gt=0)
    trim: float = setting(
        0.25, "rule trimmed: share of the clients left out at either end of each coordinate, rounded up", gt=0, lt=0.5
    )
    mixing: Mixing = setting(
        "neighbours", "rules median and trimmed: first replace each model by the mean of the half nearest to it, or not"
    )
    assumed_liars: int | None = setting(
        None,
        "rule krum: how many clients of a group may lie; by default as many as the rule tolerates, (n - 3) / 2",
        ge=0,
        le=MOST,
    )
    max_samples: int | None = setting(
        None, "clients that declare more training samples are left out", ge=1, le=MOST_SAMPLES
    )
    max_weight: float | None = setting(
        None, "no client counts for more than this multiple of the median number of samples", ge=1
    )

    secure: bool = setting(
        False,
        "sum what clients train under masks inside each group, so that the server sees no single update (SecAgg+; "
        "pip install 'coterie[secure]')",
    )
    secure_min: int = setting(5, "secure: with fewer clients in a sum it stays masked", ge=LEAST, le=MOST)
    secure_clip: float = setting(100.0, "secure: clients clip updates to this norm", gt=0, le=1e9)

    def options(self) -> AggregationOptions:
        """Return the options as the federation sees them."""
        return AggregationOptions(**self.model_dump(exclude={"secure", "secure_min", "secure_clip"}))

    def secure_options(self, weighing: Weighing | None) -> SecureOptions | None:
        """Return what is asked of secure sums, where there are some; `weighing` is how the method's clients count."""
        return SecureOptions(self.secure_min, self.secure_clip, weighing) if self.secure and weighing else None


class FaultsSection(ConfigSection):
    """Simulated faults, as probabilities per client and round."""

    drop: float = setting(0.0, "a client never receives the request", ge=0, le=1)
    straggle: float = setting(0.0, "a client's reply comes too late", ge=0, le=1)
    hostile: float = setting(0.0, "a client lies", ge=0, le=1)
    hostile_kind: Lie = setting(
        "nonsense",
        "what a lying client sends: values that every check refuses; its update with the sign flipped, or flipped and "
        "ten times as long; a model that replaces all others'; 1e11 everywhere; or a flipped update that claims 1e9 "
        "samples",
    )
    liars: int | None = setting(
        None, "instead of a probability: this many clients, drawn by the seed, lie in every round", ge=1, le=MOST
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
        "labels with fewer samples for each vector that describes them are left out of what a client reports; 10 in "
        "deployments",
        ge=0,
        le=MOST_SAMPLES,
    )
    max_requests: int | None = setting(
        None,
        "deployed federations: different requests that a site answers in a round; by default determined by a rehearsal",
        ge=1,
        le=MOST,
    )
