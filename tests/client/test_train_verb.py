"""Train: from which start, on which samples, what is kept and what is sent."""

from dataclasses import replace

import numpy as np
import pytest
from client_world import CLASSES, ID, PLAN, SEED, SPEC, World, equal, local_data, model, normalise, same, who

from coterie.client import Client, MemoryStore
from coterie.messages import (
    Anchor,
    ClassCounts,
    ClassCountsReply,
    Evaluate,
    EvaluateReply,
    Failure,
    Losses,
    Reply,
    Request,
    Schedule,
    Train,
    TrainReply,
    wire,
)
from coterie.models import initial
from coterie.streams import stream
from coterie.training import Job
from coterie.training.torch_trainer import TorchTrainer


def by_hand(world: World, start: dict[str, np.ndarray], round: int, purpose: str = "train") -> dict[str, np.ndarray]:
    """What training must lead to: the plan, on the client's samples, with the stream of this client and round."""
    x, y = normalise(world.data.x[world.data.train]), world.data.y[world.data.train]
    return TorchTrainer().train(Job(SPEC, PLAN, start, x, y, stream(SEED, purpose, ID, round))).params


def test_training_starts_from_the_model_that_was_sent() -> None:
    world = World()
    trained = world.reply(1, Train(PLAN), model=model(1)).answer(TrainReply)
    assert equal(trained.params, by_hand(world, model(1), 1))
    assert (trained.samples, trained.steps) == (30, 10)
    assert trained.control == {}
    assert not equal(trained.params, model(1))


def test_the_client_goes_on_from_its_own_model() -> None:
    world = World()
    first = world.reply(1, Train(PLAN, start=("own",))).answer(TrainReply).params
    assert equal(first, by_hand(world, initial(SPEC, SEED), 1))
    second = world.reply(4, Train(PLAN, start=("own",))).answer(TrainReply).params
    assert equal(second, by_hand(world, first, 4))


def test_rounds_and_purposes_shuffle_differently() -> None:
    world = World()
    ends = [
        world.reply(round, Train(PLAN, keep=False, purpose=purpose), model=model(1)).answer(TrainReply).params
        for round, purpose in ((1, "train"), (2, "train"), (1, "fine-tune"))
    ]
    assert equal(ends[2], by_hand(world, model(1), 1, "fine-tune"))
    assert not equal(ends[0], ends[1])
    assert not equal(ends[0], ends[2])


def test_models_are_laid_over_each_other() -> None:
    """One's own model with the layers that were sent on top (LG-FedAvg)."""
    world = World()
    own = world.reply(1, Train(PLAN), model=model(1)).answer(TrainReply).params
    sent = {"fc.bias": np.arange(CLASSES, dtype=np.float32)}
    world.reply(2, Train(PLAN, start=("own", "model")), model=sent)
    assert equal(world.trainer.jobs[-1].start, {"fc.weight": own["fc.weight"], "fc.bias": sent["fc.bias"]})
    world.reply(3, Train(PLAN, start=("model", "initial"), keep=False), model=sent)
    assert equal(world.trainer.jobs[-1].start, initial(SPEC, SEED))


def test_a_client_that_never_trained_lays_layers_over_the_common_start() -> None:
    world = World()
    sent = {"fc.bias": np.arange(CLASSES, dtype=np.float32)}
    world.reply(1, Train(PLAN, start=("own", "model")), model=sent)
    common = initial(SPEC, SEED)
    assert equal(world.trainer.jobs[-1].start, {"fc.weight": common["fc.weight"], "fc.bias": sent["fc.bias"]})


def test_laying_over_changes_neither_the_state_nor_what_was_sent() -> None:
    world = World()
    world.reply(1, Train(PLAN), model=model(1))
    before = {name: value.copy() for name, value in world.state(1)["model"].items()}
    sent = {"fc.bias": np.arange(CLASSES, dtype=np.float32)}
    world.reply(2, Train(PLAN, start=("own", "model"), keep=False), model=sent)
    assert equal(world.state(9)["model"], before)
    assert equal(sent, {"fc.bias": np.arange(CLASSES, dtype=np.float32)})


def test_keep_makes_the_result_the_own_model_and_not_keeping_leaves_it() -> None:
    world = World()
    kept = world.reply(1, Train(PLAN), model=model(1)).answer(TrainReply).params
    assert equal(world.state(1)["model"], kept)
    passing = world.reply(2, Train(PLAN, keep=False), model=model(2)).answer(TrainReply).params
    assert equal(world.state(9)["model"], kept)
    assert not equal(passing, kept)
    world.reply(3, Train(PLAN, start=("own",)))
    assert equal(world.trainer.jobs[-1].start, kept)


def test_all_some_or_none_of_the_parameters_are_sent() -> None:
    world = World()

    def sent(send: bool | tuple[str, ...]) -> dict[str, np.ndarray]:
        return dict(world.reply(1, Train(PLAN, send=send), model=model(1)).answer(TrainReply).params)

    everything = sent(True)
    assert set(everything) == {"fc.weight", "fc.bias"}
    assert sent(False) == {}
    assert sent(()) == {}
    assert equal(sent(("fc.b",)), {"fc.bias": everything["fc.bias"]})
    assert equal(sent(("x", "fc.")), everything)
    assert sent(("bias", "weight")) == {}
    assert equal(world.state(1)["model"], everything)  # kept whole, whatever was sent


def test_anchors_are_found_by_name() -> None:
    world = World()
    own = world.reply(1, Train(PLAN), model=model(1)).answer(TrainReply).params
    plan = replace(PLAN, anchors=(Anchor("own", 0.1), Anchor("initial", 0.2), Anchor("centre", 0.3)))
    world.reply(2, Train(plan), model=model(2), centre=model(3))
    anchors = world.trainer.jobs[-1].anchors
    assert [strength for _, strength in anchors] == [0.1, 0.2, 0.3]
    assert all(equal(a, b) for (a, _), b in zip(anchors, (own, initial(SPEC, SEED), model(3)), strict=True))


def test_a_mask_is_sent_or_the_clients_own() -> None:
    mask = {"fc.weight": (np.arange(24).reshape(4, 6) % 3 > 0).astype(np.float32)}
    world = World()
    trained = world.reply(1, Train(replace(PLAN, mask="m")), model=model(1), m=mask).answer(TrainReply).params
    assert np.all((trained["fc.weight"] == 0) == (mask["fc.weight"] == 0))
    assert "mask" not in world.state(1)  # one that was sent does not become the client's

    world.store.save(ID, 2, {"model": model(2), "mask": mask})
    own = world.reply(3, Train(replace(PLAN, mask="own")), model=model(1)).answer(TrainReply).params
    assert np.all((own["fc.weight"] == 0) == (mask["fc.weight"] == 0))
    assert equal(world.state(3)["mask"], mask)  # what training does not touch stays


def test_without_an_own_mask_nothing_is_masked() -> None:
    world = World()
    trained = world.reply(1, Train(replace(PLAN, mask="own")), model=model(1)).answer(TrainReply).params
    assert equal(trained, by_hand(world, model(1), 1))


def test_the_result_can_be_evaluated_in_the_same_request() -> None:
    world = World()
    reply = world.reply(
        1, Evaluate("own"), Train(PLAN, keep=False), Evaluate("trained"), Evaluate("own"), model=model(1)
    )
    alone = World().reply(1, Evaluate("m"), Evaluate("initial"), m=by_hand(world, model(1), 1))
    assert reply.answer(EvaluateReply, 1) == alone.answer(EvaluateReply, 0)
    assert reply.answer(EvaluateReply, 0) == reply.answer(EvaluateReply, 2) == alone.answer(EvaluateReply, 1)
    assert reply.answer(EvaluateReply, 0) != reply.answer(EvaluateReply, 1)


SHARES = [0.1, 0.25, 0.5]


@pytest.mark.parametrize("share", SHARES)
def test_the_hold_out_is_the_same_every_time_and_never_trained_on(share: float) -> None:
    world = World()
    held = int(share * 30)
    plan = replace(PLAN, holdout=share)
    trained_on, held_out = [], []
    for round in (1, 2, 7):
        reply = world.reply(round, Train(plan), Evaluate("model", on="holdout", share=share), model=model(1))
        assert reply.answer(TrainReply).samples == 30 - held
        assert reply.answer(TrainReply).steps == 2 * -(-(30 - held) // 7)
        assert reply.answer(EvaluateReply).samples == held
        trained_on.append(sorted(who(world.trainer.jobs[-1].x)))
        held_out.append(sorted(who(world.trainer.seen[-1])))
        world.reply(round, Losses(("model",), on="holdout", share=share), model=model(1))
        held_out.append(sorted(who(world.trainer.seen[-1])))
    assert all(samples == trained_on[0] for samples in trained_on)
    assert all(samples == held_out[0] for samples in held_out)
    assert not set(trained_on[0]) & set(held_out[0])
    assert sorted(trained_on[0] + held_out[0]) == sorted(world.data.train)


def test_the_samples_of_the_hold_out_keep_their_labels() -> None:
    world = World()
    world.reply(1, Train(replace(PLAN, holdout=0.3)), model=model(1))
    job = world.trainer.jobs[-1]
    np.testing.assert_array_equal(job.y, world.data.y[who(job.x)])


def test_clients_and_seeds_hold_out_different_samples() -> None:
    data = local_data()
    parts = [set(data.training_part(0.3, seed, client)[1]) for seed, client in ((5, 3), (5, 4), (6, 3))]
    assert parts[0] != parts[1]
    assert parts[0] != parts[2]


def test_a_small_hold_out_of_few_samples_is_empty() -> None:
    world = World(local_data(train=9))
    reply = world.reply(1, Train(replace(PLAN, holdout=0.1)), Evaluate("model", on="holdout"), model=model(1))
    assert reply.answer(TrainReply).samples == 9
    assert reply.answer(EvaluateReply) == EvaluateReply(0, 0, 0.0)


def test_without_samples_the_model_comes_back_as_it_was() -> None:
    world = World(local_data(train=0))
    trained = world.reply(1, Train(PLAN), model=model(1)).answer(TrainReply)
    assert (trained.samples, trained.steps, trained.loss) == (0, 0, 0.0)
    assert equal(trained.params, model(1))


def test_samples_may_change_with_the_rounds() -> None:
    """Concept drift; a round that is asked again sees the samples of that round."""
    world, other = World(), local_data()
    half = replace(other, train=other.train[:10])
    client = Client(
        ID, {0: world.data, 3: half, 5: replace(other, train=other.train[10:12])}, world.store, world.trainer
    )
    for round, count in ((0, 30), (2, 30), (3, 10), (4, 10), (3, 10), (2, 30), (5, 2), (9, 2)):
        reply = client.answer(Request(round, SEED, SPEC, (Train(PLAN), ClassCounts()), {"model": model(1)}))
        assert isinstance(reply, Reply)
        assert reply.answer(TrainReply).samples == reply.answer(ClassCountsReply).counts.sum() == count


def test_divergence_is_a_failure_that_leaves_the_old_state() -> None:
    world = World()
    kept = world.reply(1, Train(PLAN), model=model(1)).answer(TrainReply).params
    failure = world.ask(2, Train(replace(PLAN, lr=Schedule(1e38))), model=model(1))
    assert isinstance(failure, Failure)
    assert (failure.client, failure.round, failure.kind) == (ID, 2, "diverged")
    assert "step 1" in failure.detail
    assert equal(world.state(9)["model"], kept)
    world.reply(3, Train(PLAN, start=("own",)))
    assert equal(world.trainer.jobs[-1].start, kept)


def test_of_a_request_that_fails_half_way_nothing_is_kept() -> None:
    world = World()
    kept = world.reply(1, Train(PLAN), model=model(1)).answer(TrainReply).params
    bad = Train(replace(PLAN, lr=Schedule(1e38)))
    assert isinstance(world.ask(2, Train(PLAN), bad, model=model(2)), Failure)
    assert equal(world.state(9)["model"], kept)


def test_a_received_model_of_nans_is_a_failure() -> None:
    world = World()
    nan = {**model(1), "fc.bias": np.full(CLASSES, np.nan, np.float32)}
    failure = world.ask(1, Train(PLAN), model=nan)
    assert isinstance(failure, Failure)
    assert failure.kind == "diverged"
    assert world.state(9) == {}


REQUESTS = {
    "from the sent model": (Train(PLAN),),
    "from its own": (Train(PLAN, start=("own",)), Evaluate("own"), Evaluate("trained")),
    "layers over its own": (Train(PLAN, start=("own", "layers")),),
    "SCAFFOLD": (Train(replace(PLAN, correction="control")),),
    "the best of two": (Losses(("model", "other")), Train(PLAN, start=("best",))),
    "twice": (Train(PLAN, start=("own",)), Train(PLAN, start=("own",), purpose="again")),
    "not kept": (Train(PLAN, start=("own",), keep=False), Evaluate("trained")),
}
MODELS = {"model": model(1), "other": model(2), "layers": {"fc.bias": model(3)["fc.bias"]}, "control": model(4)}


@pytest.mark.parametrize("verbs", REQUESTS.values(), ids=REQUESTS)
def test_asking_a_round_again_gives_the_same_reply(verbs: tuple[Train, ...]) -> None:
    world = World()
    world.reply(1, Train(replace(PLAN, correction="control"), start=("own",)), **MODELS)
    first = world.reply(2, *verbs, **MODELS)
    after = world.state(2)
    for _ in range(2):
        assert same(world.reply(2, *verbs, **MODELS), first)
        assert same(world.state(2), after)


@pytest.mark.parametrize("verbs", REQUESTS.values(), ids=REQUESTS)
def test_what_a_lost_attempt_left_is_forgotten(verbs: tuple[Train, ...]) -> None:
    """The server died in round 2 after this client had trained; when it asks again all is as if it never had."""
    world, undisturbed = World(), World()
    for w in (world, undisturbed):
        w.reply(1, Train(PLAN, start=("own",)), **MODELS)
    if REQUESTS["not kept"] != verbs:
        world.reply(2, Train(PLAN), model=model(9))
    for round, asked in ((2, verbs), (3, (Train(PLAN, start=("own",)), Evaluate("own")))):
        assert same(world.reply(round, *asked, **MODELS), undisturbed.reply(round, *asked, **MODELS))


def test_the_latest_state_is_what_is_evaluated() -> None:
    world = World()
    trained = world.reply(3, Train(PLAN), model=model(1)).answer(TrainReply).params
    for round in (3, 4):
        own = world.reply(round, Evaluate("own"), Evaluate("m"), m=trained)
        assert own.answers[0] == own.answers[1]


def test_clients_of_one_store_do_not_meet() -> None:
    store = MemoryStore()
    worlds = [World(store=store, id=id) for id in (0, 1)]
    ends = [w.reply(1, Train(PLAN), model=model(1)).answer(TrainReply).params for w in worlds]
    assert not equal(ends[0], ends[1])  # shuffled differently
    assert equal(worlds[0].state(1)["model"], ends[0])
    assert equal(worlds[1].state(1)["model"], ends[1])


def test_a_request_over_the_wire_gives_the_same_reply() -> None:
    """Which arrives read-only, and must be as good."""
    plan = replace(PLAN, correction="control", mask="mask", anchors=(Anchor("other", 0.1),))
    mask = {"fc.weight": np.ones((4, 6), np.float32)}
    verbs = (Losses(("model", "other")), Train(plan, start=("best", "layers")), Evaluate("own"), Evaluate("other"))
    request = Request(1, SEED, SPEC, verbs, {**MODELS, "mask": mask})
    arrived = wire.decode(wire.encode(request))
    assert isinstance(arrived, Request)
    direct, distant = World().client.answer(request), World().client.answer(arrived)
    assert same(direct, distant)
    assert same(wire.decode(wire.encode(distant)), direct)
