"""Landmarks: groups of many clients by way of some, against the truth and the exact way."""

from types import SimpleNamespace

import numpy as np
import pytest
from scipy.spatial.distance import cdist

from coterie.clustering import Auto, Count, Threshold, adjusted_rand_index, by_landmarks, landmarks, noise_beside
from coterie.clustering import noise as noise_of_all
from coterie.clustering.landmarks import _Passes, chosen


class Plane:
    """Clients that are points in few dimensions; chance moves each by about 1 in every one."""

    def __init__(self, at: np.ndarray, noisy: bool = True, moves: float | None = None):
        self.points, self.noisy, self.compared = at.astype(np.float32), noisy, 0
        self.moves = np.sqrt(at.shape[1]) if moves is None else moves

    def apart(self, a, b=None):
        self.compared += len(a) * len(a if b is None else b)
        return cdist(self.points[a], self.points[a if b is None else b])

    def noise(self, a, b, proximity):
        """Each moves by √d, unless told; so halves are twice that apart, with one sample."""
        if not self.noisy:
            return None
        halves = np.full(len(self.points), 2 * self.moves)
        if a is b:
            return noise_of_all(halves[a], np.ones(len(a)), proximity)
        return noise_beside(halves[a], np.ones(len(a)), (halves[b], np.ones(len(b))), proximity)


def blobs(sizes, dimensions=20, far=12.0, seed=0):
    rng = np.random.default_rng(seed)
    truth = rng.permutation(np.repeat(np.arange(len(sizes)), sizes))
    return rng.normal(size=(len(truth), dimensions)) + far * rng.normal(size=(len(sizes), dimensions))[truth], truth


def rng():
    return np.random.default_rng(5)


@pytest.mark.integration
def test_rare_groups_are_found_and_strays_of_large_ones_found_none():
    at, truth = blobs([4000, 1000, 30, 12, 1])
    crowd = Plane(at)
    found = by_landmarks(Auto(granularity=1.3), crowd, rng(), most=300)
    assert adjusted_rand_index(found.labels, truth) == 1.0
    assert found.grouping.n_groups == 5
    assert found.grouping.passes > 1
    assert crowd.compared < len(at) ** 2 / 4
    assert f"{len(found.landmarks):,} of 5,043 clients were landmarks" in found.grouping.reason
    assert "beyond the cut joined it too" in found.grouping.reason
    assert np.array_equal(found.grouping.labels, found.labels[found.landmarks])
    assert found.grouping.proximity is None


@pytest.mark.integration
def test_edges_of_a_wide_group_are_part_of_it_and_a_small_group_beside_it_is_not():
    wide = np.r_[2.0, 2.0, np.ones(10)]
    at, truth = blobs([5000, 30], dimensions=12, far=0.0, seed=1)
    at = wide * at + 14.0 * (truth == 1)[:, None] * np.eye(12)[11]
    found = by_landmarks(Auto(granularity=1.3), Plane(at, moves=np.linalg.norm(wide)), rng(), most=400)
    assert "groups of later passes were edges of others, and joined them" in found.grouping.reason
    assert adjusted_rand_index(found.labels, truth) == 1.0
    assert len(set(found.grouping.labels[found.grouping.weights > 0].tolist())) == 2  # each can be joined by newcomers


@pytest.mark.integration
def test_what_is_one_distribution_is_one_group():
    found = by_landmarks(Auto(granularity=1.15), Plane(blobs([5000])[0]), rng(), most=300)
    assert found.grouping.n_groups == 1


def test_all_are_landmarks_where_there_are_few_and_groups_are_those_of_the_exact_way():
    at, truth = blobs([20, 15, 3, 1])
    crowd = Plane(at)
    everyone = np.arange(len(at))
    apart = crowd.apart(everyone)
    exact = Auto(granularity=1.3).group(apart, crowd.noise(everyone, everyone, apart))
    found = by_landmarks(Auto(granularity=1.3), crowd, rng())
    assert np.array_equal(found.labels, exact.labels)
    assert adjusted_rand_index(found.labels, truth) == 1.0
    assert found.grouping.passes == 1
    assert found.grouping.threshold == exact.threshold


def test_a_threshold_is_kept_to_and_a_number_of_groups():
    at, truth = blobs([500, 90, 4, 1], far=30.0)
    found = by_landmarks(Threshold(threshold=20.0), Plane(at, noisy=False), rng(), most=60)
    assert adjusted_rand_index(found.labels, truth) == 1.0  # who is alone stays so, as asked
    assert found.noise is None
    found = by_landmarks(Count(groups=2), Plane(at, noisy=False), rng(), most=60)
    assert found.grouping.n_groups == 2
    assert found.grouping.passes == 1


def test_the_same_seed_gives_the_same_groups():
    at, _ = blobs([300, 200, 100], far=1.0)
    a, b = (by_landmarks(Auto(granularity=1.3), Plane(at), rng(), most=80) for _ in range(2))
    assert np.array_equal(a.labels, b.labels)
    assert np.array_equal(a.landmarks, b.landmarks)


def test_landmarks_are_distinct_and_meet_what_is_far_away():
    at, truth = blobs([3000, 1, 1, 2], far=50.0)
    picked = chosen(at.astype(np.float32), 200, rng())
    assert len(set(picked.tolist())) == 200
    assert set(truth[picked]) == {0, 1, 2, 3}
    assert np.array_equal(chosen(at[:50].astype(np.float32), 200, rng()), np.arange(50))


def test_duplicates_everywhere():
    found = by_landmarks(Auto(granularity=1.3), Plane(np.zeros((2000, 3))), rng(), most=100)
    assert found.grouping.n_groups == 1
    assert len(set(found.landmarks.tolist())) == len(found.landmarks)


@pytest.mark.integration
def test_where_everybody_is_alone_there_are_no_more_landmarks_than_can_be_compared(monkeypatch):
    monkeypatch.setattr(landmarks, "MOST_LANDMARKS", 250)
    at = 1000.0 * np.random.default_rng(0).normal(size=(1200, 8))
    found = by_landmarks(Auto(granularity=1.3), Plane(at), rng(), most=100)
    assert len(found.landmarks) <= 250
    assert (found.labels >= 0).all()
    assert "more groups than so many landmarks can tell apart" in found.grouping.reason


def test_how_many_pairs_are_compared_at_a_time_does_not_grow_with_the_groups(monkeypatch):
    monkeypatch.setattr(landmarks, "PAIRS", 4000)
    at, truth = blobs([8] * 60, far=30.0)
    crowd, largest = Plane(at, noisy=False), []
    apart = crowd.apart
    crowd.apart = lambda a, b=None: largest.append(len(a) * len(a if b is None else b)) or apart(a, b)
    found = by_landmarks(Threshold(threshold=20.0), crowd, rng(), most=60)
    assert adjusted_rand_index(found.labels, truth) == 1.0
    assert max(largest) <= 4000


def test_the_edge_of_an_edge_joins_too():
    """The nearest larger group of one may be another: alike clients, 100,000 of them, came to be two groups so."""
    rng = np.random.default_rng(1)
    dimensions = int(rng.integers(2, 12))

    def edge(sideways, members, far):
        towards = np.array([1.0, sideways, *[0.0] * (dimensions - 2)])
        middle = towards / np.linalg.norm(towards) * far * np.sqrt(dimensions)
        return middle + rng.uniform(0.15, 0.6) * rng.standard_normal((members, dimensions))

    core, sideways = rng.standard_normal((120, dimensions)), rng.uniform(0.2, 3)
    near = edge(0.0, int(rng.integers(8, 25)), rng.uniform(0.8, 1.6))
    x = np.concatenate([core, near, edge(sideways, int(rng.integers(6, 16)), rng.uniform(0.9, 1.9))])
    apart = np.linalg.norm(x[:, None] - x[None], axis=2)
    apart /= apart[:120, :120].mean()
    founded = np.repeat([0, 1, 2], [120, len(near), len(x) - 120 - len(near)])
    labels = np.concatenate([founded, np.repeat([0, 1, 2], [9880, 200, 80])])
    rule = SimpleNamespace(needs=("noise",), reach=lambda first: 1.35, scaled=lambda distances, own, other: distances)
    crowd = SimpleNamespace(apart=lambda clients: apart)
    passes = _Passes(rule, crowd, labels, np.ones(len(labels)))
    passes.first, passes.passes, passes.early, passes.landmarks = object(), 3, 1, np.arange(len(x))
    passes.merge(drawn=120)
    assert passes.edges == 2
    assert (passes.labels == 0).all()
