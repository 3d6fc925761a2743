"""Sections of the configuration about trust: robust aggregation, what clients hold back, and simulated faults."""

from __future__ import annotations

import math
from typing import Any

from pydantic import field_validator, model_validator

from coterie.engine.faults import Lie
from coterie.federation.aggregation import AggregationOptions, AggregationRule, Mixing
from coterie.federation.secure_options import SecureOptions
from coterie.messages import VERBS, Guarantee, Weighing
from coterie.messages.limits import MOST_SAMPLES
from coterie.messages.masking import LEAST
from coterie.privacy.gaussian import check_guarantee
from coterie.privacy.ledger import PrivacyLimit
from coterie.run.config_base import MOST, ConfigSection, setting
from coterie.run.values import parse_options

DELTA = 1e-5
"""Where none is given."""
MIN_GROUP = 10
"""Clients of a group that is trained privately, at least; where none is given."""


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

    def secure_options(self, weighing: Weighing | None, private_clip: float | None) -> SecureOptions | None:
        """Return what is asked of secure sums, where there are some; `weighing` is how the method's clients count.

        In private training they count alike, and cut their updates to its clip.
        """
        if not self.secure or weighing is None:
            return None
        if private_clip is not None:
            return SecureOptions(self.secure_min, private_clip, "equal")
        return SecureOptions(self.secure_min, self.secure_clip, weighing)


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


class ReleaseSection(ConfigSection):
    """What a client tells at most under differential privacy: keys of ``[privacy]``, and of a site's own file."""

    limit: str | None = setting(
        None,
        "the most that a client ever tells of one of its samples, for instance epsilon=3,delta=1e-5: beyond it, and "
        "without noise, it does not answer",
        "--privacy-limit",
    )
    unprotected: list[str] = setting(
        [], "with a limit: verbs that are answered without noise nevertheless, for instance train and evaluate"
    )

    @field_validator("unprotected")
    @classmethod
    def _verbs(cls, names: list[str]) -> list[str]:
        known = [verb.__name__.lower() for verb in VERBS]
        names = [name.lower() for text in names for name in text.replace(",", " ").split()]
        if unknown := [name for name in names if name not in known]:
            raise ValueError(f"there is no verb '{unknown[0]}': use {', '.join(known)}")
        return names

    @field_validator("limit", "dp_signature", mode="before", check_fields=False)
    @classmethod
    def _guarantee(cls, value: Any) -> str | None:
        """Check and complete ``epsilon=1,delta=1e-5``."""
        if value is None:
            return None
        given = guarantee_of(value)
        return f"epsilon={given.epsilon!r},delta={given.delta!r}"

    @model_validator(mode="after")
    def _limited(self) -> ReleaseSection:
        if self.unprotected and self.limit is None:
            raise ValueError("unprotected names what is answered in spite of a limit, and there is none: set limit")
        return self

    @property
    def most(self) -> PrivacyLimit | None:
        """The limit, as clients keep it."""
        return None if self.limit is None else PrivacyLimit(**vars(guarantee_of(self.limit)))


def guarantee_of(value: Any) -> Guarantee:
    """Read ``epsilon=1,delta=1e-5``; δ is 1e-5 unless given.

    >>> guarantee_of("epsilon=2")
    Guarantee(epsilon=2.0, delta=1e-05)
    """
    wanted = "it should read epsilon=1,delta=1e-5"
    try:
        options = parse_options(value) if isinstance(value, str) else dict(value)
    except (TypeError, ValueError):
        raise ValueError(wanted) from None
    if not {"epsilon"} <= options.keys() <= {"epsilon", "delta"}:
        raise ValueError(wanted)
    try:
        epsilon, delta = float(options["epsilon"]), float(options.get("delta", DELTA))
        check_guarantee(epsilon, delta)
    except (TypeError, ValueError):
        raise ValueError("epsilon should be a number greater than 0, delta one between 0 and 1") from None
    return Guarantee(epsilon, delta)


def private_training_of(value: Any) -> dict[str, Any]:
    """Read ``epsilon=8,delta=1e-4,clip=1,min_group=10``: the guarantee, the longest update, the smallest group.

    >>> private_training_of("epsilon=8,delta=1e-4,clip=2")
    {'epsilon': 8.0, 'delta': 0.0001, 'clip': 2.0, 'min_group': 10}
    """
    wanted = "it should read epsilon=8,delta=1e-4,clip=1, and perhaps min_group=10"
    try:
        options = parse_options(value) if isinstance(value, str) else dict(value)
        clip, least = float(options.pop("clip")), int(options.pop("min_group", MIN_GROUP))
    except (TypeError, ValueError, KeyError):
        raise ValueError(wanted) from None
    if options.keys() != {"epsilon", "delta"}:
        raise ValueError(wanted)
    if not (0 < clip < math.inf and least >= 1):
        raise ValueError("clip should be a number greater than 0, min_group a whole one from 1 on")
    return {**vars(guarantee_of(options)), "clip": clip, "min_group": least}


class PrivacySection(ReleaseSection):
    """What clients hold back; nothing by default in simulations."""

    dp_signature: str | None = setting(
        None,
        "clients describe themselves under differential privacy, for instance epsilon=1,delta=1e-5, for one sample as "
        "the unit",
    )
    dp_training: str | None = setting(
        None,
        "models are private for one client as the unit, for instance epsilon=8,delta=1e-4,clip=1: updates are cut to "
        "the length clip, count alike, and their sum in each group has noise; min_group is the smallest group",
    )

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

    @property
    def signature(self) -> Guarantee | None:
        """By which clients describe themselves."""
        return None if self.dp_signature is None else guarantee_of(self.dp_signature)

    @field_validator("dp_training", mode="before")
    @classmethod
    def _private_training(cls, value: Any) -> str | None:
        """Check and complete ``epsilon=8,delta=1e-4,clip=1``."""
        options = {} if value is None else private_training_of(value)
        return ",".join(f"{key}={given!r}" for key, given in options.items()) or None
