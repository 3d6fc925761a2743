"""The server's step against ten lines of NumPy, group by group, over splits and checkpoints."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from aggregation_world import START, members, moved

from coterie.federation.aggregation import AggregationOptions, Aggregator, Contribution
from coterie.federation.checkpoint import load_checkpoint, save_checkpoint
from coterie.federation.server_optimiser import ServerOptions, ServerStep
from coterie.messages import Params, weighted_mean

WEIGHT = "fc.weight"
STEPS = {
    "half way": ServerStep("sgd", 0.5),
    "FedAvgM": ServerStep("sgd", 0.7, 0.9),
    "FedAdam": ServerStep("adam", 0.03, 0.9, 0.99, 1e-3),
    "FedYogi": ServerStep("yogi", 0.03, 0.8, 0.95, 1e-2),
}


class Server(Aggregator):
    """A server by itself."""

    def __init__(self, step: ServerStep) -> None:
        self.round = 0
        super().__init__(AggregationOptions(), lambda: {}, lambda *_: None, lambda: self.round, step)

    def after(self, **groups: tuple[Params, list[Params]]) -> dict[str, dict[str, np.ndarray]]:
        """One round of groups, each with its model and what its clients trained."""
        self.round += 1
        given = {
            group: [Contribution(c, p, model, 1.0) for c, p in enumerate(trained)]
            for group, (model, trained) in groups.items()
        }
        return self.averages(given)


def in_numpy(name: str, start: np.ndarray, means: Any, rounds: int) -> np.ndarray:
    """Algorithm 2 of Reddi et al., in float64: `means(t, x)` is what clients of round t trained x to."""
    how = STEPS[name]
    x, m, v = start.astype(np.float64), 0.0, how.tau**2
    for t in range(rounds):
        delta = means(t, x) - x
        if how.optimiser == "sgd":
            m = how.momentum * m + delta
            x = x + how.lr * m
            continue
        m = how.momentum * m + (1 - how.momentum) * delta
        if how.optimiser == "adam":
            v = how.beta2 * v + (1 - how.beta2) * delta**2
        else:
            v = v - (1 - how.beta2) * delta**2 * np.sign(v - delta**2)
        x = x + how.lr * m / (np.sqrt(v) + how.tau)
    return x


def pulled(target: float, seed: int) -> Any:
    """Two clients that go part of the way to a target, with noise of their own."""

    def trained(t: int, x: np.ndarray) -> list[np.ndarray]:
        noise = np.random.default_rng([seed, t]).normal(0, 0.05, (2, *x.shape))
        return [x + 0.3 * (target - x) + noise[0], x + 0.2 * (target - x) + noise[1]]

    return trained


def as_models(arrays: list[np.ndarray]) -> list[Params]:
    return [{**START, WEIGHT: array.astype(np.float32)} for array in arrays]


def run(server: Server, rounds: int, **pulls: Any) -> dict[str, Params]:
    """Rounds of groups with models of their own, all from the same start."""
    models: dict[str, Params] = dict.fromkeys(pulls, START)
    for t in range(rounds):
        trained = {g: (models[g], as_models(pull(t, models[g][WEIGHT]))) for g, pull in pulls.items()}
        models |= server.after(**trained)
    return models


@pytest.mark.parametrize("name", STEPS)
def test_steps_over_rounds_are_those_of_the_paper(name: str) -> None:
    pull = pulled(2.0, seed=1)
    model = run(Server(STEPS[name]), 8, all=pull)["all"]
    expected = in_numpy(name, START[WEIGHT], lambda t, x: np.mean(pull(t, x), axis=0), 8)
    assert np.abs(expected - START[WEIGHT]).max() > 0.1
    assert np.allclose(model[WEIGHT], expected, atol=2e-6)


def test_sgd_with_rate_1_takes_the_mean_itself() -> None:
    models, weights = [moved(1.0), moved(2.0), moved(3.0)], [3.0, 1.0, 4.0]
    mean = Server(ServerStep("sgd", 1.0)).averages({0: members(*models, weights=weights)})[0]
    expected = weighted_mean(models, weights)
    assert all(np.array_equal(mean[name], expected[name]) for name in START)
    stepped = Server(ServerStep("sgd", 1.0 - 1e-9)).averages({0: members(*models, weights=weights)})[0]
    assert np.allclose(stepped[WEIGHT], expected[WEIGHT], atol=1e-6)  # the same through the optimiser


@pytest.mark.parametrize("name", STEPS)
def test_groups_have_moments_of_their_own(name: str) -> None:
    pulls = {"a": pulled(2.0, 1), "b": pulled(-3.0, 2)}
    together = run(Server(STEPS[name]), 5, **pulls)
    for group, pull in pulls.items():
        alone = run(Server(STEPS[name]), 5, **{group: pull})[group]
        assert np.array_equal(together[group][WEIGHT], alone[WEIGHT])


@pytest.mark.parametrize("name", STEPS)
def test_what_batchnorm_counts_is_averaged(name: str) -> None:
    model = Server(STEPS[name]).averages({0: members(moved(1.0, 0.2, seen=7), moved(1.0, 0.4, seen=12))})[0]
    assert np.allclose(model["bn.running_var"], 1 + 0.3 / np.sqrt(3))
    assert model["bn.num_batches_tracked"] == 12


@pytest.mark.parametrize("name", STEPS)
def test_both_parts_of_a_split_group_go_on_with_its_moments(name: str) -> None:
    pull, server = pulled(2.0, 1), Server(STEPS[name])
    models = dict.fromkeys("ab", run(server, 4, all=pull)["all"])
    for t in (4, 5):  # b trains in the second round only, when a has left the common model
        groups = "a" if t == 4 else "ab"
        models |= server.after(**{g: (models[g], as_models(pull(4, models[g][WEIGHT]))) for g in groups})
    expected = in_numpy(name, START[WEIGHT], lambda t, x: np.mean(pull(t, x), axis=0), 5)
    assert np.allclose(models["b"][WEIGHT], expected, atol=2e-6)


def test_moments_are_those_of_models_that_somebody_has() -> None:
    server, pull = Server(STEPS["FedAdam"]), pulled(2.0, 1)
    models = run(server, 6, a=pull, b=pulled(1.0, 2))
    assert len(server.optimiser.save()["moments"]) == 2
    models |= server.after(a=(models["a"], as_models(pull(6, models["a"][WEIGHT]))))
    assert len(server.optimiser.save()["moments"]) == 2  # that of b stays, however long it waits
    del models
    server.round += 2
    assert not server.optimiser.save()["moments"]


def test_a_copied_model_is_known_in_the_next_round() -> None:
    server, pull, model = Server(STEPS["FedAvgM"]), pulled(2.0, 1), START
    for t in range(8):
        mean = server.after(all=(model, as_models(pull(t, model[WEIGHT]))))["all"]
        model = {name: value.copy() for name, value in mean.items()}
        del mean
        server.optimiser.save()
    expected = in_numpy("FedAvgM", START[WEIGHT], lambda t, x: np.mean(pull(t, x), axis=0), 8)
    assert np.allclose(model[WEIGHT], expected, atol=2e-6)


def test_a_model_of_some_layers_steps_from_those() -> None:
    server, part = Server(STEPS["FedAdam"]), {WEIGHT: START[WEIGHT]}
    trained = [{WEIGHT: model[WEIGHT]} for model in as_models(pulled(1.0, 1)(0, START[WEIGHT]))]
    of_all = server.after(all=(START, trained))["all"]
    assert np.array_equal(of_all[WEIGHT], Server(STEPS["FedAdam"]).after(all=(part, trained))["all"][WEIGHT])
    assert of_all.keys() == part.keys()


@pytest.mark.parametrize("name", ["FedAvgM", "FedAdam", "FedYogi"])
def test_moments_are_in_the_checkpoint(name: str, tmp_path: Path) -> None:
    pull, server = pulled(2.0, 1), Server(STEPS[name])
    model = run(server, 3, all=pull)["all"]
    save_checkpoint(tmp_path / "state", {"model": model, "optimiser": server.optimiser.save()})
    state, later = load_checkpoint(tmp_path / "state"), Server(STEPS[name])
    later.optimiser.load(state["optimiser"])
    later.round, trained = 3, as_models(pull(3, model[WEIGHT]))
    resumed = later.after(all=(state["model"], trained))["all"]
    assert np.array_equal(resumed[WEIGHT], server.after(all=(model, trained))["all"][WEIGHT])
    assert np.abs(resumed[WEIGHT] - Server(STEPS[name]).after(all=(model, trained))["all"][WEIGHT]).max() > 1e-3


def test_other_kinds_of_means_are_not_stepped_to() -> None:
    models = [moved(1.0), moved(2.0)]
    mean = Server(STEPS["FedAdam"]).averages({0: members(*models)}, kind="pre-train")[0]
    assert np.array_equal(mean[WEIGHT], weighted_mean(models, [1, 1])[WEIGHT])


def test_options_that_are_left_out_are_the_papers() -> None:
    assert ServerOptions().server_step.takes_means
    assert ServerOptions(server_optimiser="yogi").server_step == ServerStep("yogi", 0.03, 0.9, 0.99, 1e-3)
    assert ServerOptions(server_momentum=0.9).server_step == ServerStep("sgd", 1.0, 0.9)
    assert "server_tau is of server_optimiser = adam or yogi" in str(
        ServerOptions(server_tau=1.0).error_in_server_step()
    )
    assert ServerOptions(server_optimiser="adam", server_tau=1.0).error_in_server_step() is None
