"""What a site may be asked: fixed when it joins a federation, whatever its server asks later."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, is_dataclass
from typing import Any

from coterie.client.policy_fields import FIELDS, LONGER, STRONGER, Room, Verbatim, is_part, misfits
from coterie.messages import InputMoments, ModelSpec, Request, Verb
from coterie.messages.params import SENT_IF_SET

MORE = 2
"""How many times more requests a round may have than one of the rehearsal."""
HOLDOUTS = (
    *(("train", "holdout"), ("maskedtrain", "holdout")),
    *(("evaluate", "share"), ("losses", "share"), ("prune", "share")),
)
"""Where verbs name the share of training samples that is held out."""


@dataclass(frozen=True)
class Policy:
    """The questions that a federation asks, whole as they are, and how often; all in plain data."""

    networks: tuple[dict[str, Any], ...]
    seed: int
    rounds: int
    questions: tuple[dict[str, Any], ...]
    """All that a request may be: its ``network`` by position, whether it only ``measures``, and its ``verbs``."""
    requests: int
    """How many different requests a site answers in a round."""
    min_samples: int = 0
    min_label_samples: int = 0
    unfixed: tuple[str, ...] = ()
    """Fields that depend on what sites have or who answers, so that no rehearsal could show them."""

    @classmethod
    def of(
        cls, asked: Iterable[Request], rounds: int, requests: int, unfixed: Sequence[str] = (), **limits: int
    ) -> Policy:
        """Return the policy under which these requests of a rehearsal are answered; `requests` may be in a round."""
        different: dict[str, Request] = {}
        for request in asked:
            different.setdefault(_key([_network(request.spec), request.seed, *_question(request, 0).values()]), request)
        networks = sorted(
            {_key(_network(request.spec)): _network(request.spec) for request in different.values()}.items()
        )
        position = {key: number for number, (key, _) in enumerate(networks)}
        questions = [_question(request, position[_key(_network(request.spec))]) for request in different.values()]
        seeds = {request.seed for request in different.values()} or {0}
        specs, own = tuple(spec for _, spec in networks), tuple(unfixed)
        return cls(specs, max(seeds), rounds, _largest(questions), requests, unfixed=own, **limits)

    @classmethod
    def read(cls, content: Any) -> Policy:
        """Return the policy that `asdict` made plain; raise a TypeError or a KeyError for anything else."""
        lists = {name: tuple(content[name]) for name in ("networks", "questions", "unfixed")}
        policy = cls(**{**content, **lists})
        numbers = (policy.seed, policy.rounds, policy.requests, policy.min_samples, policy.min_label_samples)
        if not all(type(number) is int for number in numbers):
            raise TypeError("a number is not one")
        for question in policy.questions:
            if question.keys() != {"network", "measures", "verbs"} or type(question["verbs"]) is not list:
                raise TypeError("a question is not one")
            if not all(type(verb) is dict and type(verb.get("verb")) is str for verb in question["verbs"]):
                raise TypeError("a verb of a question is not one")
        return policy

    @property
    def digest(self) -> str:
        """A name that no other policy has."""
        return hashlib.blake2b(json.dumps(asdict(self), sort_keys=True).encode(), digest_size=8).hexdigest()

    def error_in(self, request: Request, samples: int) -> str | None:
        """Say why a request lies outside, or None; the site has so many training samples."""
        spec = _network(request.spec)
        if spec not in self.networks:
            return f"the network '{request.spec.name}' with these options is not one of this federation's"
        if request.seed != self.seed:
            return f"seed {request.seed}, where this federation has {self.seed}"
        if not 0 <= request.round <= self.rounds + 1:  # in the one more, clients join when training is over
            return f"round {request.round}, where this federation has 0 to {self.rounds + 1}"
        if error := self._error_in_standardisation(request):
            return error
        asked, room = _question(request, self.networks.index(spec)), self._room(samples)
        if any(_covers(question, asked, room) for question in self.questions):
            return None
        alike = [q for q in self.questions if all(q[key] == asked[key] for key in ("network", "measures"))]
        known = [verb for question in alike for verb in question["verbs"]]
        for verb in asked["verbs"]:
            if error := _error_in_verb(verb, known, room):
                return error
        names = ", ".join(verb["verb"] for verb in asked["verbs"])
        return f"{names or 'nothing'}: this is not asked for in one request of this federation"

    def _error_in_standardisation(self, request: Request) -> str | None:
        """Say why mean and std of a request can't be; which ones are agreed on, only the first request tells."""
        given, name = request.standardisation, InputMoments.__name__.lower()
        if not any(verb["verb"] == name for verb in self.verbs):
            return None if given is None else "mean and std of inputs are fixed in this federation: no others are used"
        if given is None:
            measured = all(isinstance(verb, InputMoments) for verb in request.verbs)
            return None if measured else "a request without mean and std of inputs, on which sites agree here"
        if any(isinstance(verb, InputMoments) for verb in request.verbs):
            return "mean and std of inputs are measured before they are agreed on, not after"
        return given.error_for(request.spec.shape[0])

    def _room(self, samples: int | None = None) -> Room:
        return Room(samples, LONGER, STRONGER, self.unfixed)

    @property
    def verbs(self) -> list[Verbatim]:
        """All verbs of all questions, each once."""
        return [*{_key(verb): verb for question in self.questions for verb in question["verbs"]}.values()]

    @property
    def holdouts(self) -> list[float]:
        """The shares of training samples that are held out."""
        return sorted({verb[field] for verb in self.verbs for name, field in HOLDOUTS
                       if verb["verb"] == name and verb.get(field)})  # fmt: skip

    def lines(self) -> Iterator[str]:
        """Describe it: the verbs, each with its settings, then which of them a request may have."""
        names = [_network_name(spec) for spec in self.networks]
        yield f"networks: {', '.join(names)}"
        yield (
            f"rounds: 0 to {self.rounds}, and {self.rounds + 1}, for all sites, if some join after training; "
            f"at most {self.requests} different requests in each; seed {self.seed}"
        )
        by_name: dict[str, list[Verbatim]] = {}
        for verb in sorted(self.verbs, key=_key):
            by_name.setdefault(verb["verb"], []).append(verb)
        called: dict[str, str] = {}
        for name, verbs in sorted(by_name.items()):
            for number, verb in enumerate(verbs, 1):
                called[_key(verb)] = name if len(verbs) == 1 else f"{name} {number}"
                told = [
                    _described(key, value, self._room())
                    for key, value in verb.items()
                    if key in self.unfixed or _is_told(key, value)
                ]
                yield f"{called[_key(verb)]}: {'; '.join(told) or 'as it is'}"
        yield "a request is one of these, or a part of one:"
        for question in self.questions:
            whose = f" (of {names[question['network']]})" if len(names) > 1 else ""
            scores = " (to measure)" if question["measures"] else ""
            yield f"  {', '.join(called[_key(verb)] for verb in question['verbs'])}{whose}{scores}"
        yield f"an answer stands on at least {self.min_samples} samples, a label on {self.min_label_samples} per vector"


def _question(request: Request, network: int) -> dict[str, Any]:
    """Return what a request asks for, in plain data; models, their round and what it is counted under are not in it."""
    verbs = [{"verb": type(verb).__name__.lower(), **_fields(verb)} for verb in request.verbs]
    return {"network": network, "measures": request.measures, "verbs": verbs}


def _fields(verb: Verb) -> dict[str, Any]:
    return {name: _plain(value) for name, value in sorted(verb.restricted().items())}


def _covers(question: Mapping[str, Any], asked: Mapping[str, Any], room: Room) -> bool:
    """Say whether a request asks for what this question does, or for less."""
    alike = all(question[key] == asked[key] for key in ("network", "measures"))
    return alike and bool(asked["verbs"]) and is_part(asked["verbs"], question["verbs"], room)


def _largest(questions: Sequence[dict[str, Any]]) -> tuple[dict[str, Any], ...]:
    """Leave out what another question covers as it is, without any room."""
    ordered, kept = sorted(questions, key=_key), list[dict[str, Any]]()
    for question in sorted(ordered, key=lambda it: -len(it["verbs"])):
        if not any(_covers(other, question, Room()) for other in kept):
            kept = [other for other in kept if not _covers(question, other, Room())] + [question]
    return tuple(sorted(kept, key=_key))


def _error_in_verb(asked: Verbatim, known: Sequence[Verbatim], room: Room) -> str | None:
    """Say by what a verb differs from the one nearest to it, or None."""
    name = asked["verb"]
    candidates = [(misfits(asked, seen, room), seen) for seen in known if seen["verb"] == name]
    if not candidates:
        return f"{name} is not asked for in this federation"
    wrong, seen = min(candidates, key=lambda candidate: len(candidate[0]))
    if not wrong:
        return None
    if len(wrong) == 1 and (field := FIELDS.get(wrong[0])) is not None and field.value is not repr:
        return f"{name}: {field.value(asked[wrong[0]])}, where this federation has {field.wanted(seen[wrong[0]], room)}"
    values = " with ".join(f"{key} = {json.dumps(asked.get(key))}" for key in wrong)
    return f"{name}: {values} is not asked for in this federation"


def _plain(value: Any) -> Any:
    """Return a value as JSON would give it back."""
    if is_dataclass(value):
        later = {field.name for field in fields(value) if field.metadata.items() >= SENT_IF_SET.items()}
        held = {field.name: getattr(value, field.name) for field in fields(value)}
        value = {name: item for name, item in held.items() if item is not None or name not in later}
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, list | tuple) else value


def _network(spec: ModelSpec) -> dict[str, Any]:
    """Return a network as policies have it, also those that sites hold since before networks had a start."""
    return {key: value for key, value in _plain(spec).items() if value is not None}


def _key(value: Any) -> str:
    return json.dumps(_plain(value), sort_keys=True)


def _network_name(spec: Mapping[str, Any]) -> str:
    loss = [f"for the loss {spec['loss']}"] if "loss" in spec else []
    return " ".join([spec["name"], *(f"{key}={value}" for key, value in spec["options"].items()), *loss])


def _is_told(name: str, value: Any) -> bool:
    if name in ("epochs", "steps"):
        return value is not None
    return name != "verb" and value not in (None, False, [], 0)


def _described(name: str, value: Any, room: Room) -> str:
    return FIELDS[name].wanted(value, room) if name in FIELDS else f"{name} {_shown(value)}"


def _shown(value: Any) -> str:
    if isinstance(value, dict):
        return "(" + ", ".join(f"{key} {_shown(item)}" for key, item in value.items()) + ")"
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        return " over ".join(reversed(value))
    return "none" if value in (None, []) else json.dumps(value)
