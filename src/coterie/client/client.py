"""A client: the only place where its samples are touched."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence

from coterie.client.data import LocalData
from coterie.client.peers import Peers
from coterie.client.protection import UNPROTECTED, Protection, Withheld
from coterie.client.releases import NO_TERMS, PrivacyTerms
from coterie.client.request_handler import RequestHandler
from coterie.client.sessions import kept_answer, opened
from coterie.client.store import Store
from coterie.client.verbs import HANDLERS, Done, Work
from coterie.messages import Answer, ClientId, Failure, Reply, Request
from coterie.similarity import Sketching, sketch_together
from coterie.training import Diverged, Job, Outcome, Trainer
from coterie.training.job import one_by_one


class Client:
    """Answers requests from its own data and state."""

    def __init__(
        self,
        id: ClientId,
        data: Mapping[int, LocalData],
        store: Store,
        trainer: Trainer,
        protection: Protection = UNPROTECTED,
        terms: PrivacyTerms = NO_TERMS,
        peers: Peers | None = None,
    ) -> None:
        """`data` are its samples by the round from which it has them: from 0 on, and after each drift.

        `peers` are by whom it knows other clients in secure sums; None: by what the server says, as in simulations.
        """
        self.id, self.protection, self.terms, self.peers = id, protection, terms, peers
        self._data, self._store, self._trainer = data, store, trainer

    def data_at(self, round: int) -> LocalData:
        """Return the samples that it has in a round."""
        return self._data[max(start for start in self._data if start <= round)]

    def answer(self, request: Request) -> Reply | Failure:
        """Answer all verbs of a request, or none; only then is a new state kept."""
        return answer_together([(self, request)], lambda jobs: one_by_one(self._trainer, jobs))[0]

    def answering(self, request: Request) -> Generator[Work, Done, Reply | Failure]:
        """Answer as `answer` does, but yield each training and sketch that it takes, and be sent its outcome."""
        try:
            session = opened(self._store.sessions, self.id, request)
            if session is not None and (told := session.answered(request)) is not None:
                return told
        except Withheld as reason:
            return Failure(self.id, request.round, "withheld", str(reason))
        data = self.data_at(request.round).standardised(request.standardisation)
        # To train, from the state before this round, so that it can be asked again; to measure, from the latest.
        state = self._store.load(self.id, before=request.round + request.measures)
        known = self.protection, self.terms, session, self.peers
        handler = RequestHandler(self.id, data, self._trainer, request, state, *known)
        answers: list[Answer] = []
        try:
            for verb in request.verbs:  # before anything is charged
                self.terms.check(verb)
            for verb in request.verbs:
                made = HANDLERS[type(verb)](handler, verb)
                answers.append((yield from made) if isinstance(made, Generator) else made)
        except Diverged as event:  # when, and at which loss, depends on the samples
            return Failure(self.id, request.round, "diverged", str(event) if session is None else "")
        except Withheld as reason:
            return Failure(self.id, request.round, "withheld", str(reason))
        if handler.new_state is not None:
            self._store.save(self.id, request.round, handler.new_state)
        reply = Reply(self.id, request.round, tuple(answers))
        if session is None:
            return reply
        try:  # on disk before it is answered, and after the state that it goes with
            return kept_answer(self._store.sessions, self.id, session, request, reply)
        except Withheld as reason:
            return Failure(self.id, request.round, "withheld", str(reason))


def answer_together(
    asked: Sequence[tuple[Client, Request]], train: Callable[[Sequence[Job]], Sequence[Outcome | Diverged]]
) -> list[Reply | Failure]:
    """Have clients answer side by side: `train` gets what they are to train at the same time; so are sketches made."""
    answering = [client.answering(request) for client, request in asked]
    outcomes: dict[int, Done | None] = dict.fromkeys(range(len(asked)))
    replies: dict[int, Reply | Failure] = {}
    while outcomes:
        jobs: dict[int, Job] = {}
        sketches: dict[int, Sketching] = {}
        for position, outcome in outcomes.items():
            try:
                work = answering[position].send(outcome)  # type: ignore[arg-type]  # None begins it
            except StopIteration as end:
                replies[position] = end.value
                continue
            if isinstance(work, Job):
                jobs[position] = work
            else:
                sketches[position] = work
        outcomes = dict(zip(jobs, train([*jobs.values()]), strict=True))
        outcomes |= zip(sketches, sketch_together([*sketches.values()]), strict=True)
    return [replies[position] for position in range(len(asked))]
