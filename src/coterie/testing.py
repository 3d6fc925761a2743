"""The battery: what every federated method must pass, ours and a user's own.

Registering a method enrols it in Coterie's tests; for a method of your own:

    import pytest
    from coterie.testing import BATTERY

    @pytest.mark.parametrize("check", BATTERY)
    def test_my_method(check, tmp_path):
        check("my-method", tmp_path)

A check takes settings of ``coterie.run`` too, such as ``trainer="torch"``.
"""

import functools
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

import coterie
from coterie.algorithms import ALGORITHMS
from coterie.client import MemoryStore, Store
from coterie.data import FederatedData
from coterie.errors import CoterieError
from coterie.federation import Engine, EngineWrapper
from coterie.federation.loop import rounds
from coterie.messages import Answer, ClientId, Failure, Reply, Request, wire
from coterie.results.protocols import FOLLOWED
from coterie.results.run_folder import RunFolder
from coterie.run.building import Session, completed, load_data, session
from coterie.run.going_on import schedules
from coterie.run.progress import Progress
from coterie.run.result import Result
from coterie.run.settings import settings_to_config
from coterie.training import one_thread

A = TypeVar("A", bound=Answer)
Change = Callable[[Reply, Request], Reply | Failure]
Script = Callable[[ClientId, Request], Answer | None]

SMALL: dict[str, Any] = {
    "dataset": "digits-rotated",
    "clients": 6,
    "fraction": 0.5,
    "rounds": 4,
    "epochs": 1,
    "eval_every": 2,
    "model": "mlp",
    "model_options": {"hidden": 16},
    "lr": 0.05,
}


def small_run(method: str, **settings: Any) -> Result:
    """Run a method on a federation of a few clients."""
    return coterie.run(algorithm=method, **{**small_settings(method), **settings})


def small_settings(method: str) -> dict[str, Any]:
    """Return the settings of a small run, with those that a method needs to show what it does (`battery`)."""
    return {**SMALL, **ALGORITHMS[method].traits.battery}


@contextmanager
def small_federation(
    method: str, store: Store | None = None, **settings: Any
) -> Iterator[tuple[Session, FederatedData]]:
    """Set up a method with a federation of a few clients; nothing has been asked yet."""
    config = settings_to_config(None, {"algorithm": method, **small_settings(method), **settings})
    data = load_data(config)
    config = completed(config, data)
    with one_thread(), session(config, data, store or MemoryStore()) as run:
        yield run, data


def outcome(result: Result) -> dict[str, Any]:
    """Return everything of a result but its times."""
    fields = result.to_json() | {"history": result.history}
    return _without_times(json.loads(json.dumps(fields)))  # type: ignore[no-any-return]


def repeats_itself(method: str, folder: Path, **settings: Any) -> None:
    """The same seed gives the same result, also by three workers with states on disk; another seed another one."""
    first = outcome(small_run(method, **settings, workers=1))
    again = outcome(small_run(method, **settings, workers=3, state="disk"))
    what = "one worker with states in memory and three with states on disk: two runs with the same seed"
    _assert_same(first, again, what)
    other = outcome(small_run(method, **settings, seed=1))
    assert first["per_client"] != other["per_client"], "seeds 0 and 1 gave all clients the same accuracies"


def learns(method: str, folder: Path, **settings: Any) -> None:
    """After some rounds accuracy is far above chance, by the protocol that the method has."""
    accuracy = small_run(method, **settings, rounds=5, fraction=1.0, epochs=3, dataset="digits", eval_every=0).accuracy
    best = max((value for value in accuracy.values() if value is not None), default=0.0)
    assert best > 0.5, f"after 5 rounds the best accuracy is {best:.3f}, not above 0.5: {accuracy}"


def goes_on_after_an_interruption(method: str, folder: Path, **settings: Any) -> None:
    """Broken off three times in the middle of rounds and resumed, a run ends as if nothing had happened."""
    whole = outcome(small_run(method, **settings))
    resumed = _resumed(method, folder / "broken", (0, 4, 9), settings)
    what = "the whole run and one broken off after 0, then 4, then 9 answers (is all in save and load?)"
    _assert_same(whole, outcome(resumed), what)


def bears_silence(method: str, folder: Path, **settings: Any) -> None:
    """If nobody ever answers, the run ends with the models it began with."""
    result = small_run(method, **settings, drop=1.0)
    kinds = _kinds(result)
    assert kinds == {"dropped"}, f"if nobody answers, the only events are 'dropped', not {sorted(kinds)}"
    assert result.traffic["up_bytes"] == 0, f"nobody answered, but {result.traffic['up_bytes']} bytes came"
    first, last = ({p: result.history[row][p] for p in FOLLOWED} for row in (0, -1))
    _assert_same(first, last, "the first and the last accuracies, although nobody answered,")


def bears_nonsense(method: str, folder: Path, **settings: Any) -> None:
    """Clients that answer nonsense are counted and ignored; no model takes harm."""
    result = small_run(method, **settings, hostile=0.6)
    assert "invalid" in _kinds(result), f"nonsense was not noticed; events: {sorted(_kinds(result))}"
    _assert_sound(result)


def bears_missing_clients(method: str, folder: Path, **settings: Any) -> None:
    """Clients that are absent or late are counted, and the rest go on."""
    result = small_run(method, **settings, drop=0.3, straggle=0.3, rounds=6)
    kinds = _kinds(result)
    assert kinds == {"dropped", "late"}, f"events should be 'dropped' and 'late', not {sorted(kinds)}"
    _assert_sound(result)


def takes_newcomers(method: str, folder: Path, **settings: Any) -> None:
    """Clients that come in the middle or at the end are placed, fine-tune, and are reported apart; also if resumed."""
    for join_at in (2, None):
        late = {**settings, "rounds": 3, "newcomers": 0.34, "join_at": join_at, "newcomer_epochs": 2}
        whole = small_run(method, **late)
        came = f"newcomers of round {join_at or 'last + 1'}"
        assert whole.newcomers is not None, f"{came}: the result does not tell of them"
        clients = whole.newcomers["clients"]
        assert len(clients) == 2, f"{came}: there should be 2, not {clients}"
        assert whole.newcomers["round"] == (join_at or 4), f"{came}: they came in round {whole.newcomers['round']}"
        assert (whole.newcomers["accuracy"]["L"] or 0) > 0, f"{came}: they have trained nothing, L is 0 or none"
        own = {client: whole.per_client["L"][client] for client in clients}
        assert all((value is None) is (not join_at) for value in own.values()), f"{came}: L by client is {own}"
        if whole.groups is not None:
            _assert_same([whole.groups[c] for c in clients], whole.newcomers["groups"], f"{came}: their groups")
        path = folder / f"broken-{join_at}"
        resumed = _resumed(method, path, (9,), late)
        _assert_same(outcome(whole), outcome(resumed), f"{came}: the whole run and one broken off")
    RunFolder(path).result_file.unlink()  # killed just before the end, when they have come
    _assert_same(outcome(whole), outcome(coterie.resume(path)), f"{came}: the whole run and one killed at the end")


def takes_more_rounds(method: str, folder: Path, **settings: Any) -> None:
    """Given more rounds when it is finished, a run ends as if it had had them from the start, or `schedule` says no."""
    config, path = settings_to_config(None, {"algorithm": method, **small_settings(method), **settings}), folder / "run"
    small_run(method, **{**settings, "rounds": 3}, out=str(path))
    three, four = (
        [plan[:3] for plan in schedules(config.changed(training={"rounds": rounds}), config.data.clients or 0)]
        for rounds in (3, 4)
    )
    longer = None
    with suppress(_BrokenOff, *([CoterieError] if three != four else [])):
        longer = coterie.resume(path, _BreaksOff(2), rounds=4)
    assert longer is None, "its schedule says that more rounds are not possible, or nobody answered in round 4"
    if three != four:
        return
    longer = coterie.resume(path)
    whole = small_run(method, **{**settings, "rounds": 4})
    what = "a run of 4 rounds and one of 3 that was given another (does something depend on fed.settings.rounds?)"
    _assert_same(outcome(whole), outcome(longer), what)


def takes_one_client(method: str, folder: Path, **settings: Any) -> None:
    """A federation of one is a federation."""
    _assert_sound(small_run(method, **settings, clients=1, dataset="digits"))


def needs_nothing_but_messages(method: str, folder: Path, **settings: Any) -> None:
    """With every message turned into bytes and back the result is the same, and the ledger has counted each byte."""
    outcomes = []
    for wrap in (lambda engine: engine, OnTheWire):
        with small_federation(method, **settings) as (run, _):
            engine = run.fed.wrap_engine(wrap)
            history = [evaluation for _, evaluation in rounds(run.fed, run.algorithm, run.evaluator, every=2)]
            ledger = run.fed.ledger
            counted = ledger.by_kind, ledger.by_client, ledger.by_round
            outcomes.append((history, run.evaluator.save(), counted))
    _assert_same(outcomes[0], outcomes[1], "(history, scores, ledger) without bytes and with")
    assert isinstance(engine, OnTheWire)
    totals = {way: ledger.total(way) for way in ("down", "up")}
    _assert_same(engine.bytes, totals, "the bytes that passed and those in the ledger")


BATTERY: list[Callable[..., None]] = [
    repeats_itself,
    learns,
    goes_on_after_an_interruption,
    bears_silence,
    bears_nonsense,
    bears_missing_clients,
    takes_newcomers,
    takes_more_rounds,
    takes_one_client,
    needs_nothing_but_messages,
]


class OnTheWire(EngineWrapper):
    """An engine around another, through which only bytes pass; it counts them."""

    def __init__(self, inner: Engine) -> None:
        super().__init__(inner)
        self.bytes = {"down": 0, "up": 0}

    def exchange(self, requests: Mapping[ClientId, Request], deadline: float | None) -> Iterator[Reply | Failure]:
        """Encode and decode what passes, both ways."""
        arrived = {}
        for client, request in requests.items():
            blob = wire.encode(request)
            self._count("down", request, blob)
            arrived[client] = wire.decode(blob)
        for answer in self.inner.exchange(arrived, deadline):  # type: ignore[arg-type]
            blob = wire.encode(answer)
            if isinstance(answer, Reply):
                self._count("up", requests[answer.client], blob)
            yield wire.decode(blob)  # type: ignore[misc]

    def _count(self, way: str, request: Request, blob: bytes) -> None:
        if not request.measures:
            self.bytes[way] += len(blob)


class RecordingEngine(EngineWrapper):
    """An engine around another that keeps what passes; `change` may alter a reply, or turn it into a failure.

    Requests and replies are kept by round, client and kind; the last of each.
    """

    def __init__(self, inner: Engine, change: Change = lambda reply, request: reply) -> None:
        super().__init__(inner)
        self.change = change
        self.exchanges: list[dict[ClientId, Request]] = []
        self.requests: dict[tuple[int, ClientId, str], Request] = {}
        self.replies: dict[tuple[int, ClientId, str], Reply] = {}

    def exchange(self, requests: Mapping[ClientId, Request], deadline: float | None) -> Iterator[Reply | Failure]:
        """Keep the requests, and the replies as they are passed on."""
        self.exchanges.append(dict(requests))
        self.requests |= {(request.round, client, request.kind): request for client, request in requests.items()}
        for answer in self._carry(requests, deadline):
            request = requests[answer.client]
            if isinstance(answer, Reply):
                answer = self.change(answer, request)
            if isinstance(answer, Reply):
                self.replies[request.round, answer.client, request.kind] = answer
            yield answer

    def asked(self, round: int, kind: str) -> list[ClientId]:
        """Return the clients that got a request of a kind in a round."""
        return sorted(client for when, client, what in self.requests if (when, what) == (round, kind))

    def answers(self, answer_type: type[A], kind: str = "train") -> dict[tuple[int, ClientId], A]:
        """Return the answers of a type to requests of a kind, by round and client."""
        replies = {(when, client): reply for (when, client, what), reply in self.replies.items() if what == kind}
        return {key: reply.answer(answer_type) for key, reply in replies.items()}

    def _carry(self, requests: Mapping[ClientId, Request], deadline: float | None) -> Iterator[Reply | Failure]:
        return self.inner.exchange(requests, deadline)


class ScriptedEngine(RecordingEngine):
    """An engine whose clients answer what a function says, without being asked; None is silence."""

    def __init__(self, inner: Engine, script: Script = lambda client, request: None) -> None:
        super().__init__(inner)
        self.script = script

    def _carry(self, requests: Mapping[ClientId, Request], deadline: float | None) -> Iterator[Reply | Failure]:
        for client, request in requests.items():
            answer = self.script(client, request)
            silence = Failure(client, request.round, "dropped")
            yield silence if answer is None else Reply(client, request.round, (answer,))


def _resumed(method: str, folder: Path, answers: Iterable[int], settings: Mapping[str, Any]) -> Result:
    """Break a run off, and what resumes it, each after a number of answers; resume what is left, to its end."""
    go = functools.partial(small_run, method, **settings, out=str(folder))
    for number in answers:
        with suppress(_BrokenOff):
            go(progress=_BreaksOff(number))
        go = functools.partial(coterie.resume, folder)
    go()
    return Result.load(folder)


class _BrokenOff(Exception):
    pass


class _BreaksOff(Progress):
    """Ends a run after a number of answers."""

    def __init__(self, answers: int) -> None:
        self.answers = answers

    def clients(self, done: int, total: int) -> None:
        """Count down."""
        if self.answers == 0:
            raise _BrokenOff
        self.answers -= 1


def difference(left: Any, right: Any, place: str = "") -> str | None:
    """Say where two results first differ.

    >>> difference({"a": [1, 2]}, {"a": [1, 3]})
    "['a'][1]: 2 and 3"
    """
    if isinstance(left, Mapping) and isinstance(right, Mapping) and left.keys() == right.keys():
        pairs = [(f"[{key!r}]", left[key], right[key]) for key in left]
    elif isinstance(left, list | tuple) and isinstance(right, list | tuple) and len(left) == len(right):
        pairs = [(f"[{index}]", *both) for index, both in enumerate(zip(left, right, strict=True))]
    else:
        return None if left == right else f"{place or 'all'}: {left!r:.200} and {right!r:.200}"
    differences = (difference(first, second, place + where) for where, first, second in pairs)
    return next((text for text in differences if text), None)


def _assert_same(first: Any, other: Any, what: str) -> None:
    """Written out, since pytest explains bare assertions in test files only."""
    if first != other:
        raise AssertionError(f"{what} differ, first at {difference(first, other) or 'their types'}")


def _kinds(result: Result) -> set[str]:
    return {event["kind"] for event in result.events}


def _assert_sound(result: Result) -> None:
    accuracies = [value for value in result.accuracy.values() if value is not None]
    assert accuracies, "no protocol has an accuracy: model_for returned None for everyone, and nobody trained"
    assert all(0 <= value <= 1 for value in accuracies), f"accuracies outside of [0, 1]: {result.accuracy}"
    losses = [row["loss"] for row in result.history]
    assert all(loss is None or np.isfinite(loss) for loss in losses), f"training losses by row: {losses}"


def _without_times(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_times(item) for key, item in value.items() if key != "seconds"}
    return [_without_times(item) for item in value] if isinstance(value, list) else value
