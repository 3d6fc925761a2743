"""Means made while replies come, against means of all that came, and who of them is still in memory."""

from __future__ import annotations

import weakref
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
import pytest
from aggregation_world import START, Noted, moved

from coterie.federation import EngineWrapper, Fold, Trained, fold, spool, training
from coterie.federation.loop import rounds
from coterie.messages import ClientId, Failure, Reply, Request, TrainReply, wire
from coterie.testing import outcome, small_federation, small_run

LENGTHS = [1.0, 1.2, 0.9, 40.0, 1.1, 0.8, 1.0]


def answers() -> dict[int, TrainReply]:
    return {c: TrainReply(3 + 7 * c, 4, 0.1, moved(length, seen=c)) for c, length in enumerate(LENGTHS)}


def folded(aggregator: Noted, trained: Mapping[int, TrainReply]) -> dict[str, dict[str, np.ndarray]]:
    fold = Fold[str](aggregator)
    for client, answer in trained.items():
        fold.add("ab"[client % 2], fold.contribution(client, answer, START))
    return fold.means()


def test_a_fold_is_the_sum_over_the_sum_of_samples_in_each_group() -> None:
    trained = answers()
    means = folded(Noted(), trained)
    for group, clients in {"a": [0, 2, 4, 6], "b": [1, 3, 5]}.items():
        total = sum(trained[c].samples for c in clients)
        for name in ("fc.weight", "bn.running_var"):
            wanted = sum(trained[c].samples * trained[c].params[name].astype(np.float64) for c in clients) / total
            np.testing.assert_array_equal(means[group][name], wanted.astype(np.float32))
        assert means[group]["bn.num_batches_tracked"] == max(clients)
        assert not means[group]["fc.weight"].flags.writeable


@pytest.mark.parametrize("rule", ["mean", "clipped", "median", "trimmed", "krum"])
@pytest.mark.parametrize("max_weight", [None, 1.5])
def test_by_any_rule_a_fold_gives_what_all_together_give(
    rule: str, max_weight: float | None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Bit for bit, with the same events; of ``clipped`` although all models wait on disk."""
    monkeypatch.setattr(spool, "WAITING_IN_MEMORY", 0)
    trained, declared = answers(), {c: 3 + 7 * c for c in range(7)}
    folding, together = (Noted(declared, rule=rule, max_weight=max_weight) for _ in range(2))
    folding.scratch = tmp_path
    got = folded(folding, trained)
    groups: dict[str, list[fold.Contribution]] = {"a": [], "b": []}
    for member in together.contributions(trained, START):
        groups["ab"[member.client % 2]].append(member)
    wanted = together.averages(groups)
    assert got.keys() == wanted.keys()
    for group in wanted:
        for name, value in wanted[group].items():
            np.testing.assert_array_equal(got[group][name], value)
    assert (folding.events, folding.usual) == (together.events, together.usual)


def test_what_was_trained_comes_once() -> None:
    replies = [Reply(client, 1, (answer,)) for client, answer in answers().items()]
    trained = Trained(iter(replies))
    assert trained  # looking for the first takes nothing away
    assert [client for client, _ in trained.items()] == [*range(7)] == trained.clients
    with pytest.raises(RuntimeError, match=r"dict\(trained.items\(\)\)"):
        trained.items()
    assert not Trained([])


class Counting(EngineWrapper):
    """Says of how many replies the first model is in memory at the same time."""

    now = most = 0

    def exchange(self, requests: Mapping[ClientId, Request], deadline: float | None) -> Iterator[Reply | Failure]:
        for answer in self.inner.exchange(requests, deadline):
            sent = wire.decode(wire.encode(answer))  # arrays of its own: in one process a client's store has the others
            assert isinstance(sent, Reply)
            models = [part.params for part in sent.answers if isinstance(part, TrainReply) and part.params]
            if models:
                self.now += 1
                weakref.finalize(next(iter(models[0].values())), self.forget)
            del models
            self.most = max(self.most, self.now)
            yield sent

    def forget(self) -> None:
        self.now -= 1


FOLDING = [
    "fedavg", "fedprox", "fednova", "scaffold", "ditto", "mr-mtl", "pfedme", "apfl", "per-fedavg", "fedper", "fedrep",
    "fedbabu", "lg-fedavg", "ifca", "pacfl", "kindred", "fedclust", "fielding", "stocfl", "fedsoft", "fedgroup",
    "feddrift", "flis-hc",
]  # fmt: skip


@pytest.mark.integration
@pytest.mark.parametrize("method", FOLDING)
def test_methods_that_average_hold_a_few_models_however_many_come(method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """One in the method's hands, and one on its way there: with one worker they come in order."""
    monkeypatch.setattr(training, "MOST_RETURNED", 0)
    with small_federation(method, clients=12, fraction=1.0, rounds=2, workers=1) as (run, _):
        run.algorithm.begin(run.fed)
        run.fed.start_round(1)
        engine = run.fed.wrap_engine(Counting)
        run.algorithm.round(run.fed, run.fed.cohort(1))
        engine.now = engine.most = 0
        run.fed.start_round(2)
        run.algorithm.round(run.fed, run.fed.cohort(2))
        assert 0 < engine.most <= 3


@pytest.mark.integration
def test_where_replies_wait_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Early ones, those of whom it is not certain whether they count, and those whose median length is awaited."""
    settings = {"workers": 3, "oversample": 0.5, "drop": 0.2, "min_replies": 2, "aggregation": "clipped"}
    in_memory = outcome(small_run("scaffold", **settings))
    monkeypatch.setattr(spool, "WAITING_IN_MEMORY", 0)
    assert outcome(small_run("scaffold", **settings)) == in_memory


def test_there_is_no_discrepancy_of_more_models_than_memory_is_meant_for(monkeypatch: pytest.MonkeyPatch) -> None:
    with small_federation("fedavg") as (run, _):
        size = sum(value.nbytes for value in run.fed.initial().values())
        for most, known in ((3 * size, True), (3 * size - 1, False)):  # cohorts have three
            monkeypatch.setattr(training, "MOST_RETURNED", most)
            for _ in rounds(run.fed, run.algorithm, run.evaluator, every=10):
                pass
            found = run.fed.training.discrepancy(run.algorithm.model_for)
            assert ((found is not None), run.fed.training.replies) == (known, 3)
            run.fed._asked_to_keep.clear()
