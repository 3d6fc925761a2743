"""Federation: the server's only view of the world."""

import math
from collections.abc import Callable, Iterable, Iterator, KeysView, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from coterie.federation.aggregation import WEIGHT_CUT, Aggregator
from coterie.federation.by_client import IntsByClient
from coterie.federation.disclosures import Disclosures
from coterie.federation.engine import Engine
from coterie.federation.events import Events
from coterie.federation.exchange import Exchange, Ledger, trains
from coterie.federation.fold import average
from coterie.federation.group_sum import ChosenMean
from coterie.federation.membership import Membership, Roster
from coterie.federation.request_checks import check_learning, check_requests, check_verbs, kind_of
from coterie.federation.sampling import ClientSampler, UniformSampler, cohort_share, order_of_cohorts
from coterie.federation.secure_sum import means_of_choices, secure_replies, sends_update
from coterie.federation.settings import FederationSettings, ServerData
from coterie.federation.shared_secrets import SecretsAhead
from coterie.federation.spool import Spool
from coterie.federation.trained import Answers
from coterie.federation.training import Training
from coterie.messages import Array, ClientId, Failure, ModelSpec, Params, Plan, Reply, Request, Standardisation, Verb
from coterie.models import initial
from coterie.models.learning import frozen_part, without_frozen
from coterie.streams import stream
from coterie.training import Trainer, guessing

E = TypeVar("E", bound=Engine)


class Federation:
    """Asks clients, validates their replies, counts bytes, and notes who is missing."""

    def __init__(
        self,
        engine: Engine,
        trainer: Trainer,
        settings: FederationSettings,
        sampler: ClientSampler | None = None,
        on_reply: Callable[[int, int], None] = lambda done, total: None,
    ) -> None:
        """All clients present now take part; `on_reply(done, total)` is called after each reply."""
        self.engine, self.trainer, self._settings = engine, trainer, settings
        self.sampler, self.on_reply = sampler or UniformSampler(), on_reply
        self.ledger, self.events, self.training = Ledger(), Events(), self._new_training()
        self.disclosures, self.secrets_ahead = Disclosures(), SecretsAhead()
        self.aggregator = Aggregator(
            settings.aggregation,
            lambda: self.samples,
            self._note_cut,
            lambda: self.round,
            settings.server_step,
            settings.scratch,
            settings.private_training,
            settings.noise_source,
        )
        """How methods put together what clients trained."""
        self.members, self._round = Membership(settings.max_strikes), 0
        self._present: Mapping[ClientId, int] = {}
        self._samples: Mapping[ClientId, int] = self._present
        """Of those present, who is believed."""
        self.members.admit(self.samples, 0)
        self._asked_to_keep: set[ClientId] = set()
        """Clients asked in this round to change what they keep."""
        self._stale = IntsByClient()
        """Clients whose own model may have changed since they were last evaluated, and the round in which it did."""
        self.diverged: set[ClientId] = set()
        """Clients whose latest training diverged."""
        self.standardisation: Standardisation | None = None
        """What clients have agreed to do with their inputs; it goes with every request."""

    @property
    def settings(self) -> FederationSettings:
        """What it was set up with."""
        return self._settings

    @property
    def spec(self) -> ModelSpec:
        """The network of the run."""
        return self._settings.spec

    @property
    def seed(self) -> int:
        """The seed of the run."""
        return self._settings.seed

    @property
    def server_data(self) -> ServerData:
        """The samples that the server owns, as networks see them."""
        own = self._settings.server_data
        return own if self.standardisation is None else replace(own, x=self.standardisation(own.x))

    @property
    def plan(self) -> Plan:
        """How clients train unless the method says otherwise."""
        return self._settings.plan

    @property
    def round(self) -> int:
        """The present round; 0 before the first."""
        return self._round

    @property
    def samples(self) -> Mapping[ClientId, int]:
        """Training samples that all clients present declared, newcomers included; who declares too many is left out."""
        present = self.engine.present(self.round)
        if present is not self._present:  # then somebody came or went
            self._present, self._samples = present, self._believed(present)
        return self._samples

    def _believed(self, present: Mapping[ClientId, int]) -> Mapping[ClientId, int]:
        """Leave out who declares too many samples."""
        most = self.settings.aggregation.max_samples
        if most is None or max(present.values(), default=0) <= most:
            return present
        for client, samples in present.items():
            if samples > most and not self.events.noted(client, "too large"):
                self.note(client, "too large", f"it declares {samples} samples, where max_samples is {most}")
        return {client: samples for client, samples in present.items() if samples <= most}

    @property
    def _roster(self) -> Roster:
        return self.members.roster(self.samples)

    @property
    def clients(self) -> Sequence[ClientId]:
        """All clients that are present and take part, in order."""
        return self._roster.clients

    @property
    def trainable(self) -> Sequence[ClientId]:
        """The clients that take part and have something to train on, in order."""
        return self._roster.trainable

    @property
    def newcomers(self) -> Sequence[ClientId]:
        """Clients that are present but do not take part yet, in order."""
        return self._roster.newcomers

    @property
    def admitted(self) -> KeysView[ClientId]:
        """All clients that take part or did, present or not."""
        return self.members.admitted

    @property
    def joined(self) -> Mapping[ClientId, int]:
        """The round in which each late client joined."""
        return self.members.joined

    @property
    def asked_to_keep(self) -> list[ClientId]:
        """Clients asked in this round to change what they keep, in order."""
        return sorted(self._asked_to_keep)

    @property
    def stale_clients(self) -> KeysView[ClientId]:
        """Clients whose own model may have changed since they were last evaluated."""
        return self._stale.keys()

    def start_round(self, round: int) -> None:
        """Begin a round."""
        self._round, self.training = round, self._new_training()
        self._asked_to_keep.clear()

    def end_training(self) -> None:
        """Note whose losses are outliers, which the mean of the round leaves out."""
        for client, loss in self.training.outliers:
            detail = f"loss = {loss:g}, beyond {self.training.largest_loss:g}: no mean includes it"
            self.note(client, "outlier", detail)

    def _new_training(self) -> Training:
        return Training(guessing(self.spec))

    def note(self, client: ClientId, kind: str, detail: str) -> None:
        """Record an event of this round."""
        self.events.note(Failure(client, self.round, kind, detail))

    def _note_cut(self, client: ClientId, kind: str, detail: str) -> None:
        """Record that what a client sent does not count in full: once in a round; of its weight, which stays, once."""
        known = self.events.noted(client, kind) if kind == WEIGHT_CUT else client in self.training.outlying
        if kind != WEIGHT_CUT:
            self.training.outlying.add(client)
        if not known:
            self.note(client, kind, detail)

    def average(self, trained: Answers, start: Params, equal: bool = False) -> dict[str, Array]:
        """Put together what clients trained from one model, by the rule of the run; `equal`: all count alike."""
        return average(self.aggregator, trained, start, equal, len(self.trainable))

    def admit(self, newcomers: Iterable[ClientId]) -> None:
        """Let newcomers take part from now on."""
        self.members.admit(newcomers, self.round)

    def mark_evaluated(self, client: ClientId) -> None:
        """Note that a client's own model has been evaluated as it is now."""
        self._stale.pop(client, None)

    def cohort(self, round: int) -> list[ClientId]:
        """Draw the clients of a round: max(⌊qN⌋, 1) of them, by the seed and the round alone."""
        pool, rng = self.trainable, stream(self.seed, "cohort", round)
        return sorted(pool[i] for i in order_of_cohorts(rng, len(pool), self._asked, only_first=True))

    def batches(self, round: int, pool: Sequence[ClientId]) -> list[list[ClientId]]:
        """Cut a pool of clients at random into cohorts, by the seed and the round alone; the last may be smaller.

        The first cohort of a pool of everyone is the one that `cohort` draws.
        """
        rng, size = stream(self.seed, "cohort", round), self._asked
        drawn = [pool[i] for i in order_of_cohorts(rng, len(pool), size)]
        return [sorted(drawn[begin : begin + size]) for begin in range(0, max(len(drawn), 1), size)]

    @property
    def fraction(self) -> float:
        """The share of the clients that a round is meant to have: as the user says, or a usual one."""
        return cohort_share(self.settings.fraction, len(self.trainable))

    @property
    def _needed(self) -> int:
        """How many clients a round is meant to have."""
        return max(math.floor(self.fraction * len(self.trainable) + 1e-9), 1)

    @property
    def _asked(self) -> int:
        """How many clients a round asks."""
        return math.ceil(self._needed * (1 + self.settings.oversample) - 1e-9)

    def initial(self, which: int = 0) -> dict[str, Array]:
        """Return the common initial model θ⁰, or others for methods that start several models.

        What the network freezes is that of θ⁰ in all of them: clients have it, and do not send it.
        """
        start = initial(self.spec, self.seed, which)
        return {**start, **frozen_part(self.spec, self.seed)} if which else start

    def request(
        self,
        *verbs: Verb,
        model: Params | None = None,
        models: Mapping[str, Params] | None = None,
        kind: str | None = None,
        spec: ModelSpec | None = None,
    ) -> Request:
        """Put verbs, and the models that they name, into a request of this round.

        `model` is short for models={"model": …}. `kind` is the heading under which the bytes are counted, by default
        that of the verbs; `spec` is a network other than the run's.
        """
        sent = {**(models or {}), **({} if model is None else {"model": model})}
        check_verbs(verbs, sent)
        check_learning(verbs, spec or self.spec)
        expert = self.settings.expert if spec in (None, self.spec) else None  # of another network it is no expert
        if expert is not None and any(verb.needs_expert() for verb in verbs):
            sent["expert"] = expert
        frozen = frozen_part(spec or self.spec, self.seed) if sent else {}
        sent = {name: without_frozen(model, frozen) for name, model in sent.items()}
        heading, standard = kind or kind_of(verbs), self.standardisation
        return Request(self.round, self.seed, spec or self.spec, verbs, sent, heading, standard)

    def ask(self, requests: Mapping[ClientId, Request]) -> dict[ClientId, Reply]:
        """Send requests and return the valid replies in order of clients; the others are noted as events."""
        return {reply.client: reply for reply in self._exchange(requests, Spool(limit=math.inf))}

    def replies(self, requests: Mapping[ClientId, Request]) -> Iterator[Reply]:
        """Send requests and yield the same replies one after another, as they come; none of them is kept.

        Requests are sent when the first reply is wanted. Go through all: at the end of it events are noted. Where sums
        are secure, what a group trained is its mean, in the name of each of its clients that are in the sum.
        """
        if self.settings.secure is not None and any(sends_update(request) for request in requests.values()):
            return secure_replies(self, requests, self.settings.secure)
        return self._exchange(requests, Spool(self.settings.scratch))

    @property
    def hides_choices(self) -> bool:
        """Whether clients that choose among models keep to themselves which one they take."""
        return self.settings.secure is not None and self.settings.secure.hidden

    def means_of_choices(self, requests: Mapping[ClientId, Request]) -> dict[int, ChosenMean]:
        """Have clients train the model that each chooses; return the means, by the number of the model.

        For where choices are hidden: there are no replies then. A model that nobody chose has no mean.
        """
        if self.settings.secure is None:
            raise TypeError("choices are hidden in secure sums, and this run has none")
        return means_of_choices(self, requests, self.settings.secure)

    @contextmanager
    def uncounted(self) -> Iterator[None]:
        """Ask clients for what has been counted before, and was lost."""
        ledger, self.ledger = self.ledger, Ledger()
        try:
            yield
        finally:
            self.ledger = ledger

    def _exchange(self, requests: Mapping[ClientId, Request], spool: Spool) -> Iterator[Reply]:
        check_requests(requests, self.settings.secure is not None)
        requests = self._affordable(requests)
        training, most = trains(requests), self.settings.aggregation.max_samples
        surplus = self.settings.oversample and training and len(requests) > self._needed
        tests = self.engine.tests(self.round)
        tests = tests if most is None else {client: min(tests.get(client, most), most) for client in requests}
        enough, least = self._needed if surplus else None, self.settings.min_replies if training else 1
        declared = self.engine.present(self.round)
        exchange = Exchange(requests, self.round, self.seed, self.ledger, enough, least, declared, tests)
        self._note_kept(requests)
        self.disclosures.note(requests)
        self.note_incidents()
        self.training.expect(requests)
        answers = exchange.send(self.engine, self.settings.deadline)
        for reply in exchange.replies(answers, self.engine.closes_early, self.on_reply, spool):
            if not requests[reply.client].measures:
                self.training.note(requests[reply.client], reply)
            yield reply
        self._note_failures([*exchange.failures, *exchange.notices])
        self.diverged -= exchange.trained
        if too_few := exchange.too_few():
            self.events.note(too_few)

    def _affordable(self, requests: Mapping[ClientId, Request]) -> Mapping[ClientId, Request]:
        """Leave out clients who would train more steps than their noise was made for."""
        if (most := self.settings.private_steps) is None:
            return requests
        spent = self.disclosures.spent(requests, most)
        for client in sorted(spent):
            if not self.events.noted(client, "spent"):
                self.note(client, "spent", "it has trained as often as dp_sgd has noise for: it trains no more")
        return {client: request for client, request in requests.items() if client not in spent}

    def wrap_engine(self, wrapper: Callable[[Engine], E]) -> E:
        """Wrap the engine in another, for instance to watch its messages, and return that."""
        self.engine = wrapped = wrapper(self.engine)
        return wrapped

    def note_incidents(self) -> None:
        """Record what the engine has seen outside of exchanges, such as a node that was turned away."""
        for incident in self.engine.incidents():
            self.events.note(incident)

    def logits(self, models: Sequence[Params], x: npt.NDArray[np.float32]) -> list[npt.NDArray[np.float32]]:
        """Run models on samples that the server owns, several at a time: (samples, classes) of each."""
        with ThreadPoolExecutor(self.settings.workers, thread_name_prefix="server") as pool:
            return list(pool.map(lambda params: self.trainer.logits(self.spec, params, x), models))

    def save(self) -> dict[str, Any]:
        """Return what has happened so far."""
        return {
            "ledger": self.ledger.save(),
            "events": self.events.save(),
            "disclosures": self.disclosures.save(),
            "sampler": self.sampler.save(),
            "aggregator": self.aggregator.save(),
            "server_optimiser": self.aggregator.optimiser.save(),
            "stale": self._stale.save(),
            "diverged": set(self.diverged),
            **({} if self.standardisation is None else {"standardisation": self.standardisation}),
            **({"secrets_ahead": ahead} if (ahead := self.secrets_ahead.save(self.engine.clients_remain)) else {}),
            **self.members.save(),
        }

    def load(self, state: Mapping[str, Any]) -> None:
        """Restore what `save` returned."""
        self.ledger.load(state["ledger"])
        self.events.load(state["events"])
        self.disclosures.load(state.get("disclosures", Disclosures().save()))  # which came later than the format
        self.sampler.load(state["sampler"])
        self.aggregator.load({"usual": {}, "clip": None, **state.get("aggregator", {})})  # these came later
        self.aggregator.optimiser.load(state.get("server_optimiser", {"moments": {}}))  # as this did
        self._stale = IntsByClient.load(state["stale"])
        self.diverged = set(state.get("diverged", ()))
        self.standardisation = state.get("standardisation")
        self.secrets_ahead.load(state.get("secrets_ahead", ()))
        self.members.load(state)

    def _note_kept(self, requests: Mapping[ClientId, Request]) -> None:
        """Note whose own models will change, and refuse to change one twice in a round."""
        distinct = {id(request): request for request in requests.values()}
        keeps = {key for key, request in distinct.items() if any(verb.keeps_state() for verb in request.verbs)}
        for client in [client for client, request in requests.items() if id(request) in keeps]:
            if client in self._asked_to_keep:
                raise ValueError(f"client {client} is asked twice in round {self.round} to change what it keeps")
            self._asked_to_keep.add(client)
            self._stale[client] = self.round

    def _note_failures(self, failures: Iterable[Failure]) -> None:
        """Record failures; leave out clients that have sent too many invalid replies."""
        for failure in failures:
            self.events.note(failure)
            if failure.kind == "diverged":
                self.diverged.add(failure.client)
            if failure.kind == "invalid" and self.members.strike(failure.client):
                detail = f"{self.settings.max_strikes} invalid replies: it is no longer asked"
                self.note(failure.client, "left out", detail)
