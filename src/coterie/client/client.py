"""A client: the only place where its samples are touched."""

from collections.abc import Mapping

from coterie.client.data import LocalData
from coterie.client.protection import UNPROTECTED, Protection, Withheld
from coterie.client.request_handler import RequestHandler
from coterie.client.store import Store
from coterie.client.verbs import HANDLERS
from coterie.messages import ClientId, Failure, Reply, Request
from coterie.training import Diverged, Trainer


class Client:
    """Answers requests from its own data and state."""

    def __init__(
        self,
        id: ClientId,
        data: Mapping[int, LocalData],
        store: Store,
        trainer: Trainer,
        protection: Protection = UNPROTECTED,
    ) -> None:
        """`data` are its samples by the round from which it has them: from 0 on, and after each drift."""
        self.id, self.protection = id, protection
        self._data, self._store, self._trainer = data, store, trainer

    def data_at(self, round: int) -> LocalData:
        """Return the samples that it has in a round."""
        return self._data[max(start for start in self._data if start <= round)]

    def answer(self, request: Request) -> Reply | Failure:
        """Answer all verbs of a request, or none; only then is a new state kept."""
        data = self.data_at(request.round).standardised(request.standardisation)
        # To train, from the state before this round, so that it can be asked again; to measure, from the latest.
        state = self._store.load(self.id, before=request.round + request.measures)
        handler = RequestHandler(self.id, data, self._trainer, request, state, self.protection)
        try:
            answers = tuple(HANDLERS[type(verb)](handler, verb) for verb in request.verbs)
        except Diverged as event:
            return Failure(self.id, request.round, "diverged", str(event))
        except Withheld as reason:
            return Failure(self.id, request.round, "withheld", str(reason))
        if handler.new_state is not None:
            self._store.save(self.id, request.round, handler.new_state)
        return Reply(self.id, request.round, answers)
