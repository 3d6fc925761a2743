"""FedGroup's pre-training and the groups that it finds by first updates, against NumPy, loops, k-means and SciPy."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from fedgroup_world import Change, begun, cosine, flat, same, trained
from scipy.cluster import hierarchy
from sklearn.cluster import KMeans

import coterie
from coterie.clustering import adjusted_rand_index, canonical
from coterie.messages import Params, Request
from coterie.streams import stream
from coterie.training import steps

# Pre-training


def test_first_updates_are_so_many_mini_batches_of_sgd_from_the_start() -> None:
    """Against softmax regression in NumPy, on the batches at the address of pre-training."""
    lr, rho, count = 0.05, 0.5, 9
    with begun(model="mclr", model_options={}, lr=lr, momentum=rho, pretrain_steps=count, groups=1) as run:
        start, ends = run.fed.initial(), []
        for client, part in enumerate(run.data.train_parts):
            x = run.data.normalise(run.data.train.x[part]).reshape(len(part), -1).astype(np.float64)
            x, y = np.hstack([x, np.ones((len(x), 1))]), run.data.train.y[part]
            w = np.vstack([start["fc.weight"].T, start["fc.bias"]]).astype(np.float64)
            v = np.zeros_like(w)
            plan = replace(run.fed.plan, steps=count)
            for (b,) in steps(len(y), plan, stream(run.fed.seed, "pre-train", client, 0)):
                z = np.exp(x[b] @ w)
                v = rho * v + x[b].T @ (z / z.sum(1, keepdims=True) - np.eye(10)[y[b]]) / len(b)
                w = w - lr * v
            ends.append(w)
        model = run.method.models[0]
        ours = np.vstack([model["fc.weight"].T, model["fc.bias"]])
        assert np.allclose(ours, np.mean(ends, axis=0), atol=1e-5)  # of models, and of all clients alike


def test_pre_training_is_asked_for_once_and_keeps_nothing() -> None:
    with begun() as run:
        (asked,) = run.requests
        verb = trained(asked)
        assert (verb.plan.steps, verb.start, verb.keep, verb.purpose) == (50, ("initial",), False, "pre-train")
        assert verb.plan == replace(run.fed.plan, steps=50)
        assert {request.kind for request in asked.values()} == {"pre-train"}
        assert not any(request.models for request in asked.values())
        assert run.fed.stale_clients == set()
    with begun(pretrain_epochs=3) as run:
        assert trained(run.requests[0]).plan == replace(run.fed.plan, epochs=3)


@pytest.mark.integration
def test_alpha_m_clients_are_drawn() -> None:
    def drawn(**settings: Any) -> list[int]:
        with begun(clients=20, **settings) as run:
            assert list(run.method.member) == sorted(run.requests[0])
            return sorted(run.requests[0])

    assert len(drawn(alpha_pre=3, groups=4)) == 12
    assert drawn(alpha_pre=3, groups=4) == drawn(alpha_pre=3, groups=4)
    assert drawn(alpha_pre=3, groups=4) != drawn(alpha_pre=3, groups=4, seed=1)
    assert drawn(groups=4) == list(range(20))  # of 80
    assert len(drawn(alpha_pre=3, groups=None, fraction=0.45)) == 9  # three groups for a cohort of nine


def test_traffic_is_a_model_up_for_each_first_update() -> None:
    with begun(clients=12, alpha_pre=2, groups=3) as run:
        size = sum(v.nbytes for v in run.fed.initial().values())
        kinds = run.fed.ledger.by_kind
        assert list(kinds) == ["pre-train"]
        assert 6 * size < kinds["pre-train"]["up"] < 6 * (size + 1500)
        assert kinds["pre-train"]["down"] < 6 * 2000


# The group cold start


@pytest.mark.integration
def test_edc_groups_are_the_best_k_means_of_cosines_with_singular_vectors() -> None:
    with begun(clients=16, groups=4, pretrain_steps=1) as run:
        deltas = np.stack([*run.first_updates().values()])
        _, _, v = np.linalg.svd(deltas, full_matrices=False)
        features = np.array([[cosine(delta, v[a]) for a in range(4)] for delta in deltas])
        best = KMeans(4, n_init=50, random_state=0).fit(features)
        groups = np.array([run.method.member[client] for client in range(16)])
        centres = np.stack([features[groups == g].mean(axis=0) for g in range(4)])
        assert ((features - centres[groups]) ** 2).sum() == pytest.approx(best.inertia_, rel=1e-6)
        assert adjusted_rand_index(groups.tolist(), best.labels_.tolist()) == 1
        assert 0 < adjusted_rand_index(groups.tolist(), run.data.true_groups.tolist()) < 1  # not by being too easy


def test_madc_groups_against_three_loops_and_scipy() -> None:
    with begun(clients=12, groups=4, measure="madc", pretrain_steps=3) as run:
        deltas = run.first_updates()
        s = [[cosine(a, b) for b in deltas.values()] for a in deltas.values()]
        apart = np.zeros((12, 12))
        for i in range(12):
            for j in range(12):
                others = [z for z in range(12) if z not in (i, j)]
                apart[i, j] = sum(abs(s[i][z] - s[j][z]) for z in others) / 10 if i != j else 0.0
        tree = hierarchy.linkage(apart[np.triu_indices(12, 1)], "complete")
        expected = hierarchy.fcluster(tree, 4, "maxclust")
        assert [*run.method.member.values()] == canonical(expected).tolist()
        assert run.method.grouping is not None
        assert run.method.grouping.heights == pytest.approx(np.sort(tree[:, 2]), abs=1e-6)
        assert run.method.grouping.confidence is not None


@pytest.mark.parametrize("measure", ["edc", "madc"])
def test_rotated_digits_are_told_apart(measure: str) -> None:
    result = coterie.run(
        algorithm=f"fedgroup:measure={measure}", dataset="digits-rotated", clients=20, groups=4, rounds=1, epochs=1
    )
    assert result.ari == 1
    ways = {"edc": "EDC and k-means", "madc": "MADC and complete linkage"}
    assert result.grouping is not None
    assert result.grouping["rule"] == "count"
    assert result.grouping["reason"] == f"4 groups of 20 first updates by {ways[measure]}."


def test_a_groups_model_is_the_mean_of_models_and_not_of_updates() -> None:
    """Line 16 of Alg. 3 averages updates and calls them the model."""
    with begun(groups=3, dataset="digits", partition="label-skew:rho=0.3") as run:  # of unequal sizes
        deltas, start = run.first_updates(), flat(run.fed.initial())
        for group, (model, direction) in enumerate(zip(run.method.models, run.method.directions, strict=True)):
            mean = np.mean([deltas[c] for c, g in run.method.member.items() if g == group], axis=0)
            assert np.allclose(flat(model), start + mean, atol=1e-6)
            assert np.allclose(direction, mean, atol=1e-6)
            assert not np.allclose(flat(model), mean, atol=1e-2)


@pytest.mark.integration
def test_clients_that_do_not_move_are_in_group_0_and_leave_the_others_groups_as_they_are() -> None:
    still = {1, 5}

    def change(client: int, request: Request, start: Params, end: Params) -> Params:
        return start if client in still else end

    for measure in ("edc", "madc"):
        with (
            begun(clients=12, groups=4, measure=measure) as all_moving,
            begun(change=change, clients=12, groups=4, measure=measure) as run,
        ):
            assert [c for c in run.method.member if c in still] == [1, 5]
            assert run.method.member[1] == run.method.member[5] == 0
            others = [c for c in range(12) if c not in still]
            before, now = ([m[c] for c in others] for m in (all_moving.method.member, run.method.member))
            assert adjusted_rand_index(before, now) == 1
            assert run.method.grouping is not None
            assert "of 10 first updates" in run.method.grouping.reason
            founders = [c for c, g in run.method.member.items() if g == 0]
            deltas = {**run.first_updates()}
            assert np.allclose(run.method.directions[0], np.mean([deltas[c] for c in founders], axis=0), atol=1e-6)


def test_if_nobody_moves_there_is_one_group_with_the_start() -> None:
    with begun(change=lambda client, request, start, end: start, alpha_pre=1, groups=3) as run:
        assert [*run.method.member.values()] == [0, 0, 0]
        assert same(run.method.models[0], run.fed.initial())
        run.method.place(run.fed, run.fed.trainable)  # whose updates are 0, too
        assert [*run.method.member.values()] == [0] * 6


@pytest.mark.parametrize("measure", ["edc", "madc"])
def test_parallel_updates_make_one_group_and_opposite_ones_two(measure: str) -> None:
    def line(sign: Callable[[int], float]) -> Change:
        def change(client: int, request: Request, start: Params, end: Params) -> Mapping[str, np.ndarray]:
            rng = np.random.default_rng(0)
            return {
                name: (v + sign(client) * (0.3 + client) * rng.normal(size=v.shape)).astype(v.dtype)
                for name, v in start.items()
            }

        return change

    with begun(change=line(lambda client: 1.0), groups=3, measure=measure) as run:
        assert set(run.method.member.values()) == {0}
        assert run.method.grouping is not None
        assert run.method.grouping.reason.endswith("; 3 would take more updates that differ.")
    with begun(change=line(lambda client: (-1.0) ** client), groups=3, measure=measure) as run:
        assert [*run.method.member.values()] == [0, 1, 0, 1, 0, 1]


def test_nonsense_is_not_grouped_and_the_client_is_placed_when_it_makes_sense() -> None:
    def change(client: int, request: Request, start: Params, end: Params) -> Mapping[str, np.ndarray]:
        return {n: np.full_like(v, np.nan) for n, v in end.items()} if client == 3 and request.round < 2 else end

    with begun(change=change, fraction=1.0) as run:
        assert sorted(run.method.member) == [0, 1, 2, 4, 5]
        assert run.fed.events.kinds["invalid"]["count"] == 1
        run.play(1)
        assert 3 not in run.method.member
        assert run.fed.events.kinds["invalid"]["count"] == 2  # it is not asked to train
        run.play(2)
        delta = run.first_updates(2)[3]
        assert run.method.member[3] == np.argmax([cosine(delta, d) for d in run.method.directions])


@pytest.mark.parametrize("measure", ["edc", "madc"])
@pytest.mark.parametrize(("clients", "groups", "found"), [(6, 10, 5), (6, 5, 5), (3, 3, 2), (2, 2, 1), (1, 4, 1)])
def test_fewer_clients_than_groups_make_fewer_groups_and_say_so(
    measure: str, clients: int, groups: int, found: int
) -> None:
    with begun(clients=clients, groups=groups, dataset="digits", measure=measure) as run:
        assert len(run.method.models) == len(set(run.method.member.values())) == found
        grouping = run.method.grouping
        assert grouping is not None
        assert ("would take more" in grouping.reason) == (found < groups)
        assert grouping.n_groups == found
        run.play(1, 2)


def test_the_cold_start_is_tried_again_until_somebody_answers() -> None:
    def change(client: int, request: Request, start: Params, end: Params) -> Mapping[str, np.ndarray]:
        return {n: np.full_like(v, np.inf) for n, v in end.items()} if request.round < 2 else end

    with begun(change=change, fraction=0.5) as run:
        assert run.method.grouping is None
        assert same(run.method.model_for(0), run.fed.initial())
        run.play(1)
        assert run.method.groups() == {}
        run.play(2)
        assert sorted(run.method.groups()) == list(range(6))
        assert len(run.method.models) == 2
