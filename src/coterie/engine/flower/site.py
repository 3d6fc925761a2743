"""A site of a deployed federation: its data, its secret, its state, and what it answers."""

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
from coterie.engine.flower.app import FAILED, Introduction, answer_bytes
from coterie.errors import CoterieError
from coterie.messages import ClientId, ModelSpec, Params, Request
from coterie.streams import stream
from coterie.training import Job, Outcome, Trainer, one_thread
from coterie.training.job import Floats

FEDERATION = re.compile(r"[0-9a-f]{16}")
SECRET = re.compile(r"[0-9a-f]{32}")


def error_type_only(error: Exception) -> tuple[str, str]:
    """Describe an error by its type only, since its text may quote data."""
    return FAILED, type(error).__name__


def _checked(federation: str) -> str:
    if not FEDERATION.fullmatch(federation):
        raise ValueError("a federation without a proper name")
    return federation


@dataclass(frozen=True)
class DeployedSite:
    """Answers for one site; data and trainer are loaded when a request needs them."""

    name: str
    state: Path
    spec: ModelSpec
    data: Callable[[], LocalData]
    trainer: Callable[[], Trainer]

    def introduce(self, federation: str) -> Introduction:
        """Introduce yourself: a name, a proof that only this site can give this federation, numbers of samples.

        Why data can't be used stands in the log of the site only: an error's text may quote them.
        """
        try:
            data, error_text = self.data(), ""
            samples, tests = len(data.train), len(data.test)
        except Exception as error:
            logging.getLogger("coterie").error("%s", error, exc_info=not isinstance(error, CoterieError))
            samples, tests, error_text = (
                0,
                0,
                "its data can't be used: its log, or 'coterie deploy check' there, says why",
            )
        counts = {"samples": samples, "tests": tests}
        return {"name": self.name, "proof": self.proof(federation), **counts, "problem": error_text}

    def answer(self, client: ClientId, federation: str, blob: bytes) -> bytes:
        """Answer a request."""
        store = DiskStore(self.state / _checked(federation), durable=True)
        return answer_bytes(
            Client(client, {0: self.data()}, store, _LazyTrainer(self.trainer)), blob, self._error_in_request
        )

    def proof(self, federation: str) -> str:
        """Return what proves to one federation that this site is the one that first came by its name.

        It is of no use to other federations, and the secret itself never leaves.
        """
        content, secret = _checked(federation).encode(), self.secret().encode()
        return hashlib.blake2b(content, key=secret, digest_size=16).hexdigest()

    def secret(self) -> str:
        """Return what only this site knows; it is made up at first use."""
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
                os.link(new, file)  # of two processes that try at once, one wins
            except FileExistsError:
                pass
            except OSError:  # a file system without hard links
                os.replace(new, file)
            finally:
                new.unlink(missing_ok=True)
        secret = file.read_text(encoding="ascii", errors="replace").strip()
        if not SECRET.fullmatch(secret):
            raise CoterieError(f"'{file}' is damaged: put back a copy, or remove it and give the site another name")
        return secret

    def _error_in_request(self, request: Request) -> str | None:
        """Say why a request can't come from the federation that this site has joined."""
        ours = (self.spec.shape, self.spec.classes)
        return None if (request.spec.shape, request.spec.classes) == ours else "it is about other data"


class _LazyTrainer:
    """A trainer that is made when first used: Flower starts a process per message, and PyTorch takes a while."""

    name = "lazy"

    def __init__(self, make: Callable[[], Trainer]) -> None:
        self._make = make

    @cached_property
    def _inner(self) -> Trainer:
        one_thread().__enter__()  # for good: the process ends with the answer
        return self._make()

    def train(self, job: Job) -> Outcome:
        """Execute a job."""
        return self._inner.train(job)

    def logits(self, spec: ModelSpec, params: Params, x: Floats) -> Floats:
        """Return the outputs of a network."""
        return self._inner.logits(spec, params, x)


def local_data(dataset: Dataset, normalise: Normaliser, test_share: float, name: str) -> LocalData:
    """Return a data set as that of one client; without a test part, a share of the samples is held out as one."""
    train, test = dataset.train, dataset.train if dataset.test is None else dataset.test
    kept, tested = np.arange(len(train)), np.arange(len(test))
    if dataset.test is None:
        kept, tested = held_out(kept, test_share, stream(zlib.crc32(name.encode()), "test part"))
    return LocalData(train.x, train.y, kept, test.x, test.y, tested, dataset.classes, normalise)
