"""Sections of the configuration about trust: robust aggregation, what clients hold back, and simulated faults."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, get_args

from pydantic import field_validator, model_validator

from coterie.engine.faults import Lie
from coterie.federation.aggregation import AggregationOptions, AggregationRule, Mixing
from coterie.federation.secure_options import SecureOptions
from coterie.messages import VERBS, Guarantee, Weighing
from coterie.messages.limits import MOST_SAMPLES
from coterie.messages.masking import LEAST
from coterie.privacy.accounting import Filter
from coterie.privacy.gaussian import check_guarantee
from coterie.privacy.ledger import PrivacyLimit
from coterie.run.config_base import MOST, ConfigSection, setting
from coterie.run.values import parse_options

DELTA = 1e-5
"""Where none is given."""
MIN_GROUP = 10
"""Clients of a group that is trained privately, at least; where none is given."""
QUANTILE, FIRST_CLIP = 0.5, 0.1
"""Of the updates' lengths, which an adaptive clip follows, and where it begins (Andrew et al., 2021)."""


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
    secure_hidden: bool = setting(
        False, "secure: where clients choose among models (ifca), nobody learns who chose which; K times the bytes up"
    )

    def options(self) -> AggregationOptions:
        """Return the options as the federation sees them."""
        return AggregationOptions(**self.model_dump(exclude={"secure", "secure_min", "secure_clip", "secure_hidden"}))

    def secure_options(self, weighing: Weighing | None, private_clip: float | None) -> SecureOptions | None:
        """Return what is asked of secure sums, where there are some; `weighing` is how the method's clients count.

        In private training they count alike, and cut their updates to its clip.
        """
        if not self.secure or weighing is None:
            return None
        if private_clip is not None:
            return SecureOptions(self.secure_min, private_clip, "equal")
        return SecureOptions(self.secure_min, self.secure_clip, weighing, self.secure_hidden)


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

    @field_validator("limit", mode="before")
    @classmethod
    def _most(cls, value: Any) -> str | None:
        """Check and complete ``epsilon=3,delta=1e-5``."""
        return None if value is None else _text(limit_of(value))

    @field_validator("dp_signature", mode="before", check_fields=False)
    @classmethod
    def _guarantee(cls, value: Any) -> str | None:
        """Check and complete ``epsilon=1,delta=1e-5``."""
        return None if value is None else _text(vars(guarantee_of(value)))

    @model_validator(mode="after")
    def _limited(self) -> ReleaseSection:
        if self.unprotected and self.limit is None:
            raise ValueError("unprotected names what is answered in spite of a limit, and there is none: set limit")
        return self

    @property
    def most(self) -> PrivacyLimit | None:
        """The limit, as clients keep it."""
        return None if self.limit is None else PrivacyLimit(**{"by": self.usual_filter, **limit_of(self.limit)})

    @property
    def full_limit(self) -> str | None:
        """The limit as it is written, with how releases are added up."""
        return None if self.most is None else _text(vars(self.most))

    @property
    def usual_filter(self) -> Filter:
        """How releases are added up unless the limit says so."""
        return "gaussian"


def _text(options: Mapping[str, Any]) -> str:
    """Return options as one setting."""
    return ",".join(f"{key}={value}" for key, value in options.items())


def limit_of(value: Any) -> dict[str, Any]:
    """Read ``epsilon=3,delta=1e-5``, and perhaps ``by=renyi``.

    >>> limit_of("epsilon=3,by=renyi")
    {'epsilon': 3.0, 'delta': 1e-05, 'by': 'renyi'}
    """
    options = _options(value, "it should read epsilon=1,delta=1e-5, and perhaps by=renyi")
    by = {"by": options.pop("by")} if "by" in options else {}
    if by and by["by"] not in get_args(Filter):
        raise ValueError(f"releases are added up by gaussian or by renyi, not by '{by['by']}'")
    return {**vars(guarantee_of(options)), **by}


def _options(value: Any, wanted: str) -> dict[str, Any]:
    """Read options by name."""
    try:
        return dict(parse_options(value) if isinstance(value, str) else value)
    except (TypeError, ValueError):
        raise ValueError(wanted) from None


def guarantee_of(value: Any) -> Guarantee:
    """Read ``epsilon=1,delta=1e-5``; δ is 1e-5 unless given.

    >>> guarantee_of("epsilon=2")
    Guarantee(epsilon=2.0, delta=1e-05)
    """
    wanted = "it should read epsilon=1,delta=1e-5"
    options = _options(value, wanted)
    if not {"epsilon"} <= options.keys() <= {"epsilon", "delta"}:
        raise ValueError(wanted)
    try:
        epsilon, delta = float(options["epsilon"]), float(options.get("delta", DELTA))
        check_guarantee(epsilon, delta)
    except (TypeError, ValueError):
        raise ValueError("epsilon should be a number greater than 0, delta one between 0 and 1") from None
    return Guarantee(epsilon, delta)


@dataclass(frozen=True)
class PrivateTrainingOptions:
    """What the user asks of private training (``dp_training``)."""

    epsilon: float
    delta: float
    clip: float
    """S, the longest update; the first one, where it follows a quantile."""
    quantile: float | None = None
    """Which quantile of the updates' lengths the clip follows; None: it stays."""
    min_group: int = MIN_GROUP
    local: bool = False
    """Whether clients add the noise, each to its own update."""
    rounds: int | None = None
    """For how many the noise is made; None: as many as the run has."""

    @classmethod
    def read(cls, value: Any) -> PrivateTrainingOptions:
        """Read ``epsilon=8,delta=1e-4,clip=1``, or ``clip=adaptive``; the rest has defaults.

        >>> PrivateTrainingOptions.read("epsilon=8,delta=1e-4,clip=2").text()
        'epsilon=8.0,delta=0.0001,clip=2.0,min_group=10'
        >>> PrivateTrainingOptions.read("epsilon=8,delta=1e-4,clip=adaptive").text()
        'epsilon=8.0,delta=0.0001,clip=adaptive,quantile=0.5,first_clip=0.1,min_group=10'
        """
        wanted = (
            "it should read epsilon=8,delta=1e-4,clip=1, or clip=adaptive and perhaps quantile=0.5,first_clip=0.1; and "
            "perhaps min_group=10,rounds=200,noise=local"
        )
        options = _options(value, wanted)
        adaptive, local = options.get("clip") == "adaptive", options.pop("noise", "sum")
        known = {"epsilon", "delta", "clip", "min_group", "rounds", *(["quantile", "first_clip"] if adaptive else [])}
        if not {"epsilon", "delta", "clip"} <= options.keys() <= known or local not in ("sum", "local"):
            raise ValueError(wanted)
        try:
            clip = float(options.get("first_clip", FIRST_CLIP) if adaptive else options["clip"])
            quantile = float(options.get("quantile", QUANTILE)) if adaptive else None
            least = int(options.get("min_group", MIN_GROUP))
            rounds = int(options["rounds"]) if "rounds" in options else None
        except (TypeError, ValueError):
            raise ValueError(wanted) from None
        whole = least >= 1 and (rounds is None or rounds >= 1)
        if not (0 < clip < math.inf and whole and (quantile is None or 0 < quantile < 1)):
            raise ValueError(
                "clip should be a number greater than 0, as first_clip, quantile one between 0 and 1, min_group and "
                "rounds whole ones from 1 on"
            )
        given = guarantee_of({key: options[key] for key in ("epsilon", "delta")})
        return cls(given.epsilon, given.delta, clip, quantile, least, local == "local", rounds)

    def text(self) -> str:
        """Return it as it is written, in full."""
        adaptive = {"clip": "adaptive", "quantile": self.quantile, "first_clip": self.clip}
        shown = {
            **{"epsilon": self.epsilon, "delta": self.delta},
            **({"clip": self.clip} if self.quantile is None else adaptive),
            **{"min_group": self.min_group},
            **({} if self.rounds is None else {"rounds": self.rounds}),
            **({"noise": "local"} if self.local else {}),
        }
        return _text(shown)


@dataclass(frozen=True)
class PrivateStepOptions:
    """What the user asks of private steps (``dp_sgd``)."""

    epsilon: float
    delta: float = DELTA
    clip: float = 1.0
    """C, the longest gradient of a sample."""
    rate: float = 0.1
    """q, the probability by which a sample is in a step."""
    steps: int | None = None
    """Of a training; None: epochs / rate, rounded up."""
    trainings: int | None = None
    """Of a client in the whole run, at most; None: one in each round."""
    shuffled: bool = False
    """Whether a sample is in one of 1/rate steps, instead of in each by a coin."""

    @classmethod
    def read(cls, value: Any) -> PrivateStepOptions:
        """Read ``epsilon=8,delta=1e-5,clip=1,rate=0.1``; all but ε has a default.

        >>> PrivateStepOptions.read("epsilon=8,trainings=20").text()
        'epsilon=8.0,delta=1e-05,clip=1.0,rate=0.1,trainings=20'
        """
        wanted = "it should read epsilon=8,delta=1e-5, and perhaps clip=1,rate=0.1,steps=50,trainings=20,shuffled=true"
        options = _options(value, wanted)
        if not {"epsilon"} <= options.keys() <= {field.name for field in fields(cls)}:
            raise ValueError(wanted)
        given = guarantee_of({key: options.pop(key) for key in ("epsilon", "delta") if key in options})
        made = cls(**{**vars(given), **options})
        numbers = all(type(number) in (int, float) for number in (made.clip, made.rate))
        if not (numbers and 0 < made.clip < math.inf and 0 < made.rate <= 1):
            raise ValueError("clip should be a number greater than 0, rate one of more than 0 and at most 1")
        if any(count is not None and (type(count) is not int or count < 1) for count in (made.steps, made.trainings)):
            raise ValueError("steps and trainings should be whole numbers from 1 on")
        if type(made.shuffled) is not bool:
            raise ValueError("shuffled should be true or false")
        return replace(made, clip=float(made.clip), rate=float(made.rate))

    def text(self) -> str:
        """Return it as it is written, in full."""
        return _text({key: str(value).lower() for key, value in vars(self).items() if value not in (None, False)})


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
        "the length clip, count alike, and their sum in each group has noise; min_group is the smallest group; "
        "clip=adaptive follows the quantile (0.5) of the updates' lengths; rounds is for how many the noise is made, "
        "by default those of the run; noise=local: each client adds it itself",
    )

    dp_sgd: str | None = setting(
        None,
        "clients train by private steps (DP-SGD), for instance epsilon=8,delta=1e-5, for one sample as the unit: "
        "gradients of samples are cut to the length clip (1), noise is added, and a sample is in a step with "
        "probability rate (0.1); a training has steps (epochs / rate), a client at most trainings (rounds); shuffled: "
        "a sample is in one step of each shuffled epoch",
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

    @property
    def hides_samples(self) -> bool:
        """Whether clients tell no number of training samples, as all that they train is noised before it is sent."""
        wanted = self.private_training
        return self.dp_sgd is not None or (wanted is not None and wanted.local)

    @property
    def private_steps(self) -> PrivateStepOptions | None:
        """How clients train, if privately."""
        return None if self.dp_sgd is None else PrivateStepOptions.read(self.dp_sgd)

    @property
    def private_training(self) -> PrivateTrainingOptions | None:
        """How models are made private, if they are."""
        return None if self.dp_training is None else PrivateTrainingOptions.read(self.dp_training)

    @property
    def usual_filter(self) -> Filter:
        """Where samples are drawn by coins, what they cost is added up by Rényi divergence."""
        steps = self.private_steps
        return "gaussian" if steps is None or steps.shuffled or steps.rate == 1 else "renyi"

    @field_validator("dp_sgd", mode="before")
    @classmethod
    def _private_steps(cls, value: Any) -> str | None:
        """Check and complete ``epsilon=8,delta=1e-5``."""
        return None if value is None else PrivateStepOptions.read(value).text()

    @field_validator("dp_training", mode="before")
    @classmethod
    def _private_training(cls, value: Any) -> str | None:
        """Check and complete ``epsilon=8,delta=1e-4,clip=1``."""
        return None if value is None else PrivateTrainingOptions.read(value).text()
