"""A site of a deployed federation: its data, its secret, its state, and what it answers."""

from __future__ import annotations

import logging
import os
import re
import secrets
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from coterie.client import Client, DiskStore, LocalData
from coterie.data import Dataset, Normaliser
from coterie.data.dividing import held_out
from coterie.engine.flower.answering import FAILED, Card, answered
from coterie.errors import CoterieError
from coterie.messages import ClientId, ModelSpec, Params, Request
from coterie.streams import stream
from coterie.training import Job, Outcome, Trainer
from coterie.training.job import Floats

FEDERATION = re.compile(r"[0-9a-f]{16}")


@dataclass(frozen=True)
class DeployedSite:
    """Answers in the name of one site; what it needs is read when it is asked."""

    name: str
    state: Path
    spec: ModelSpec
    data: Callable[[], LocalData]
    trainer: Callable[[], Trainer]

    def card(self) -> Card:
        """Introduce yourself: a name, the secret that only this site has, and the number of training samples.

        Why data can't be used is said in the log of the site only: a text may quote them.
        """
        try:
            samples, problem = len(self.data().train), ""
        except CoterieError as error:
            logging.getLogger("coterie").error("%s", error)
            samples, problem = 0, "its data can't be used: its log, or 'coterie deploy check' there, says why"
        return {"name": self.name, "secret": self.secret(), "samples": samples, "problem": problem}

    def answer(self, client: ClientId, federation: str, blob: bytes) -> bytes:
        """Answer a request; what goes wrong is told by its kind only, since its text may quote data."""
        if not FEDERATION.fullmatch(federation):
            raise ValueError("a federation without a proper name")
        store = DiskStore(self.state / federation)
        member = Client(client, self.data(), store, _Late(self.trainer))
        return answered(member, blob, lambda error: (FAILED, type(error).__name__), self._objection)

    def secret(self) -> str:
        """Return what proves that this site is the one that came first by its name; made up at first use."""
        self.state.mkdir(parents=True, exist_ok=True)
        file = self.state / "secret"
        if not file.exists():
            new = self.state / f"secret.{os.getpid()}"
            descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            with os.fdopen(descriptor, "w") as content:
                content.write(secrets.token_hex(16))
            try:
                os.link(new, file)  # one of two that try at once is the first
            except FileExistsError:
                pass
            finally:
                new.unlink()
        return file.read_text(encoding="ascii").strip()

    def _objection(self, request: Request) -> str | None:
        """Say why a request is not one of the federation that this site has joined."""
        ours = (self.spec.shape, self.spec.classes)
        return None if (request.spec.shape, request.spec.classes) == ours else "it is about other data"


class _Late:
    """A trainer that is made when it is needed: a site starts a process per message, and PyTorch takes a while."""

    name = "late"

    def __init__(self, make: Callable[[], Trainer]) -> None:
        self._make = make

    @cached_property
    def _inner(self) -> Trainer:
        from coterie.training.torch_trainer import one_thread

        one_thread().__enter__()  # for good: the process ends with the answer
        return self._make()

    def train(self, job: Job) -> Outcome:
        """Execute a job."""
        return self._inner.train(job)

    def logits(self, spec: ModelSpec, params: Params, x: Floats) -> Floats:
        """Return the outputs of a network."""
        return self._inner.logits(spec, params, x)


def local_data(dataset: Dataset, normalise: Normaliser, test_share: float, name: str) -> LocalData:
    """Return all samples of a data set as those of one client; without a test part, a share of them is it."""
    train = np.arange(len(dataset.train))
    if dataset.test is not None:
        test = dataset.test
        return LocalData(
            dataset.train.x, dataset.train.y, train, test.x, test.y, np.arange(len(test)), dataset.classes, normalise
        )
    kept, held = held_out(train, test_share, stream(zlib.crc32(name.encode()), "test part"))
    x, y = dataset.train.x, dataset.train.y
    return LocalData(x, y, kept, x, y, held, dataset.classes, normalise)
