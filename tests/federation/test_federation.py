"""The server's view: cohorts, bytes, validation, and that it is no more than that."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

from coterie.client import MemoryStore
from coterie.federation import EngineWrapper, Federation
from coterie.federation.loop import rounds
from coterie.messages import (
    ClassCounts,
    ClassCountsReply,
    Evaluate,
    Losses,
    Params,
    Reply,
    Request,
    Signature,
    SignatureReply,
    Train,
    TrainReply,
    Verb,
    wire,
)
from coterie.run.building import Session, completed, load_data, session
from coterie.run.settings import settings_to_config
from coterie.testing import SMALL, RecordingEngine, ScriptedEngine
from coterie.training.torch_trainer import TorchTrainer


@pytest.fixture
def run() -> Iterator[Session]:
    config = settings_to_config(None, SMALL)
    data = load_data(config)
    with session(completed(config, data), data, MemoryStore(), TorchTrainer()) as run:
        yield run


def test_cohorts_depend_on_seed_and_round_only(run: Session) -> None:
    fed = run.fed
    drawn = [fed.cohort(t) for t in range(1, 200)]
    assert drawn == [fed.cohort(t) for t in range(1, 200)]
    assert all(len(cohort) == 3 == len(set(cohort)) for cohort in drawn)
    counts = np.bincount(np.concatenate(drawn), minlength=6)
    assert counts.min() > 70  # 100 expected of each client
    other = Federation(fed.engine, fed.trainer, replace(fed.settings, seed=1))
    assert drawn != [other.cohort(t) for t in range(1, 200)]


@pytest.mark.parametrize("setting", ["settings", "spec", "seed", "plan"])
def test_what_a_federation_was_set_up_with_stays(run: Session, setting: str) -> None:
    with pytest.raises(AttributeError):
        setattr(run.fed, setting, getattr(run.fed, setting))


@pytest.mark.parametrize(("fraction", "size"), [(0.29, 29), (0.001, 1), (1.0, 100), (0.07, 7), (0.999, 99)])
def test_cohort_size_is_floor_of_fraction_at_least_one(run: Session, fraction: float, size: int) -> None:
    """⌊0.29 · 100⌋ is 29, although 0.29 * 100 is 28.999…"""

    class Hundred(EngineWrapper):
        def present(self, round: int) -> dict[int, int]:
            return dict.fromkeys(range(100), 5)

    fed = Federation(Hundred(run.fed.engine), run.fed.trainer, replace(run.fed.settings, fraction=fraction))
    assert len(fed.cohort(1)) == size


def test_clients_without_samples_are_never_sampled(run: Session) -> None:
    class Some(EngineWrapper):
        def present(self, round: int) -> dict[int, int]:
            return {0: 5, 1: 0, 2: 5, 3: 0}

    fed = Federation(Some(run.fed.engine), run.fed.trainer, replace(run.fed.settings, fraction=1.0))
    assert fed.clients == (0, 1, 2, 3)
    assert fed.cohort(1) == [0, 2]


def test_the_ledger_counts_what_is_sent_by_kind_client_and_round(run: Session) -> None:
    fed = run.fed
    fed.start_round(3)
    request = fed.request(Train(fed.plan), model=fed.initial())
    replies = fed.ask({1: request, 4: request})
    other = fed.request(ClassCounts())
    counted = fed.ask({1: other})
    measured = fed.request(Evaluate("own"))
    fed.ask({0: measured})
    ledger = fed.ledger
    assert ledger.by_kind["train"]["down"] == 2 * len(wire.encode(request))
    assert ledger.by_kind["train"]["up"] == sum(len(wire.encode(reply)) for reply in replies.values())
    assert ledger.by_kind["classcounts"]["up"] == len(wire.encode(counted[1]))
    assert ledger.by_kind["evaluate"]["down"] == len(wire.encode(measured))
    assert ledger.total("down") == 2 * len(wire.encode(request)) + len(wire.encode(other))
    assert ledger.by_client[4]["down"] == len(wire.encode(request))
    assert 0 not in ledger.by_client
    assert ledger.by_round[3]["up"] == ledger.total("up")


def spoilt_params(change: Any) -> Any:
    def spoil(reply: Reply) -> Reply:
        trained = reply.answer(TrainReply)
        name = next(iter(trained.params))
        params = change({**trained.params}, name)
        return replace(reply, answers=(replace(trained, params=params),))

    return spoil


NONSENSE = {
    "NaN": spoilt_params(lambda p, n: {**p, n: np.full_like(p[n], np.nan)}),
    "infinity": spoilt_params(lambda p, n: {**p, n: np.full_like(p[n], np.inf)}),
    "shape": spoilt_params(lambda p, n: {**p, n: p[n][:1]}),
    "type": spoilt_params(lambda p, n: {**p, n: p[n].astype(np.float64)}),
    "missing": spoilt_params(lambda p, n: {k: v for k, v in p.items() if k != n}),
    "unasked": spoilt_params(lambda p, n: {**p, "extra": p[n]}),
    "round": lambda reply: replace(reply, round=reply.round + 1),
    "no answer": lambda reply: replace(reply, answers=()),
    "other answer": lambda reply: replace(reply, answers=(ClassCountsReply(np.zeros(10, int)),)),
    "two answers": lambda reply: replace(reply, answers=reply.answers * 2),
    "negative samples": lambda reply: replace(reply, answers=(replace(reply.answers[0], samples=-1),)),
    "loss": lambda reply: replace(reply, answers=(replace(reply.answers[0], loss=float("nan")),)),
}


@pytest.mark.parametrize("kind", NONSENSE)
def test_nonsense_is_noted_and_ignored(run: Session, kind: str) -> None:
    fed = run.fed
    request = fed.request(Train(fed.plan), model=fed.initial())
    assert set(fed.ask({0: request, 1: request})) == {0, 1}
    spoil = NONSENSE[kind]
    fed.wrap_engine(lambda inner: RecordingEngine(inner, lambda reply, _: spoil(reply) if reply.client == 1 else reply))
    fed.start_round(1)
    request = fed.request(Train(fed.plan), model=fed.initial())
    assert set(fed.ask({0: request, 1: request})) == {0}
    assert [event["kind"] for event in fed.events.save()] == ["invalid"]


def test_a_client_keeps_one_result_a_round(run: Session) -> None:
    """A second one would start from the state before the first, and silently replace it."""
    fed = run.fed
    request = fed.request(Train(fed.plan), model=fed.initial())
    fed.ask({0: request})
    with pytest.raises(ValueError, match="client 0 is asked twice in round 0"):
        fed.ask({0: request})
    fed.ask({0: fed.request(Train(fed.plan, keep=False), model=fed.initial())})


@dataclass(frozen=True)
class Remember(Verb):
    """A verb that changes what a client keeps, and is no training."""

    answer_type = ClassCountsReply

    def keeps_state(self) -> bool:
        return True

    def error_in(self, answer: Any, request: Request, template: Params) -> None:
        return None

    def largest_answer(self, request: Request, template: Params) -> int:
        return 0


def test_any_verb_that_keeps_something_makes_scores_stale_and_is_asked_once_a_round(
    run: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    fed = run.fed
    monkeypatch.setattr(wire, "size", lambda message: 0)
    fed.wrap_engine(lambda inner: ScriptedEngine(inner, lambda client, request: ClassCountsReply(np.zeros(10, int))))
    request = Request(0, fed.seed, fed.spec, (Remember(),), kind="remember")
    assert set(fed.ask({2: request})) == {2}
    assert fed.stale_clients == {2}
    with pytest.raises(ValueError, match="client 2 is asked twice in round 0 to change what it keeps"):
        fed.ask({2: request})


def test_wrong_descriptions_are_ignored(run: Session) -> None:
    fed = run.fed
    request = fed.request(Signature(p=2), ClassCounts(), Losses(("initial",)))
    assert set(fed.ask({0: request})) == {0}
    changes: dict[str, Any] = {}

    def spoil(reply: Reply, request: Request) -> Reply:
        answers = [changes.get(type(answer).__name__, answer) for answer in reply.answers]
        return replace(reply, answers=tuple(answers))

    fed.wrap_engine(lambda inner: RecordingEngine(inner, spoil))

    def answers(**changed: Any) -> dict[int, Reply]:
        changes.clear()
        changes.update(changed)
        return fed.ask({0: request})

    assert answers() != {}
    assert answers(SignatureReply=SignatureReply(np.zeros((64, 3), np.float32), np.full(3, -1))) == {}
    assert answers(SignatureReply=SignatureReply(np.full((64, 2), np.nan, np.float32), np.full(2, -1))) == {}
    assert answers(ClassCountsReply=ClassCountsReply(np.zeros(9, int))) == {}
    assert answers(ClassCountsReply=ClassCountsReply(np.full(10, -1))) == {}
    assert fed.events.count == 4


def test_mean_loss_and_discrepancy_are_those_of_the_replies(run: Session) -> None:
    fed = run.fed
    model = fed.initial()
    replies = fed.ask(dict.fromkeys((0, 2), fed.request(Train(fed.plan), model=model)))
    trained = [reply.answer(TrainReply) for reply in replies.values()]
    flat = [np.concatenate([(t.params[n] - model[n]).ravel() for n in model]).astype(float) for t in trained]
    discrepancy = fed.training.discrepancy(lambda client: model)
    assert discrepancy == pytest.approx(np.mean([np.linalg.norm(f) for f in flat]), rel=1e-5)
    assert fed.training.discrepancy(lambda client: None) is None
    assert fed.training.mean_loss == pytest.approx(np.mean([t.loss for t in trained]))


def test_the_server_cannot_reach_client_arrays() -> None:
    """No public attribute, followed from the federation or the method as deep as it goes, leads to clients' samples."""
    config = settings_to_config(None, SMALL)
    data = load_data(config)
    with session(completed(config, data), data, MemoryStore(), TorchTrainer()) as run:
        for _ in rounds(run.fed, run.algorithm, run.evaluator, every=2):
            pass
        arrays = list(reachable(run.fed)) + list(reachable(run.algorithm)) + list(reachable(run.evaluator))
    assert any(array is run.fed.settings.server_data.x for array in arrays)  # the walk does find what the server owns
    for array in arrays:
        assert not np.shares_memory(array, data.train.x)
        assert not np.shares_memory(array, data.test.x)
        if array.ndim > 1 and array.shape[1:] == data.shape:
            rows = {row.tobytes() for row in np.asarray(array, np.float32)}
            assert not rows & {row.tobytes() for row in data.normalise(data.train.x)}


def reachable(root: object) -> Iterator[np.ndarray]:
    seen: set[int] = set()
    queue: list[object] = [root]
    while queue:
        item = queue.pop()
        if id(item) in seen or isinstance(item, str | bytes | int | float | type):
            continue
        seen.add(id(item))
        if isinstance(item, np.ndarray):
            yield item
        elif isinstance(item, Mapping):
            queue += [*item.keys(), *item.values()]
        elif isinstance(item, list | tuple | set):
            queue += list(item)
        elif type(item).__module__.startswith("coterie"):
            queue += [getattr(item, name) for name in dir(item) if not name.startswith("_")]
