"""Evaluate, Losses, Signature and ClassCounts against brute force on the same samples."""

import math
import warnings

import numpy as np
import pytest
from client_world import (
    CLASSES,
    ID,
    PLAN,
    SEED,
    SPEC,
    World,
    equal,
    local_data,
    losses,
    model,
    normalise,
    scores,
    who,
)

from coterie.messages import (
    ClassCounts,
    ClassCountsReply,
    Evaluate,
    EvaluateReply,
    Limits,
    Losses,
    LossesReply,
    Moments,
    MomentsReply,
    Request,
    Signature,
    SignatureReply,
    Train,
    TrainReply,
)
from coterie.models import initial

PARTS = ["train", "holdout", "test"]


def samples(world: World, on: str, share: float = 0.1) -> tuple[np.ndarray, np.ndarray]:
    data = world.data
    if on == "test":
        return normalise(data.test_x[data.test]), data.test_y[data.test]
    index = data.train if on == "train" else data.training_part(share, SEED, ID)[1]
    return normalise(data.x[index]), data.y[index]


def score(world: World, params: dict[str, np.ndarray], on: str = "test", share: float = 0.1) -> tuple[int, int, float]:
    x, y = samples(world, on, share)
    return len(y), int((scores(params, x).argmax(axis=1) == y).sum()), float(losses(params, x, y).mean())


def check(answer: EvaluateReply, expected: tuple[int, int, float]) -> None:
    assert (answer.samples, answer.correct) == expected[:2]
    assert answer.loss == pytest.approx(expected[2], rel=1e-5)


@pytest.mark.parametrize("on", PARTS)
@pytest.mark.parametrize("common", [False, True])
@pytest.mark.parametrize("share", [0.1, 0.4])
def test_evaluate_on_each_part(on: str, common: bool, share: float) -> None:
    world = World(local_data(common))
    answer = world.reply(1, Evaluate("m", on=on, share=share), m=model(1)).answer(EvaluateReply)  # type: ignore[arg-type]
    check(answer, score(world, model(1), on, share))


@pytest.mark.parametrize("common", [False, True])
def test_evaluate_own_initial_trained_and_sent_models(common: bool) -> None:
    world = World(local_data(common))
    common_start = initial(SPEC, SEED)
    for name in ("own", "initial"):
        check(world.reply(1, Evaluate(name)).answer(EvaluateReply), score(world, common_start))
    reply = world.reply(1, Train(PLAN), Evaluate("trained"), Evaluate("own"), Evaluate(), model=model(1))
    trained = dict(reply.answer(TrainReply).params)
    check(reply.answer(EvaluateReply, 0), score(world, trained))
    check(reply.answer(EvaluateReply, 1), score(world, trained))
    check(reply.answer(EvaluateReply, 2), score(world, model(1)))
    later = world.reply(2, Evaluate("own"), Evaluate("initial"))
    check(later.answer(EvaluateReply, 0), score(world, trained))
    check(later.answer(EvaluateReply, 1), score(world, common_start))
    assert len({score(world, params) for params in (trained, common_start, model(1))}) == 3


def test_evaluating_changes_no_state() -> None:
    world = World()
    world.reply(1, Evaluate("own"), Evaluate("m"), Losses(("m", "own")), Signature(), ClassCounts(), m=model(1))
    assert world.state(9) == {}


def test_without_test_samples_the_score_is_empty() -> None:
    for common in (False, True):
        world = World(local_data(common, test=0))
        assert world.reply(1, Evaluate("m"), m=model(1)).answer(EvaluateReply) == EvaluateReply(0, 0, 0.0)


@pytest.mark.parametrize("on", PARTS)
@pytest.mark.parametrize("share", [0.1, 0.5])
def test_losses_are_means_and_wins_counts(on: str, share: float) -> None:
    world = World()
    models = {f"m{k}": model(k) for k in range(4)}
    verb = Losses(tuple(models), on=on, share=share)  # type: ignore[arg-type]
    answer = world.reply(1, verb, **models).answer(LossesReply)
    x, y = samples(world, on, share)
    table = np.array([losses(m, x, y) for m in models.values()])
    assert answer.samples == len(y)
    np.testing.assert_allclose(answer.losses, table.mean(axis=1), rtol=1e-5)
    winners = [int(np.argmin(table[:, i])) for i in range(len(y))]
    assert answer.wins == tuple(winners.count(k) for k in range(4))


def test_losses_know_the_names_of_the_clients_own_models() -> None:
    world = World()
    trained = dict(world.reply(1, Train(PLAN), model=model(1)).answer(TrainReply).params)
    answer = world.reply(2, Losses(("own", "initial", "m")), m=model(2)).answer(LossesReply)
    x, y = samples(world, "train")
    expected = [losses(m, x, y).mean() for m in (trained, initial(SPEC, SEED), model(2))]
    np.testing.assert_allclose(answer.losses, expected, rtol=1e-5)


def test_ties_go_to_the_first() -> None:
    world = World()
    reply = world.reply(1, Losses(("a", "b", "c")), Train(PLAN, start=("best",)), a=model(1), b=model(1), c=model(1))
    assert reply.answer(LossesReply).wins == (30, 0, 0)


@pytest.mark.parametrize("best", [0, 1, 2])
def test_the_best_model_is_that_of_the_least_mean_loss_and_can_be_trained(best: int) -> None:
    world = World()
    x, y = samples(world, "train")
    candidates = sorted((model(k) for k in range(3)), key=lambda m: losses(m, x, y).mean())
    names = ["p", "q", "r"]
    order = [1, 2, 0] if best == 2 else [0, 1, 2] if best == 0 else [2, 0, 1]
    models = {name: candidates[k] for name, k in zip(names, order, strict=True)}
    assert order.index(0) == best
    reply = world.reply(1, Losses(tuple(names)), Train(PLAN, start=("best",)), Evaluate("best"), **models)
    assert int(np.argmin(reply.answer(LossesReply).losses)) == best
    assert equal(world.trainer.jobs[-1].start, candidates[0])
    check(reply.answer(EvaluateReply), score(world, candidates[0]))


def test_most_wins_is_not_what_makes_the_best() -> None:
    """One sample with a huge loss outweighs many small wins."""
    world = World(local_data(train=9))
    x, y = samples(world, "train")
    differed = False
    for k in range(200):
        pair = {"a": model(2 * k), "b": model(2 * k + 1)}
        table = np.array([losses(m, x, y) for m in pair.values()])
        means, wins = table.mean(axis=1), np.bincount(table.argmin(axis=0), minlength=2)
        if means.argmin() != wins.argmax():
            differed = True
            world.reply(1, Losses(("a", "b")), Train(PLAN, start=("best",)), **pair)
            assert equal(world.trainer.jobs[-1].start, list(pair.values())[int(means.argmin())])
    assert differed


@pytest.mark.integration
def test_the_best_on_the_hold_out_is_judged_there() -> None:
    world = World()
    for k in range(20):
        pair = {"a": model(2 * k), "b": model(2 * k + 1)}
        for on in PARTS:
            x, y = samples(world, on, 0.2)
            least = min(pair.values(), key=lambda m: losses(m, x, y).mean())
            world.reply(1, Losses(("a", "b"), on=on, share=0.2), Train(PLAN, start=("best",)), **pair)  # type: ignore[arg-type]
            assert equal(world.trainer.jobs[-1].start, least)


def hopeless(kind: str) -> dict[str, np.ndarray]:
    if kind == "nan":
        return {**model(1), "fc.bias": np.full(CLASSES, np.nan, np.float32)}
    return {name: np.full_like(value, 3e38) * np.sign(value) for name, value in model(1).items()}


@pytest.mark.parametrize("kind", ["nan", "overflow"])
def test_a_model_without_a_finite_loss_loses(kind: str) -> None:
    world = World()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # whether it warns is another test
        reply = world.reply(1, Losses(("bad", "good")), Train(PLAN, start=("best",)), bad=hopeless(kind), good=model(2))
    compared = reply.answer(LossesReply)
    assert compared.wins == (0, 30)
    assert all(math.isfinite(loss) for loss in compared.losses)
    assert compared.losses[0] > 1e6 * compared.losses[1]
    assert equal(world.trainer.jobs[-1].start, model(2))


def test_a_model_that_overflows_is_no_reason_to_warn() -> None:
    World().reply(1, Losses(("bad", "good")), bad=hopeless("overflow"), good=model(2))


@pytest.mark.parametrize("common", [False, True])
def test_the_score_of_a_model_that_overflows_is_a_valid_answer(common: bool) -> None:
    """The server must hear how bad its model has become, and not keep the score of a better one."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        reply = World(local_data(common)).reply(1, Evaluate("m"), m=hopeless("overflow"))
    answer = reply.answer(EvaluateReply)
    assert 0 <= answer.correct <= answer.samples == 17
    assert math.isfinite(answer.loss)


def test_losses_without_samples() -> None:
    world = World(local_data(train=0))
    reply = world.reply(1, Losses(("a", "b")), Train(PLAN, start=("best",)), a=model(1), b=model(2))
    assert reply.answer(LossesReply) == LossesReply(0, (0.0, 0.0), (0, 0), (0, 0))
    assert equal(world.trainer.jobs[-1].start, model(1))


def raw(world: World) -> tuple[np.ndarray, np.ndarray]:
    return world.data.x[world.data.train].astype(np.float64), world.data.y[world.data.train]


@pytest.mark.parametrize("p", [1, 3, 6, 9])
def test_the_signature_spans_the_first_singular_directions_of_the_raw_samples(p: int) -> None:
    world = World()
    vectors = world.reply(1, Signature(p)).answer(SignatureReply).vectors
    u = np.linalg.svd(raw(world)[0].T, full_matrices=False)[0][:, :p]
    assert vectors.shape == u.shape
    assert vectors.dtype == np.float32
    np.testing.assert_allclose(vectors @ vectors.T, u @ u.T, atol=1e-5)
    np.testing.assert_allclose(np.abs((vectors * u).sum(axis=0)), 1, atol=1e-5)


def test_the_signature_per_label() -> None:
    world = World()
    x, y = raw(world)
    vectors = world.reply(1, Signature(2, per_label=True)).answer(SignatureReply).vectors
    labels = np.unique(y)
    assert vectors.shape == (6, 2 * len(labels))
    assert len(labels) == 3
    for k, label in enumerate(labels):
        u = np.linalg.svd(x[y == label].T, full_matrices=False)[0][:, :2]
        own = vectors[:, 2 * k : 2 * k + 2]
        np.testing.assert_allclose(own @ own.T, u @ u.T, atol=1e-5)


def test_the_signature_of_images_is_flat() -> None:
    flat = local_data()
    images = World(type(flat)(**{**vars(flat), "x": flat.x.reshape(90, 1, 2, 3)}))
    vectors = images.reply(1, Signature(3)).answer(SignatureReply).vectors
    np.testing.assert_array_equal(vectors, World(flat).reply(1, Signature(3)).answer(SignatureReply).vectors)


@pytest.mark.parametrize("per_label", [False, True])
def test_a_client_without_samples_has_an_empty_signature(per_label: bool) -> None:
    vectors = World(local_data(train=0)).reply(1, Signature(3, per_label)).answer(SignatureReply).vectors
    assert vectors.shape == (6, 0)


def test_class_counts() -> None:
    world = World()
    counts = world.reply(1, ClassCounts()).answer(ClassCountsReply).counts
    labels = raw(world)[1].tolist()
    assert counts.tolist() == [labels.count(c) for c in range(CLASSES)]
    assert counts[-1] == 0  # a class that the client does not have is counted too
    assert np.issubdtype(counts.dtype, np.integer)


def test_class_counts_without_samples() -> None:
    assert World(local_data(train=0)).reply(1, ClassCounts()).answer(ClassCountsReply).counts.tolist() == [0] * CLASSES


def test_moments_are_of_samples_as_networks_see_them() -> None:
    world = World()
    x, y = samples(world, "train")
    answer = world.reply(1, Moments()).answer(MomentsReply)
    counts = [(own if (own := int((y == label).sum())) >= 4 else 0) for label in range(CLASSES)]
    assert answer.counts.tolist() == counts
    assert counts[-1] == 0
    for label in np.flatnonzero(counts):
        own = x[y == label].astype(np.float64)
        np.testing.assert_allclose(answer.means[label], own.mean(axis=0), rtol=1e-5)
        assert answer.variances[label] == pytest.approx(own.var(axis=0, ddof=1).sum(), rel=1e-5)
    assert not answer.means[-1].any()
    assert {answer.means.dtype, answer.variances.dtype} == {np.dtype(np.float32)}
    assert answer.notices() == ()
    few = world.reply(1, Moments(dimensions=2)).answer(MomentsReply)
    assert few.means.shape == (CLASSES, 2)
    for verb, told in ((Moments(), answer), (Moments(2), few)):
        assert verb.error_in(told, Request(1, SEED, SPEC, (verb,)), Limits({}, samples=len(y))) is None


def test_moments_of_a_few_samples_are_empty_and_valid() -> None:
    for train in (0, 3):
        answer = World(local_data(train=train)).reply(1, Moments()).answer(MomentsReply)
        assert not answer.counts.any()
        assert Moments().error_in(answer, Request(1, SEED, SPEC, (Moments(),)), Limits({}, samples=train)) is None


def test_answers_stand_in_the_order_of_the_verbs() -> None:
    verbs = (ClassCounts(), Evaluate("a"), Signature(), Evaluate("b"), Losses(("a",)), Train(PLAN), Evaluate("trained"))
    reply = World().reply(1, *verbs, a=model(1), b=model(2), model=model(3))
    kinds = [ClassCountsReply, EvaluateReply, SignatureReply, EvaluateReply, LossesReply, TrainReply, EvaluateReply]
    assert [type(answer) for answer in reply.answers] == kinds
    world = World()
    for position, params in ((1, model(1)), (3, model(2))):
        check(reply.answers[position], score(world, params))  # type: ignore[arg-type]


def test_only_the_clients_own_samples_are_looked_at() -> None:
    world = World(local_data(common=False))
    world.reply(1, Train(PLAN), Losses(("m",)), model=model(1), m=model(2))
    assert set(who(world.trainer.jobs[-1].x)) == set(world.data.train)
    assert set(who(world.trainer.seen[-1])) == set(world.data.train)
