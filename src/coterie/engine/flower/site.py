"""A site of a deployed federation: its data, its secret, its state, and what it answers."""

from __future__ import annotations

import hashlib
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
from coterie.engine.flower.answering import FAILED, Introduction, answered
from coterie.errors import CoterieError
from coterie.messages import ClientId, ModelSpec, Params, Request
from coterie.streams import stream
from coterie.training import Job, Outcome, Trainer
from coterie.training.job import Floats

FEDERATION = re.compile(r"[0-9a-f]{16}")
SECRET = re.compile(r"[0-9a-f]{32}")


def kind_only(error: Exception) -> tuple[str, str]:
    """Tell of an error only what kind it is, since its text may quote data."""
    return FAILED, type(error).__name__


def _proper(federation: str) -> str:
    if not FEDERATION.fullmatch(federation):
        raise ValueError("a federation without a proper name")
    return federation


@dataclass(frozen=True)
class DeployedSite:
    """Answers in the name of one site; what it needs is read when it is asked."""

    name: str
    state: Path
    spec: ModelSpec
    data: Callable[[], LocalData]
    trainer: Callable[[], Trainer]

    def card(self, federation: str) -> Introduction:
        """Introduce yourself: a name, what only this site can say to this federation, and the number of samples.

        Why data can't be used is said in the log of the site only: a text may quote them.
        """
        try:
            samples, problem = len(self.data().train), ""
        except Exception as error:
            logging.getLogger("coterie").error("%s", error, exc_info=not isinstance(error, CoterieError))
            samples, problem = 0, "its data can't be used: its log, or 'coterie deploy check' there, says why"
        return {"name": self.name, "proof": self.proof(federation), "samples": samples, "problem": problem}

    def answer(self, client: ClientId, federation: str, blob: bytes) -> bytes:
        """Answer a request."""
        store = DiskStore(self.state / _proper(federation), durable=True)
        return answered(Client(client, self.data(), store, _Late(self.trainer)), blob, self._objection)

    def proof(self, federation: str) -> str:
        """Return what shows to one federation that this site is the one that came first by its name.

        It is of no use to others: the secret itself never leaves.
        """
        content, secret = _proper(federation).encode(), self.secret().encode()
        return hashlib.blake2b(content, key=secret, digest_size=16).hexdigest()

    def secret(self) -> str:
        """Return what only this site knows; made up at first use."""
        self.state.mkdir(parents=True, exist_ok=True)
        file = self.state / "secret"
        if not file.exists():
            new = self.state / f"secret.{os.getpid()}"
            descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            with os.fdopen(descriptor, "w") as content:
                content.write(secrets.token_hex(16))
                content.flush()
                os.fsync(content.fileno())
            try:
                os.link(new, file)  # one of two that try at once is the first
            except FileExistsError:
                pass
            except OSError:  # where files have one name only
                os.replace(new, file)
            finally:
                new.unlink(missing_ok=True)
        secret = file.read_text(encoding="ascii", errors="replace").strip()
        if not SECRET.fullmatch(secret):
            raise CoterieError(f"'{file}' is damaged: put back a copy, or remove it and give the site another name")
        return secret

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
