"""FedClust and StoCFL: the groups of turned digits, and FedAvg where all is one."""

from __future__ import annotations

import numpy as np
import pytest
from drift_world import agreement

import coterie
from coterie.algorithms.fedclust import FedClust
from coterie.algorithms.stocfl import StoCFL
from coterie.federation.loop import rounds
from coterie.messages import weighted_mean
from coterie.testing import small_federation

TURNED = [client % 4 for client in range(12)]
pytestmark = pytest.mark.integration


def test_fedclust_finds_the_groups_of_turned_digits() -> None:
    found = coterie.cluster(
        algorithm="fedclust", dataset="digits-rotated", clients=12, model="mlp", model_options={"hidden": 16}, lr=0.05
    )
    assert found.ari == 1.0
    told = coterie.cluster(algorithm="fedclust", dataset="digits-rotated", clients=12, groups=4, lr=0.05)
    assert told.ari == 1.0


def test_fedclust_compares_last_layers_only() -> None:
    with small_federation("fedclust") as (run, _):
        run.algorithm.begin(run.fed)
        assert isinstance(run.algorithm, FedClust)
        sent = run.algorithm.described
        assert {vector.shape for vector in sent.values()} == {(16 * 10 + 10,)}
        apart = run.algorithm.distances(list(sent.values()))
        assert apart[0, 1] == pytest.approx(np.linalg.norm(np.float64(sent[0]) - sent[1]))


def test_stocfl_finds_the_groups_of_turned_digits_as_clients_come() -> None:
    settings = {"clients": 12, "fraction": 0.34, "rounds": 8, "algorithm_options": {"warmup": 5}}
    with small_federation("stocfl", **settings) as (run, _):
        for t, _ in rounds(run.fed, run.algorithm, run.evaluator, every=0):
            assert len(run.algorithm.groups() or {}) >= (4 if t else 0)
        run.algorithm.admit(run.fed, [c for c in range(12) if c not in (run.algorithm.groups() or {})])
        assert agreement(run.algorithm, TURNED) == 1.0


def test_stocfl_with_everything_merged_and_no_proximal_term_is_fedavg() -> None:
    models = []
    for method, options in (("stocfl", {"tau": -1.0, "lam": 0.0, "warmup": 1}), ("fedavg", {})):
        with small_federation(method, rounds=3, algorithm_options=options) as (run, _):
            list(rounds(run.fed, run.algorithm, run.evaluator, every=0))
            models.append(run.algorithm.model_for(0))
    assert all(np.array_equal(models[0][name], models[1][name]) for name in models[1])


def test_stocfl_merges_by_hand() -> None:
    """Two groups that have trained and a newcomer between them: means by clients, of models by those who trained."""
    method = StoCFL(tau=0.7)
    theta = [{"w": np.float32([k])} for k in range(3)]
    method.models, method.sizes, method.member = list(theta), [3, 1, 1], {0: 0, 1: 0, 2: 0, 3: 1, 4: 2}
    method.directions = [np.float32([1.0, 0.0]), np.float32([0.0, 1.0]), np.float32([1.0, 1.1])]
    method.merge([3, 1, 0])
    # 2 is nearest to 1 (cosine 0.74), with it at (0.5, 1.05) / 2, whose cosine with 0 is 0.43: no more
    assert method.member == {0: 0, 1: 0, 2: 0, 3: 1, 4: 1}
    assert method.models[1] is theta[1]
    assert np.allclose(method.directions[1], [0.5, 1.05])
    method.tau = 0.4
    method.merge([3, 2])
    assert {*method.member.values()} == {0}
    assert method.models[0]["w"] == weighted_mean([theta[0], theta[1]], [3, 2])["w"]
    assert method.sizes == [5]
