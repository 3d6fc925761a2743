"""SCAFFOLD's client side (ALGORITHMS 1.4) over several rounds, against NumPy in float64."""

from dataclasses import replace

import numpy as np
import pytest
from client_world import ID, SEED, World, equal, losses, model, normalise, scores

from coterie.messages import Plan, Schedule, Train, TrainReply
from coterie.streams import stream
from coterie.training import steps

ZERO = {name: np.zeros_like(value) for name, value in model(0).items()}


def gradient(w: dict[str, np.ndarray], x: np.ndarray, y: np.ndarray) -> dict[str, np.ndarray]:
    z = scores(w, x)
    probability = np.exp(z - z.max(axis=1, keepdims=True))
    probability /= probability.sum(axis=1, keepdims=True)
    error = (probability - np.eye(z.shape[1])[y]) / len(y)
    return {"fc.weight": error.T @ x, "fc.bias": error.sum(axis=0)}


class Reference:
    """θ ← SGD step, then θ ← θ − η(c − c_i); after K steps c_i ← c_i − c + (θ_t − θ_i)/(Kη)."""

    def __init__(self, world: World) -> None:
        data = world.data
        self.x, self.y = normalise(data.x[data.train]).astype(np.float64), data.y[data.train]
        self.control = {name: np.zeros(value.shape) for name, value in ZERO.items()}

    def round(
        self, t: int, plan: Plan, start: dict[str, np.ndarray], server: dict[str, np.ndarray]
    ) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
        """Return the trained model and the change of the control."""
        w = {name: value.astype(np.float64) for name, value in start.items()}
        v = {name: np.zeros(value.shape) for name, value in w.items()}
        rates = []
        for s, (batch,) in enumerate(steps(len(self.y), plan, stream(SEED, "train", ID, t))):
            rate = plan.lr.rate * (1 + plan.lr.decay * s) ** -plan.lr.power
            g = gradient(w, self.x[batch], self.y[batch])
            v = {name: plan.momentum * v[name] + g[name] for name in w}
            w = {name: w[name] - rate * v[name] - rate * (server[name] - self.control[name]) for name in w}
            rates.append(rate)
        path = sum(rates)  # K·η for a constant rate
        before = self.control
        self.control = {name: before[name] - server[name] + (start[name] - w[name]) / path for name in w}
        return w, {name: self.control[name] - before[name] for name in w}


def close(actual: dict[str, np.ndarray], expected: dict[str, np.ndarray], tolerance: float = 2e-5) -> None:
    assert set(actual) == set(expected)
    for name, value in expected.items():
        assert actual[name].dtype == np.float32
        np.testing.assert_allclose(actual[name], value, rtol=tolerance, atol=tolerance, err_msg=name)


PLANS = {
    "plain": Plan(Schedule(0.2), epochs=2, batch_size=7, correction="c"),
    "momentum": Plan(Schedule(0.1), epochs=2, batch_size=7, momentum=0.5, correction="c"),
    "one step": Plan(Schedule(0.2), steps=1, batch_size=30, correction="c"),
    "falling rate": Plan(Schedule(0.2, decay=0.3), epochs=2, batch_size=7, correction="c"),
}


@pytest.mark.parametrize("plan", PLANS.values(), ids=PLANS)
def test_the_controls_of_three_rounds(plan: Plan) -> None:
    world = World()
    reference = Reference(world)
    rounds = [(1, model(1), ZERO), (2, model(2), model(20)), (5, model(3), model(30))]
    for t, start, server in rounds:
        trained = world.reply(t, Train(plan), model=start, c=server).answer(TrainReply)
        expected, change = reference.round(t, plan, start, server)
        close(dict(trained.params), expected)
        close(dict(trained.control), change, 1e-4)
        close(dict(world.state(t)["control"]), reference.control, 1e-4)


def test_in_the_first_round_with_controls_of_zero_training_is_ordinary() -> None:
    plan = PLANS["momentum"]
    corrected = World().reply(1, Train(plan), model=model(1), c=ZERO).answer(TrainReply)
    ordinary = World().reply(1, Train(replace(plan, correction=None)), model=model(1)).answer(TrainReply)
    assert equal(corrected.params, ordinary.params)


def test_after_one_full_step_the_control_is_the_gradient() -> None:
    """c_i⁺ = ∇f_i(θ) where K = 1 and the batch is everything: whatever the controls were before."""
    plan, world = PLANS["one step"], World()
    reference = Reference(world)
    for t, server in ((1, model(20)), (2, model(30)), (3, model(40))):
        world.reply(t, Train(plan), model=model(t), c=server)
        close(dict(world.state(t)["control"]), gradient(model(t), reference.x, reference.y), 1e-4)


def test_where_all_controls_are_right_the_client_takes_the_mean_step() -> None:
    """With c_i the client's own gradient the correction replaces it by the server's c."""
    plan, world = PLANS["one step"], World()
    world.reply(1, Train(plan), model=model(1), c=ZERO)
    trained = world.reply(2, Train(plan), model=model(1), c=model(20)).answer(TrainReply)
    expected = {name: model(1)[name] - 0.2 * model(20)[name].astype(np.float64) for name in ZERO}
    close(dict(trained.params), expected)


def test_the_change_adds_up_to_the_control() -> None:
    """The server's sum of changes is the sum of the clients' controls."""
    plan, world = PLANS["momentum"], World()
    total = {name: np.zeros(value.shape) for name, value in ZERO.items()}
    for t in (1, 2, 3, 4):
        change = world.reply(t, Train(plan), model=model(t), c=model(20 + t)).answer(TrainReply).control
        total = {name: total[name] + change[name] for name in total}
    close(dict(world.state(4)["control"]), total, 1e-4)


def test_a_round_without_correction_leaves_the_control() -> None:
    world = World()
    world.reply(1, Train(PLANS["plain"]), model=model(1), c=model(20))
    control = world.state(1)["control"]
    trained = world.reply(2, Train(replace(PLANS["plain"], correction=None)), model=model(2)).answer(TrainReply)
    assert trained.control == {}
    assert equal(world.state(2)["control"], control)


def test_training_that_is_not_kept_leaves_the_control() -> None:
    world = World()
    world.reply(1, Train(PLANS["plain"]), model=model(1), c=model(20))
    before = world.state(1)
    world.reply(2, Train(PLANS["plain"], keep=False), model=model(2), c=model(30))
    assert equal(world.state(9)["control"], before["control"])


def test_controls_of_some_layers_only() -> None:
    world = World()
    some = {"fc.bias": model(20)["fc.bias"]}
    trained = world.reply(1, Train(PLANS["plain"]), model=model(1), c=some).answer(TrainReply)
    assert set(trained.control) == {"fc.bias"}
    expected, change = Reference(world).round(1, PLANS["plain"], model(1), {**ZERO, **some})
    close(dict(trained.params), expected)
    close(dict(trained.control), {"fc.bias": change["fc.bias"]}, 1e-4)


def test_the_reference_descends() -> None:
    """So that agreement with it means something."""
    world = World()
    reference = Reference(world)
    w, _ = reference.round(1, PLANS["plain"], model(1), {name: v.astype(np.float64) for name, v in ZERO.items()})
    assert losses(w, reference.x, reference.y).mean() < losses(model(1), reference.x, reference.y).mean() - 0.1
