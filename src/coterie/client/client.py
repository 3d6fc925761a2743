"""A client: the only place where its samples are touched."""

from collections.abc import Mapping

from coterie.client.data import LocalData
from coterie.client.request_handler import RequestHandler
from coterie.client.store import State, Store
from coterie.client.verbs import HANDLERS
from coterie.messages import EVALUATION, ClientId, Failure, Reply, Request
from coterie.training import Diverged, Trainer


class Client:
    """Answers requests from its own data and state."""

    def __init__(
        self,
        id: ClientId,
        data: LocalData,
        store: Store,
        trainer: Trainer,
        later: Mapping[int, LocalData] | None = None,
    ) -> None:
        """`later` holds what replaces the data from some rounds on (concept drift)."""
        self.id = id
        self._data = {0: data, **(later or {})}
        self._store, self._trainer = store, trainer

    def answer(self, request: Request) -> Reply | Failure:
        """Answer all verbs of a request, or none; only then is a new state kept."""
        data = self._data[max(start for start in self._data if start <= request.round)]
        handler = RequestHandler(self.id, data, self._trainer, request, self._state_before(request))
        try:
            answers = tuple(HANDLERS[type(verb)](handler, verb) for verb in request.verbs)
        except Diverged as event:
            return Failure(self.id, request.round, "diverged", str(event))
        if handler.new_state is not None:
            self._store.save(self.id, request.round, handler.new_state)
        return Reply(self.id, request.round, answers)

    def _state_before(self, request: Request) -> State:
        """Return the state to start from: before this round, so that it can be asked again; to measure, the latest."""
        return self._store.load(self.id, before=request.round + (request.kind == EVALUATION))
