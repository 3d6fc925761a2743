"""What an engine need not write, and that engines around others pass everything on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from coterie.federation import Engine, EngineWrapper
from coterie.messages import Failure, Reply, Request
from coterie.testing import OnTheWire, small_federation


class Smallest(Engine):
    """Has what an engine must have."""

    name = "smallest"

    def present(self, round: int) -> Mapping[int, int]:
        return {0: 5}

    def exchange(self, requests: Mapping[int, Request], deadline: float | None) -> Iterator[Reply | Failure]:
        for client, request in requests.items():
            yield Failure(client, request.round, "late")


class Eventful(Smallest):
    """Closes early, and has something to tell once."""

    closes_early = True

    def __init__(self) -> None:
        self.waiting = [Failure(-1, 0, "turned away", "a node without a name")]

    def incidents(self) -> Sequence[Failure]:
        waiting, self.waiting = self.waiting, []
        return waiting


def test_two_functions_make_an_engine() -> None:
    engine = Smallest()
    assert not engine.closes_early
    assert list(engine.incidents()) == []


def test_wrappers_pass_on_what_an_engine_declares() -> None:
    for wrap in (EngineWrapper, OnTheWire):
        inner = Eventful()
        outer = wrap(wrap(inner))
        assert (outer.name, outer.closes_early, outer.present(1)) == ("smallest", True, {0: 5})
        assert [incident.kind for incident in outer.incidents()] == ["turned away"]
        assert not outer.incidents()
        inner.closes_early = False  # as it changes, so does what is passed on
        assert not outer.closes_early


def test_incidents_become_events() -> None:
    with small_federation("fedavg") as (run, _):
        run.fed.wrap_engine(lambda engine: Eventful())
        run.fed.note_incidents()
        run.fed.note_incidents()
        assert [(event["kind"], event["count"]) for event in run.fed.events.save()] == [("turned away", 1)]
