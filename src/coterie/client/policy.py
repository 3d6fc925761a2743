"""What a site may be asked: fixed when it joins a federation, whatever its server asks later."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, fields, is_dataclass
from typing import Any

from coterie.messages import Request, Train, Verb

LONGER = 10
"""How many times longer than in the rehearsal a training may be: how long it is may depend on others' samples."""
MORE = 2
"""How many times more requests a round may have than one of the rehearsal."""


@dataclass(frozen=True)
class Policy:
    """Which networks, verbs, plans and shares a federation uses, and how often it asks; all in plain data."""

    networks: tuple[dict[str, Any], ...]
    seed: int
    rounds: int
    verbs: dict[str, dict[str, list[Any]]]
    """By verb: what is fixed about it, and the values that occur."""
    epochs: int
    """The longest training."""
    requests: int
    """How many different requests a site answers in a round."""
    min_samples: int = 0
    min_label_samples: int = 0

    @classmethod
    def of(cls, requests: Iterable[Request], rounds: int, most: int, **limits: int) -> Policy:
        """Return the policy under which these requests of a rehearsal are answered; `most` of them are in a round."""
        networks: dict[str, dict[str, Any]] = {}
        verbs: dict[str, dict[str, list[Any]]] = {}
        seed, epochs = 0, 1
        for request in requests:
            seed = request.seed
            networks[_key(request.spec)] = _plain(request.spec)
            for verb in request.verbs:
                fixed = verbs.setdefault(_name(verb), {})
                for field, value in verb.restricted().items():
                    if _plain(value) not in (values := fixed.setdefault(field, [])):
                        values.append(_plain(value))
                if isinstance(verb, Train):
                    epochs = max(epochs, verb.plan.epochs)
        for fixed in verbs.values():
            for values in fixed.values():
                values.sort(key=_key)
        ordered = {name: dict(sorted(verbs[name].items())) for name in sorted(verbs)}
        specs = tuple(networks[key] for key in sorted(networks))
        return cls(specs, seed, rounds, ordered, LONGER * epochs, most, **limits)

    @classmethod
    def read(cls, content: Any) -> Policy:
        """Return the policy that `asdict` made plain; raise a TypeError or a KeyError for anything else."""
        policy = cls(**{**content, "networks": tuple(content["networks"])})
        numbers = (policy.seed, policy.rounds, policy.epochs, policy.requests, policy.min_samples)
        if not all(type(number) is int for number in (*numbers, policy.min_label_samples)):
            raise TypeError("a number is not one")
        if not all(type(values) is list for fixed in policy.verbs.values() for values in fixed.values()):
            raise TypeError("a list of values is not one")
        return policy

    @property
    def digest(self) -> str:
        """A name that no other policy has."""
        return hashlib.blake2b(json.dumps(asdict(self), sort_keys=True).encode(), digest_size=8).hexdigest()

    def error_in(self, request: Request) -> str | None:
        """Say why a request lies outside, or None."""
        if _plain(request.spec) not in self.networks:
            return f"the network '{request.spec.name}' with these options is not one of this federation's"
        if request.seed != self.seed:
            return f"seed {request.seed}, where this federation has {self.seed}"
        if not 0 <= request.round <= self.rounds:
            return f"round {request.round}, where this federation has {self.rounds}"
        return next((error for verb in request.verbs if (error := self._error_in_verb(verb))), None)

    def _error_in_verb(self, verb: Verb) -> str | None:
        name = _name(verb)
        if name not in self.verbs:
            return f"{name} is not asked for in this federation"
        for field, value in verb.restricted().items():
            if _plain(value) not in self.verbs[name].get(field, []):
                return f"{name}: {field} = {value!r} is not asked for in this federation"
        if isinstance(verb, Train) and not (1 <= verb.plan.epochs <= self.epochs):
            return f"{name}: {verb.plan.epochs} epochs, where this federation has 1 to {self.epochs}"
        return None

    @property
    def holdouts(self) -> list[float]:
        """The shares of training samples that are held out."""
        shares = [self.verbs.get(verb, {}).get(field, []) for verb, field in HOLDOUTS]
        return sorted({share for values in shares for share in values if share})

    def lines(self) -> Iterable[str]:
        """Describe it."""
        options = (" ".join(f"{key}={value}" for key, value in spec["options"].items()) for spec in self.networks)
        names = (f"{spec['name']} {text}".strip() for spec, text in zip(self.networks, options, strict=True))
        yield f"networks: {', '.join(names)}"
        yield f"rounds: 0 to {self.rounds}, with at most {self.requests} different requests in each; seed {self.seed}"
        for name, fixed in self.verbs.items():
            values = (f"{field} {_listed(values)}" for field, values in fixed.items() if _told(values))
            limit = f"; 1 to {self.epochs} epochs" if name == "train" else ""
            yield f"{name}: {'; '.join(values) or 'as it is'}{limit}"
        yield f"an answer stands on at least {self.min_samples} samples, a label on {self.min_label_samples} per vector"


HOLDOUTS = (("train", "holdout"), ("evaluate", "share"), ("losses", "share"), ("prune", "share"))


def _name(verb: Verb) -> str:
    return type(verb).__name__.lower()


def _plain(value: Any) -> Any:
    """Return a value as JSON would give it back."""
    if is_dataclass(value):
        value = {field.name: getattr(value, field.name) for field in fields(value)}
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, list | tuple) else value


def _key(value: Any) -> str:
    return json.dumps(_plain(value), sort_keys=True)


def _told(values: list[Any]) -> bool:
    return len(values) > 1 or values[0] not in (None, False, [], 0)


def _listed(values: list[Any]) -> str:
    return " or ".join(map(_shown, values))


def _shown(value: Any) -> str:
    if isinstance(value, dict):
        return "(" + ", ".join(f"{key} {_shown(item)}" for key, item in value.items()) + ")"
    return "none" if value in (None, []) else json.dumps(value)
