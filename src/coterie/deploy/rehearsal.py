"""A federation rehearsed in one process, without any training, to see what its server asks and what a site answers."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from coterie.client import MemoryStore, Policy
from coterie.client.policy import MORE
from coterie.data import FederatedData, Samples
from coterie.deploy.terms import SamplesSection, Terms
from coterie.errors import CoterieError
from coterie.federation.events import Events
from coterie.federation.loop import rounds
from coterie.messages import Agree, AgreeReply, ClientId, Reply, Request, Unmask, wire
from coterie.messages.verbs.agree import SIGNATURE_BYTES
from coterie.run.building import make_method, session
from coterie.streams import stream
from coterie.testing import RecordingEngine
from coterie.training.job import Index
from coterie.training.rehearsal import RehearsalTrainer

FOUNDERS = 20
"""Sites of the rehearsal from which a policy is made: how often a method asks may depend on how many there are."""
FEW = 50
"""Samples of sites that only make up the number, and of the server."""
ROUNDS = 3


def rehearse(
    terms: Terms,
    train: Samples,
    test: Samples,
    parts: Sequence[tuple[Index, Index]],
    note: Callable[[Reply, Request], Reply],
    privacy: Mapping[str, Any],
    *,
    drawn_tests: bool,
) -> Events:
    """Go through some rounds with a trainer that does no work; the last site comes late. Return what was held back.

    `privacy` are keys of ``[privacy]`` that are other than the federation's; `drawn_tests` says whether test samples
    were drawn from the same ones as training samples.
    """
    method = make_method(terms.config)
    config = terms.config.changed(
        algorithm=method.rehearsal_options,
        newcomers={"share": 1 / len(parts), "draw": "last", "join_at": 1},
        training={"rounds": ROUNDS, "fraction": 1.0},
        engine={"name": "embedded", "deadline": None, "min_replies": 1, "max_strikes": None},
        evaluation={"every": 1},
        privacy={**privacy, "dp_sgd": _fixed_noise(terms), "dp_training": _local_noise(terms)},
    )
    data = FederatedData(
        terms.server.name,
        terms.samples.classes,
        train,
        test,
        [part for part, _ in parts],
        [part for _, part in parts],
        False,
        train[parts[0][0][:FEW]],  # in place of the server's samples, which are not here
        terms.samples.normalisation,
        lends_tests=False,
        standardise=terms.samples.measured,
        drawn_tests=drawn_tests,
    )
    with session(config, data, MemoryStore(), RehearsalTrainer()) as run:
        run.fed.wrap_engine(lambda engine: RecordingEngine(engine, _with_agreement(note)))
        for _ in rounds(run.fed, run.algorithm, run.evaluator, every=1):
            run.evaluator.evaluate_by_label()  # at the end only in a real run, as the next,
            run.evaluator.fine_tune()  # but what they ask then may be as in any round
        for request in run.algorithm.seldom_asked(run.fed):
            run.fed.ask(dict.fromkeys(run.fed.trainable, request))
        return run.fed.events


def _with_agreement(note: Callable[[Reply, Request], Reply]) -> Callable[[Reply, Request], Reply]:
    """Note also what only clients with identities are asked, as sites are: to agree before they unmask a sum."""

    def noted(reply: Reply, request: Request) -> Reply:
        for verb in request.verbs:
            if isinstance(verb, Unmask):
                agreed = AgreeReply("00" * SIGNATURE_BYTES)
                note(replace(reply, answers=(agreed,)), replace(request, verbs=(Agree(verb.survivors),)))
        return note(reply, request)

    return noted


def _fixed_noise(terms: Terms) -> str | None:
    """Return how clients train privately, with the noise of a run of all rounds."""
    wanted = terms.config.privacy.private_steps
    if wanted is None:
        return None
    return replace(wanted, trainings=wanted.trainings or terms.config.training.rounds).text()


def _local_noise(terms: Terms) -> str | None:
    """Return how clients hide updates, with the noise of a run of all rounds; of the server's they see nothing."""
    wanted = terms.config.privacy.private_training
    if wanted is None or not wanted.local:
        return None
    return replace(wanted, rounds=wanted.rounds or terms.config.training.rounds, min_group=1).text()


def policy_of(terms: Terms) -> Policy:
    """Return what a site may be asked under the terms of a federation; it depends on nobody's data."""
    samples = _made_up(terms.samples, (FOUNDERS + 1) * FEW)
    parts = [(part, part) for part in np.split(np.arange(len(samples)), FOUNDERS + 1)]
    requests: dict[str, Request] = {}
    asked: dict[tuple[ClientId, int], set[str]] = {}

    def note(reply: Reply, request: Request) -> Reply:
        name = wire.digest(request)
        requests.setdefault(name, request)
        asked.setdefault((reply.client, request.round), set()).add(name)
        return reply

    rehearse(terms, samples, samples, parts, note, {"min_samples": 0, "min_label_samples": 0}, drawn_tests=True)
    limits = terms.config.privacy
    most = limits.max_requests or max(MORE * max(map(len, asked.values())), make_method(terms.config).most_requests)
    policy = Policy.of(
        requests.values(),
        terms.config.training.rounds,
        most,
        make_method(terms.config).unfixed,
        min_samples=limits.min_samples,
        min_label_samples=limits.min_label_samples,
    )
    if len(policy.holdouts) > 1:
        shares = " and ".join(f"{share:g}" for share in policy.holdouts)
        raise CoterieError(
            f"'{terms.config.algorithm.name}' holds out {shares} of the training samples, which differ by a few: let "
            "its options name one share"
        )
    return policy


def _made_up(wanted: SamplesSection, count: int) -> Samples:
    """Return samples of the agreed kind, of noise."""
    rng, size = stream(0, "rehearsal"), (count, *wanted.shape)
    x = rng.integers(0, 256, size, np.uint8) if wanted.dtype == "uint8" else rng.random(size, np.float32)
    return Samples(x, np.arange(count) % wanted.classes)
