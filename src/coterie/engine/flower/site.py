"""A site of a deployed federation: its data, its secret, its state, and what it answers."""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from coterie.client import Client, DiskStore, LocalData, Peers, Policy, PrivacyTerms, Protection
from coterie.client.protection import Withheld
from coterie.data import Dataset, Normaliser
from coterie.data.dividing import held_out
from coterie.engine.flower.app import FAILED, Introduction, answer_request, log_error
from coterie.engine.flower.identity import (
    FEDERATION,
    check_nonce,
    derived,
    fingerprint,
    identity_secret,
    secret_of,
    signed,
)
from coterie.engine.flower.site_record import FewSamplesChanged, SiteMemory, SiteRecord, TooManyFederations
from coterie.errors import CoterieError
from coterie.federation.request_checks import error_in_models
from coterie.messages import ClientId, Failure, ModelSpec, Params, Request, wire
from coterie.privacy import PrivacyLimit
from coterie.streams import stream
from coterie.training import Diverged, Job, Outcome, Trainer, one_thread
from coterie.training.job import Floats

MAX_FEDERATIONS = 5
"""That a site joins unless its owner says otherwise."""


FEW_CHANGED = "a few of its samples came or went, and answers that differ by few would tell of them: its log says more"


class OtherPolicy(CoterieError):
    """A federation whose policy is not the one that the site's owner has named."""


def error_type_only(error: Exception) -> tuple[str, str]:
    """Describe an error by its type only, since its text may quote data."""
    return FAILED, type(error).__name__


def _checked(federation: str) -> str:
    if not FEDERATION.fullmatch(federation):
        raise ValueError("a federation without a proper name")
    return federation


@dataclass(frozen=True)
class DeployedSite:
    """Answers for one site; data, trainer and policy are made when they are needed."""

    name: str
    state: Path
    data: Callable[[], LocalData]
    trainer: Callable[[], Trainer]
    policy: Callable[[], Policy]
    """Makes what the site may be asked, when it joins."""
    certificate: Path | None = None
    """Of the server that its SuperNode trusts: its proofs hold for no other."""
    pinned: str | None = None
    """The only policy under which it takes part, if its owner has named one."""
    max_federations: int = MAX_FEDERATIONS
    """How many federations it joins: each begins with a new policy, and a new count of what it was asked."""
    limit: PrivacyLimit | None = None
    """The most that it tells of a sample, in all federations together."""
    unprotected: frozenset[str] = frozenset()
    """What it answers without noise in spite of a limit, by verb."""
    hides_samples: bool = False
    """Whether it tells no number of training samples, as where all trainings are private."""
    peers: frozenset[str] = frozenset()
    """The identities whose keys it takes in secure sums; none: those that come first."""

    @property
    def terms(self) -> PrivacyTerms:
        """Its ledger is one for all federations."""
        return PrivacyTerms(
            self.limit, self.unprotected, self.state / "ledger", hides_samples=self.hides_samples, simulated=False
        )

    def introduce(self, federation: str, nonce: str) -> Introduction:
        """Introduce yourself: a name, a proof that is of use to this server only, numbers of samples.

        Why it can't take part stands in the log of the site only: an error's text may quote its data.
        """
        check_nonce(nonce)
        samples, tests, error_text = 0, 0, ""
        try:
            self.join(federation)
            data = self.data()
            self._check_samples(data, self.joined_under(federation))
            samples = self.terms.told("train", {0: len(data.train)})[0]
            tests = self.terms.told("evaluate", {0: len(data.test)})[0]
        except OtherPolicy as error:
            log_error("it does not take part", error, trace=False)
            error_text = "its owner allows another policy only: 'coterie deploy check' there says which"
        except TooManyFederations as error:
            log_error("it does not take part", error, trace=False)
            error_text = "it has joined as many federations as max_federations in its site.toml allows"
        except FewSamplesChanged as error:
            log_error("it does not take part", error, trace=False)
            error_text = FEW_CHANGED
        except Exception as error:
            log_error("its data can't be used", error, trace=not isinstance(error, CoterieError))
            error_text = "its data can't be used: its log, or 'coterie deploy check' there, says why"
        introduction = {"name": self.name, "samples": samples, "tests": tests, "problem": error_text}
        return signed(introduction, self.secret(), _checked(federation), fingerprint(self.certificate), nonce)

    def answer(self, client: ClientId, federation: str, blob: bytes) -> bytes:
        """Answer a request, unless its policy or the number of its samples forbids it."""
        record = SiteRecord(self.state / _checked(federation))
        if not record.policy_file.exists():
            return wire.encode(Failure(client, 0, "refused", "this site has not joined that federation"))
        policy = self.joined_under(federation)
        protection = Protection(policy.min_samples, policy.min_label_samples, self.entropy(federation))
        data, store = self.data(), DiskStore(record.folder, durable=True)
        peers = Peers(federation, identity_secret(self.secret()), record.folder / "peers.json", self.peers)
        asker = Client(client, {0: data}, store, _LazyTrainer(self.trainer), protection, self.terms, peers)
        asked = "what can't be read"

        def error_in_request(request: Request) -> str | None:
            nonlocal asked
            asked = ", ".join(type(verb).__name__.lower() for verb in request.verbs)
            try:
                if any(verb.permissions() and not verb.is_noised() for verb in request.verbs):
                    self._check_samples(data, policy)
            except FewSamplesChanged as error:
                log_error("a request is not answered", error, trace=False)
                return FEW_CHANGED
            return (
                policy.error_in(request, self._counted(request, data))
                or error_in_models(request)
                or record.error_in(client, request, hashlib.blake2b(blob, digest_size=16).hexdigest(), policy.requests)
            )

        answer = answer_request(asker, blob, error_in_request)
        if isinstance(answer, Failure):
            record.note(answer, asked)
        return wire.encode(answer)

    def _counted(self, request: Request, data: LocalData) -> int:
        """Return by how many training samples a policy judges a request: by none that it will be told nothing of.

        Else whether it is refused by the policy or withheld by the limit would tell of their number.
        """
        try:
            for verb in request.verbs:
                self.terms.check(verb)
        except Withheld:
            return 1
        return len(data.train)

    def _check_samples(self, data: LocalData, policy: Policy) -> None:
        """Refuse to answer where a few samples came or went, which is told so; not where nothing is without noise."""
        if self.limit is None or self.unprotected:
            SiteMemory(self.state).check_samples(_counts(data), policy.min_samples)

    def join(self, federation: str) -> None:
        """Join a federation: make its policy, and keep it; refuse one too many, or one under another policy."""
        SiteMemory(self.state).join(_checked(federation), lambda: self._allowed(self.policy()), self.max_federations)
        self.joined_under(federation)

    def joined_under(self, federation: str) -> Policy:
        """Return the policy that was made when the site joined a federation."""
        return self._allowed(SiteRecord(self.state / _checked(federation)).policy())

    def _allowed(self, policy: Policy) -> Policy:
        if self.pinned not in (None, policy.digest):
            raise OtherPolicy(
                f"this federation has the policy {policy.digest}, and site.toml allows {self.pinned} only"
            )
        return policy

    def entropy(self, federation: str) -> int:
        """Return what this site's hold-outs and shuffles are drawn from in a federation."""
        return int.from_bytes(derived(self.secret(), federation, "streams", 16), "big")

    def secret(self) -> str:
        """Return what only this site knows; it is made up at first use."""
        return secret_of(self.state)


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

    def train_together(self, jobs: Sequence[Job]) -> list[Outcome | Diverged]:
        """Execute jobs."""
        return self._inner.train_together(jobs)

    def logits(self, spec: ModelSpec, params: Params, x: Floats) -> Floats:
        """Return the outputs of a network."""
        return self._inner.logits(spec, params, x)


def local_data(dataset: Dataset, normalise: Normaliser, test_share: float, seed: int) -> LocalData:
    """Return a data set as that of one client; without a test part, a share of the samples is held out as one."""
    train, test = dataset.train, dataset.train if dataset.test is None else dataset.test
    kept, tested = np.arange(len(train)), np.arange(len(test))
    drawn = dataset.test is None
    if drawn:
        kept, tested = held_out(kept, test_share, stream(seed, "test part"))
    return LocalData(train.x, train.y, kept, test.x, test.y, tested, dataset.classes, normalise, drawn_tests=drawn)


def _counts(data: LocalData) -> dict[str, int]:
    """Count the samples; where the test part is drawn from the training samples, all of them, as it is drawn anew."""
    if data.drawn_tests:
        return {"all": len(data.train) + len(data.test)}
    return {"train": len(data.train), "test": len(data.test)}


def seed_of_test_part(secret: str) -> int:
    """Return what the test part of a site is drawn from: the same in all federations, of which no two could compare."""
    return int.from_bytes(derived(secret, "", "test part", 16), "big")
