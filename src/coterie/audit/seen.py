"""What the server of a run could see: signatures as they were sent, models that clients receive and send."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from coterie.client import MemoryStore, states_in
from coterie.data import FederatedData
from coterie.engine.embedded import SimulatedClients
from coterie.federation.engine import Engine, EngineWrapper
from coterie.messages import Array, ClientId, Failure, Params, Reply, Request, Signature, SignatureReply, TrainReply
from coterie.models.learning import frozen_part
from coterie.privacy import bounded_rows, public_map
from coterie.run.building import session
from coterie.run.checkpoints import damage_named
from coterie.run.trained_models import TrainedRun
from coterie.similarity import projection
from coterie.training import Trainer

Floats = npt.NDArray[np.float64]


def in_space(verb: Signature, x: Array, data: FederatedData, seed: int) -> Floats:
    """Return samples in the space in which signatures are, (samples, features): raw, sketched, or by the public map."""
    if verb.private is not None and verb.features is not None:
        return bounded_rows(public_map(x, verb.features, seed), exactly=True)
    samples = data.normalise(x) if verb.normalised else x
    flat = samples.reshape(len(samples), -1).astype(np.float64)
    return flat @ projection(flat.shape[1], verb.sketch, seed) if verb.sketch else flat


def unprotected_signatures(
    run: TrainedRun, data: FederatedData, verb: Signature, clients: Sequence[ClientId], trainer: Trainer
) -> tuple[Signature, dict[ClientId, SignatureReply]]:
    """Return the question without noise, and what clients would answer who hold nothing back."""
    plain = replace(verb, private=None, features=None, halves=0)
    everyone = SimulatedClients(data, MemoryStore(), trainer)
    answers = {
        client: everyone[client].answer(Request(0, run.config.run.seed, run.spec, (plain,))) for client in clients
    }
    return plain, {c: reply.answer(SignatureReply) for c, reply in answers.items() if isinstance(reply, Reply)}


def received_models(run: TrainedRun, clients: Sequence[ClientId]) -> list[tuple[Params, list[ClientId]]]:
    """Return the models that the server has, each with those of the clients that would receive it."""
    found: dict[int, tuple[Params, list[ClientId]]] = {}
    for client in clients:
        model = run.received(client)
        if model is not None:
            found.setdefault(id(model), (model, []))[1].append(client)
    return [*found.values()]


def sent_models(run: TrainedRun, data: FederatedData, clients: Sequence[ClientId]) -> dict[ClientId, Params]:
    """Return what clients would send if they were asked for one more round, where that is a whole model.

    The round is played in memory: nothing in the run folder changes. What the server adds to sums is no matter here.
    """
    wanted = run.config.privacy.private_training
    kept = run.config.privacy.dp_training if wanted is not None and wanted.local else None  # which clients add
    config = run.config.changed(engine={"name": "embedded", "batch_clients": 1}, privacy={"dp_training": kept})
    store, states = MemoryStore(), states_in(run.folder.clients)
    for client in clients:
        if (stamp := run.journal.states.get(client)) is not None:
            states.go_on_from({client: stamp})
            store.save(client, stamp[0], states.load(client, before=stamp[0] + 1))
    with session(config, data, store) as playing:
        with damage_named(run.folder.checkpoint):
            playing.algorithm.load(run.state["algorithm"])
            playing.fed.load(run.state["federation"])
        listening = playing.fed.wrap_engine(_Listening)
        playing.fed.start_round(run.round + 1)
        playing.algorithm.round(playing.fed, [client for client in clients if client in {*playing.fed.trainable}])
    frozen = frozen_part(run.spec, config.run.seed)
    models = {client: {**frozen, **params} for client, params in listening.trained.items()}
    return {client: model for client, model in sorted(models.items()) if model.keys() == run.shapes.keys()}


class _Listening(EngineWrapper):
    """Keeps the first model that each client sends."""

    def __init__(self, inner: Engine) -> None:
        super().__init__(inner)
        self.trained: dict[ClientId, Params] = {}

    def exchange(self, requests: Mapping[ClientId, Request], deadline: float | None) -> Iterator[Reply | Failure]:
        """Pass on what clients answer."""
        for answer in self.inner.exchange(requests, deadline):
            sent = [a.params for a in answer.answers if isinstance(a, TrainReply)] if isinstance(answer, Reply) else []
            if sent and sent[0]:
                self.trained.setdefault(answer.client, sent[0])
            yield answer
