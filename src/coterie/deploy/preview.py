"""What a site should know before it joins: whether its data fit, and what would leave it."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np

from coterie.client import LocalData, MemoryStore
from coterie.data import FederatedData, Samples
from coterie.deploy.samples import site_data
from coterie.deploy.terms import SITE, Terms, check_terms, read_site, read_terms
from coterie.errors import CoterieError
from coterie.federation.loop import rounds
from coterie.messages import Reply, Request, wire
from coterie.run.building import session
from coterie.testing import RecordingEngine
from coterie.training import choose_trainer
from coterie.training.rehearsal import RehearsalTrainer

MOST_FOUNDERS = 20
"""Sites that a rehearsal begins with."""
FEW = 50
"""Samples of sites that only make up the number, and of the server."""


@dataclass(frozen=True)
class OutgoingAnswer:
    """One kind of answer that leaves a site."""

    kind: str
    """The heading under which its bytes are counted."""
    asked: tuple[str, ...]
    """What the request asks for."""
    arrays: dict[str, str]
    """Arrays, with their shapes and types."""
    numbers: tuple[str, ...]
    bytes: int

    def lines(self) -> Iterator[str]:
        """Describe it."""
        yield f"{self.kind}: asked to {', '.join(self.asked)}; {self.bytes:,} bytes leave"
        for name, what in self.arrays.items():
            yield f"  array {name}: {what}"
        if self.numbers:
            yield f"  numbers: {', '.join(self.numbers)}"


def check(folder: Path, site_file: Path | None = None) -> list[str]:
    """Say in lines whether a site's data fit a federation, and what would leave it."""
    terms = read_terms(folder)
    check_terms(terms)
    site = read_site(site_file or folder / SITE)
    local = site_data(site, terms)
    choose_trainer(site.trainer, terms.spec)
    counts = map(str, np.bincount(local.y[local.train], minlength=terms.samples.classes).tolist())
    names = terms.samples.class_names
    labels = counts if names is None else map(" ".join, zip(names, counts, strict=True))
    lines = [
        f"'{site.name}' fits '{terms.server.name}': {len(local.train):,} samples to train on, "
        f"{len(local.test):,} to test on, {terms.samples.dtype} of {' x '.join(map(str, terms.samples.shape))}",
        f"samples per class: {', '.join(labels)}",
        f"state is kept in {site.state}",
        "what would leave this site, by kind of request:",
    ]
    if not len(local.train):
        raise CoterieError(f"'{site.name}' has no samples to train on")
    leaving = [
        "introduction: the site's name, a proof that the name is its own, the numbers of training and test samples"
    ]
    leaving += [line for answer in outgoing_answers(terms, local) for line in answer.lines()]
    return [*lines, *(f"  {line}" for line in leaving)]


def outgoing_answers(terms: Terms, local: LocalData) -> list[OutgoingAnswer]:
    """Rehearse two rounds with a trainer that does no work; return what a site's answers hold.

    The first site is this one, and so is the last, which comes late, to show what newcomers send. Those in between only
    make the federation as large as it will be: how many models a site compares may depend on it.
    """
    founders = min(terms.server.min_clients, MOST_FOUNDERS)
    config = terms.config.changed(
        newcomers={"share": 1 / (founders + 1), "draw": "last", "join_at": 1},
        training={"rounds": 2, "fraction": 1.0},
        engine={"name": "embedded", "deadline": None, "min_replies": 1},
        evaluation={"every": 1},
    )
    train, few = Samples(local.x, local.y), local.train[:FEW]
    data = FederatedData(
        terms.server.name,
        terms.samples.classes,
        train,
        Samples(local.test_x, local.test_y),
        [local.train, *[few] * (founders - 1), local.train],
        [local.test, *[local.test[:FEW]] * (founders - 1), local.test],
        False,
        train[few],  # in place of the server's samples, which are not here
        terms.samples.normalisation,
    )
    answers: dict[tuple[Any, ...], OutgoingAnswer] = {}

    def note(reply: Reply, request: Request) -> Reply:
        if reply.client in (0, founders):
            answer = _outgoing(reply, request)
            earlier = answers.get((answer.kind, answer.asked), answer)
            answers[answer.kind, answer.asked] = replace(answer, bytes=max(answer.bytes, earlier.bytes))
        return reply

    with session(config, data, MemoryStore(), RehearsalTrainer()) as run:
        run.fed.wrap_engine(lambda engine: RecordingEngine(engine, note))
        for _ in rounds(run.fed, run.algorithm, run.evaluator, every=1):
            pass
        run.evaluator.fine_tune()
    return list(answers.values())


def _outgoing(reply: Reply, request: Request) -> OutgoingAnswer:
    arrays: dict[str, str] = {}
    numbers: list[str] = []
    for content in reply.answers:
        for field in fields(content):
            _note_value(field.name, getattr(content, field.name), arrays, numbers)
    asked = tuple(type(verb).__name__.lower() for verb in request.verbs)
    return OutgoingAnswer(request.kind, asked, arrays, tuple(dict.fromkeys(numbers)), wire.size(reply))


def _note_value(name: str, value: Any, arrays: dict[str, str], numbers: list[str]) -> None:
    if isinstance(value, np.ndarray):
        arrays[name] = f"{value.dtype} {' x '.join(map(str, value.shape))}"
    elif isinstance(value, Mapping):
        for key, item in value.items():
            _note_value(f"{name} {key}", item, arrays, numbers)
    elif value is not None:
        numbers.append(name)
