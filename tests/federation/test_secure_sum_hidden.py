"""Hidden choices: the models are those without masks, and nothing tells who chose which."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("cryptography")

import coterie
from coterie.client.verbs.masked_train import in_slot, summand
from coterie.errors import CoterieError
from coterie.federation.group_sum import GroupSum, ImpossibleSum
from coterie.federation.loop import rounds
from coterie.federation.shared_secrets import SharedSecrets
from coterie.messages import (
    Array,
    Failure,
    Losses,
    LossesReply,
    MaskedReply,
    MaskedTrain,
    Masking,
    ModelSpec,
    Params,
    Plan,
    Reply,
    Request,
    Schedule,
    Train,
    TrainReply,
    UnmaskReply,
)
from coterie.messages.masking import SumLayout
from coterie.models import initial
from coterie.run.progress import Progress
from coterie.secure import Words, zeros
from coterie.testing import RecordingEngine, needs_nothing_but_messages, outcome, small_federation, small_run

EQUAL: dict[str, Any] = {"algorithm_options": {"weights": "equal"}, "groups": 3, "fraction": 1.0}
HIDDEN: dict[str, Any] = {"secure": True, "secure_min": 3, "secure_hidden": True}
Change = Callable[[Reply, Request], Reply | Failure]


def trained(change: Change = lambda reply, request: reply, **settings: Any) -> tuple[list[Params], Any, Any]:
    """Run ifca on clients with different samples; return its models, what passed, and the run."""
    unequal: dict[str, Any] = {"dataset": "digits", "partition": "dirichlet", "partition_options": {"alpha": 1.0}}
    with small_federation("ifca", **{**EQUAL, **unequal, "rounds": 2, **settings}) as (run, _):
        passed = run.fed.wrap_engine(lambda engine: RecordingEngine(engine, change))
        for _ in rounds(run.fed, run.algorithm, run.evaluator, every=1):
            pass
        return run.algorithm.models, passed, run  # type: ignore[attr-defined]


def apart(a: list[Params], b: list[Params]) -> float:
    return max(float(np.abs(x[name] - y[name]).max()) for x, y in zip(a, b, strict=True) for name in x)


def lost_in(step: str) -> Change:
    def change(reply: Reply, request: Request) -> Reply | Failure:
        gone = reply.client == 4 and step in {type(verb).__name__ for verb in request.verbs}
        return Failure(4, request.round, "dropped") if gone else reply

    return change


@pytest.mark.integration
@pytest.mark.parametrize("step", [None, "MaskedTrain"])
def test_models_are_those_without_masks_and_nothing_tells_who_chose_which(step: str | None) -> None:
    """Also models that fewer than `secure_min` chose; all clients are asked the same, and send as many numbers."""
    plain, _, run = trained(*([] if step is None else [lost_in("Train")]))
    counts = np.bincount([*run.algorithm.groups().values()], minlength=3)
    assert 0 < counts[counts > 0].min() < 3  # which no sum of its own could have
    secure, passed, run = trained(*([] if step is None else [lost_in(step)]), **HIDDEN)
    assert apart(secure, plain) < 2e-5
    assert apart(secure, [run.fed.initial(k) for k in range(3)]) > 1e-2
    assert run.algorithm.groups() is None
    assert "too few" not in run.fed.events.kinds
    told = [part for reply in passed.replies.values() for part in reply.answers if isinstance(part, LossesReply)]
    assert told
    assert all(part == LossesReply(0, (), (), ()) for part in told)
    for exchange in passed.exchanges:
        asked = {repr(verb) for request in exchange.values() for verb in request.verbs if isinstance(verb, Train)}
        assert len(asked) <= 1
        assert len({tuple(sorted(request.models)) for request in exchange.values()}) == 1
    sizes = {
        (part.wide.size, part.narrow.size)
        for reply in passed.replies.values()
        for part in reply.answers
        if isinstance(part, MaskedReply)
    }
    assert len(sizes) == 1


@pytest.mark.integration
def test_a_round_is_two_exchanges_where_everybody_takes_part_again() -> None:
    _, passed, _ = trained(**HIDDEN)
    asked = [[r for r in exchange.values() if r.round == 2 and not r.measures] for exchange in passed.exchanges]
    steps = [{type(verb).__name__ for request in each for verb in request.verbs} for each in asked if each]
    assert steps == [{"Losses", "MaskedTrain"}, {"Unmask"}]


@pytest.mark.integration
def test_a_sum_that_can_not_be_changes_no_model() -> None:
    def change(reply: Reply, request: Request) -> Reply | Failure:
        wrong = [
            UnmaskReply(tuple("00" * 33 for _ in part.shares)) if isinstance(part, UnmaskReply) else part
            for part in reply.answers
        ]
        return replace(reply, answers=tuple(wrong)) if reply.client == 0 else reply

    secure, _, run = trained(change, **HIDDEN)
    assert apart(secure, [run.fed.initial(k) for k in range(3)]) == 0
    assert run.fed.events.kinds["invalid"]["count"] == 2


SPEC, SLOTS = ModelSpec("mclr", (4,), 3), ("model0", "model1", "model2")
MASKING = Masking((0, 1, 2, 3), 3, "equal", 10.0, 1.0, 1.0, slots=SLOTS)
MODELS = {name: initial(SPEC, 0, k) for k, name in enumerate(SLOTS)}
REQUEST = Request(1, 0, SPEC, (Losses(SLOTS, hidden=True), Train(Plan(Schedule(0.1)), start=("best",))), MODELS)


def group(survivors: int = 4) -> GroupSum:
    found = GroupSum(REQUEST, SharedSecrets(0, 1), masking=MASKING, survivors=[*range(survivors)])
    assert found.slots == SLOTS
    return found


def brought(update: float, choice: int, steps: int = 5, loss: float = 0.5) -> Words:
    """Return what a client adds to the sum whose numbers all changed by so much."""
    start, layout = MODELS[SLOTS[choice]], group().layout
    params = {name: np.asarray(value + update) for name, value in start.items()}
    x = summand(TrainReply(20, steps, loss, params), start, layout, MASKING, Plan(Schedule(0.1)))
    return in_slot(x, choice, len(SLOTS))


def total(*each: Words) -> Words:
    words = zeros(*group().layout.sizes)
    for one in each:
        words.add(one)
    return words


def test_slots_have_the_means_of_those_who_chose_them() -> None:
    means = group().choices(total(brought(0.1, 0), brought(0.3, 0), brought(-0.5, 2, loss=1.0), brought(0.2, 0)))
    assert {k: mean.clients for k, mean in means.chosen.items()} == {0: 3, 2: 1}
    for k, change in ((0, 0.2), (2, -0.5)):
        for name, value in means.chosen[k].params.items():
            np.testing.assert_allclose(value, MODELS[SLOTS[k]][name] + change, atol=1e-6)
    assert means.loss == pytest.approx(0.625)


def test_who_of_those_with_equal_updates_is_in_a_slot_does_not_change_a_bit() -> None:
    """Though they differ in steps and losses, by which the server could know them."""
    first = total(brought(0.1, 0, steps=3, loss=0.2), brought(0.1, 1, steps=70, loss=2.0))
    second = total(brought(0.1, 1, steps=3, loss=0.2), brought(0.1, 0, steps=70, loss=2.0))
    # Their start differs by model, so that Δ is rounded to the same words only within float32.
    assert np.array_equal(first.wide, second.wide)
    assert np.abs((first.narrow - second.narrow).view(np.int32)).max() <= 2**30 / 4 / 10 * 1e-6


def test_counters_of_steps_are_in_no_slot() -> None:
    template: dict[str, Array] = {
        "w": np.zeros(3, np.float32),
        "bn.running_mean": np.zeros(2, np.float32),
        "bn.num_batches_tracked": np.zeros((), np.int64),
    }
    verb = MaskedTrain(Plan(Schedule(0.1)), start=("best",), masking=MASKING)
    layout = verb.layout(REQUEST, template, frozenset())
    assert layout.sizes == (3 * (2 + 6), 3 * 3)
    seen = replace(verb, masking=replace(MASKING, slots=None)).layout(REQUEST, template, frozenset())
    assert seen == SumLayout.of(template, [*template], [])


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda x: x.wide.__setitem__(0, x.wide[0] + np.uint64(2**60)), "how often models were chosen"),
        (lambda x: x.narrow.__setitem__(len(x.narrow) // 3 + 1, 5), "a model that nobody chose"),
        (lambda x: x.narrow.__setitem__(slice(0, 15), 2**29), "long, where"),
    ],
)
def test_sums_that_no_honest_clients_have(change: Callable[[Words], None], why: str) -> None:
    words = total(*[brought(0.01, 0)] * 4)
    group().choices(words)
    change(words)
    with pytest.raises(ImpossibleSum, match=why):
        group().choices(words)


def test_one_who_is_in_two_slots_is_seen() -> None:
    twice = total(brought(0.1, 0), brought(0.1, 1), brought(0.1, 2))
    with pytest.raises(ImpossibleSum, match="2 clients chose"):
        group(2).choices(twice)


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"algorithm": "pacfl"}, "there is nothing to hide .*secure_hidden"),
        ({"algorithm": "fedavg"}, "there is nothing to hide"),
        ({"algorithm": "ifca"}, "use its option weights = equal"),
        ({"algorithm": "ifca", "algorithm_options": {"weights": "equal", "init_retry": 3}}, "init_retry asks"),
        ({"algorithm": "ifca", "secure": False}, "write secure=True too"),
    ],
)
def test_what_is_refused_of_hidden_choices(settings: dict[str, Any], why: str) -> None:
    with pytest.raises(CoterieError, match=why):
        coterie.run(dataset="digits", **{"secure": True, "secure_hidden": True, **settings})


class BreaksOff(Progress):
    """Ends a run after a number of answers."""

    def __init__(self, answers: int) -> None:
        self.left = answers

    def clients(self, done: int, total: int) -> None:
        self.left -= 1
        if self.left < 0:
            raise InterruptedError


@pytest.mark.integration
def test_broken_off_with_hidden_choices_it_goes_on_to_the_same_result(tmp_path: Path) -> None:
    """A newcomer joins in the first round, and chooses as hidden as others do."""
    settings: dict[str, Any] = {**EQUAL, **HIDDEN, "rounds": 2, "newcomers": 0.2, "join_at": 1, "eval_every": 2}
    whole = small_run("ifca", **settings, out=str(tmp_path / "whole"))
    assert whole.newcomers is not None
    assert whole.newcomers["groups"] == [None]
    assert whole.newcomers["accuracy"]["C"] is not None
    for answers in (3, 12, 30):
        with pytest.raises(InterruptedError):
            small_run("ifca", **settings, out=str(tmp_path / str(answers)), progress=BreaksOff(answers))
        assert outcome(coterie.resume(tmp_path / str(answers))) == outcome(whole)


@pytest.mark.slow
def test_accuracy_with_hidden_choices_is_that_without_masks() -> None:
    """Within a point for each of five seeds, and their mean within 0.3, though some models are chosen by few."""
    settings: dict[str, Any] = {**EQUAL, "dataset": "digits-rotated", "rounds": 20, "groups": 4}
    lost = []
    for seed in range(5):
        plain, secure = (coterie.run(algorithm="ifca", seed=seed, **settings, **more) for more in ({}, HIDDEN))
        assert plain.accuracy["C"] is not None
        assert secure.accuracy["C"] is not None
        assert not secure.events
        lost.append(100 * (plain.accuracy["C"] - secure.accuracy["C"]))
    assert max(map(abs, lost)) <= 1, lost
    assert abs(np.mean(lost)) <= 0.3, lost


@pytest.mark.integration
def test_bytes_change_nothing_of_hidden_choices() -> None:
    needs_nothing_but_messages("ifca", Path(), **EQUAL, **HIDDEN)
