"""What a site may be asked: fixed when it joins a federation, whatever its server asks later."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, fields, is_dataclass
from typing import Any

from coterie.messages import Losses, Request, Train, Verb

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
    pull: float
    """The strongest sum of anchors: a stronger one would let a training forget all but its last samples."""
    most: dict[str, int]
    """By verb: how often it is in one request; ``models``: how many models one verb compares."""
    requests: int
    """How many different requests a site answers in a round."""
    min_samples: int = 0
    min_label_samples: int = 0

    @classmethod
    def of(cls, asked: Iterable[Request], rounds: int, requests: int, **limits: int) -> Policy:
        """Return the policy under which these requests of a rehearsal are answered; `requests` may be in a round."""
        networks: dict[str, dict[str, Any]] = {}
        verbs: dict[str, dict[str, list[Any]]] = {}
        seed, epochs, pull, most = 0, 1, 0.0, dict[str, int]()
        for request in asked:
            seed = request.seed
            for name, count in Counter(map(_name, request.verbs)).items():
                most[name] = max(most.get(name, 0), count)
            networks[_key(request.spec)] = _plain(request.spec)
            for verb in request.verbs:
                fixed = verbs.setdefault(_name(verb), {})
                for field, value in verb.restricted().items():
                    if _plain(value) not in (values := fixed.setdefault(field, [])):
                        values.append(_plain(value))
                if isinstance(verb, Train):
                    epochs, pull = max(epochs, verb.plan.epochs), max(pull, _pull(verb))
                if isinstance(verb, Losses):
                    most["models"] = max(most.get("models", 0), LONGER * len(verb.models))
        for fixed in verbs.values():
            for values in fixed.values():
                values.sort(key=_key)
        ordered = {name: dict(sorted(verbs[name].items())) for name in sorted(verbs)}
        specs = tuple(networks[key] for key in sorted(networks))
        counts = dict(sorted(most.items()))
        return cls(specs, seed, rounds, ordered, LONGER * epochs, MORE * pull, counts, requests, **limits)

    @classmethod
    def read(cls, content: Any) -> Policy:
        """Return the policy that `asdict` made plain; raise a TypeError or a KeyError for anything else."""
        policy = cls(**{**content, "networks": tuple(content["networks"])})
        numbers = (policy.seed, policy.rounds, policy.epochs, policy.requests, policy.min_samples)
        if not all(type(number) is int for number in (*numbers, policy.min_label_samples, *policy.most.values())):
            raise TypeError("a number is not one")
        if type(policy.pull) is not float or not policy.most.keys() >= policy.verbs.keys():
            raise TypeError("its limits are not those of its verbs")
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
        for name, count in Counter(map(_name, request.verbs)).items():
            if name in self.verbs and count > self.most[name]:
                return f"{count} times {name} in one request, where this federation has {self.most[name]}"
        return next((error for verb in request.verbs if (error := self._error_in_verb(verb))), None)

    def _error_in_verb(self, verb: Verb) -> str | None:
        name = _name(verb)
        if name not in self.verbs:
            return f"{name} is not asked for in this federation"
        for field, value in verb.restricted().items():
            if not _allowed(field, _plain(value), self.verbs[name].get(field, [])):
                return f"{name}: {field} = {value!r} is not asked for in this federation"
        if isinstance(verb, Train) and not (1 <= verb.plan.epochs <= self.epochs):
            return f"{name}: {verb.plan.epochs} epochs, where this federation has 1 to {self.epochs}"
        if isinstance(verb, Train) and not (0 <= _pull(verb) <= self.pull and min(_strengths(verb), default=0) >= 0):
            return f"{name}: anchors of strength {_pull(verb):g}, where this federation has up to {self.pull:g}"
        if isinstance(verb, Losses) and len(verb.models) > self.most["models"]:
            return f"{name}: {len(verb.models)} models, where this federation has up to {self.most['models']}"
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
            limit = f"; 1 to {self.epochs} epochs; anchors up to {self.pull:g}" if name == "train" else ""
            limit += f"; {self.most[name]} times in a request" if self.most[name] > 1 else ""
            yield f"{name}: {'; '.join(values) or 'as it is'}{limit}"
        yield f"an answer stands on at least {self.min_samples} samples, a label on {self.min_label_samples} per vector"


HOLDOUTS = (("train", "holdout"), ("evaluate", "share"), ("losses", "share"), ("prune", "share"))


def _allowed(field: str, value: Any, seen: list[Any]) -> bool:
    """Say whether a value occurred, or reveals less than one that did: a larger batch, a part of the parameters."""
    if field == "batch_size" and type(value) is int:
        return bool(seen) and value >= min(seen)
    return value in seen or (field == "send" and True in seen)


def _strengths(verb: Train) -> list[float]:
    return [anchor.strength for anchor in verb.plan.anchors]


def _pull(verb: Train) -> float:
    return sum(_strengths(verb), 0.0)


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
