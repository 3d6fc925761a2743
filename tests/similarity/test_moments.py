"""Moments of labels against brute force; distances against their definition, and without bias."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from coterie.messages import ModelSpec, Moments
from coterie.similarity import MEASURES, ClassMoments, class_distances, class_moments
from coterie.similarity.moments import DIMENSIONS, described, projection


def told(x: np.ndarray, y: np.ndarray, classes: int = 3) -> ClassMoments:
    return class_moments(x, y, classes)


def test_moments_are_means_and_total_variances_of_labels() -> None:
    rng = np.random.default_rng(0)
    x, y = rng.normal(3, 2, (60, 5)), np.repeat([0, 2, 3], [40, 17, 3])
    means, variances, counts = class_moments(x, y, 5)
    assert counts.tolist() == [40, 0, 17, 0, 0]  # three samples of a label are too few
    for label in (0, 2):
        own = x[y == label]
        np.testing.assert_allclose(means[label], own.mean(axis=0), rtol=1e-5)
        assert variances[label] == pytest.approx(np.trace(np.cov(own.T)), rel=1e-5)
    for label in (1, 3, 4):
        assert not means[label].any()
        assert variances[label] == 0
    assert class_moments(x, y, 5, fewest=18).counts.tolist() == [40, 0, 0, 0, 0]


@pytest.mark.parametrize("shape", [(7,), (64,), (65,), (3, 32, 32), (1, 8, 8), (20, 30)])
@pytest.mark.parametrize("dimensions", [4, 64])
def test_inputs_have_as_many_numbers_as_the_verb_says(shape: tuple[int, ...], dimensions: int) -> None:
    x = np.random.default_rng(0).normal(size=(6, *shape))
    numbers = Moments(dimensions).numbers(ModelSpec("mlp", shape, 2))
    assert described(x, dimensions).shape == (6, numbers)


def test_short_vectors_are_told_as_they_are_and_long_ones_projected_for_all_alike() -> None:
    rng = np.random.default_rng(1)
    short, long = rng.normal(size=(4, 30)), rng.normal(size=(4, 3000))
    np.testing.assert_allclose(described(short), short, rtol=1e-6)
    np.testing.assert_allclose(described(long), described(np.tile(long, (2, 1)))[4:], rtol=1e-3)
    assert projection(3000, DIMENSIONS) is projection(3000, DIMENSIONS)
    lengths = [(projection(300, 2000) ** 2).sum(axis=1).mean(), (projection(300, 2000)[0] ** 2).sum()]
    np.testing.assert_allclose(lengths, 1, atol=0.2)  # squared lengths stay, on average


def by_hand(a: ClassMoments, b: ClassMoments) -> tuple[float, float, float, int]:
    """Distance, weight, excess and number of shared labels, label by label."""
    apart = weight = excess = 0.0
    shared = 0
    for label in range(len(a.counts)):
        n, m = int(a.counts[label]), int(b.counts[label])
        if n == 0 or m == 0:
            continue
        squared = float(((a.means[label] - b.means[label]) ** 2).sum())
        chance = a.variances[label] / n + b.variances[label] / m
        w = n * m / (n + m)
        apart += w * (squared - chance)
        weight += w * (n * a.variances[label] + m * b.variances[label]) / (n + m)
        excess += squared / chance
        shared += 1
    return apart / weight if shared else np.nan, weight, excess / shared if shared else 0.0, shared


counts_of_labels = st.lists(st.sampled_from([0, 4, 7, 50]), min_size=3, max_size=3)


@given(st.lists(counts_of_labels, min_size=1, max_size=5), st.integers(0, 9))
def test_distances_are_those_of_the_definition(counts: list[list[int]], seed: int) -> None:
    rng = np.random.default_rng(seed)
    clients = [
        ClassMoments(rng.normal(size=(3, 4)) * (np.array(n) > 0)[:, None], rng.uniform(0.5, 2, 3) * (np.array(n) > 0),
                     np.array(n))
        for n in counts
    ]  # fmt: skip
    pairs = class_distances(clients)
    for i, a in enumerate(clients):
        for j, b in enumerate(clients):
            if i != j:
                np.testing.assert_allclose(pairs[i, j].tolist(), by_hand(a, b), rtol=1e-9, atol=1e-12)
    assert not np.diagonal(pairs["distance"]).any()
    cross = class_distances(clients[:2], clients[2:])  # as newcomers are measured: by the two alone
    for field in pairs.dtype.names:
        np.testing.assert_allclose(cross[field], pairs[field][:2, 2:], rtol=1e-9, atol=1e-12)


@pytest.mark.integration
@pytest.mark.parametrize("samples", [20, 60, 500])
@pytest.mark.parametrize("shift", [0.0, 0.3])
def test_squared_distances_less_chance_are_unbiased(samples: int, shift: float) -> None:
    """Monte Carlo: the mean is what it would be with all samples of the world, |μ − ν|² over the variance."""
    rng = np.random.default_rng(samples)
    scale, found, excess = np.array([3.0, 1.0, 1.0, 0.5]), [], []
    for _ in range(400):
        mixture, other = rng.dirichlet([2, 2, 2]), rng.dirichlet([2, 2, 2])  # frequencies do not matter
        y, z = (np.sort(rng.choice(3, samples, p=p)) for p in (mixture, other))
        x, v = rng.normal(size=(samples, 4)) * scale, rng.normal(size=(samples, 4)) * scale
        pair = class_distances([told(x + y[:, None], y), told(v + z[:, None] + shift, z)])[0, 1]
        if pair["shared"]:
            found.append(float(pair["distance"]))
            excess.append(float(pair["excess"]))
    expected = 4 * shift**2 / (scale**2).sum()
    assert np.mean(found) == pytest.approx(expected, abs=4 * np.std(found) / np.sqrt(len(found)))
    if shift == 0 and samples >= 60:
        assert np.mean(excess) == pytest.approx(1, abs=0.15)


def test_clients_without_a_label_in_common_can_t_be_compared() -> None:
    rng = np.random.default_rng(0)
    clients = [told(rng.normal(size=(20, 4)), np.full(20, label)) for label in (0, 0, 1)]
    pairs = class_distances(clients)
    assert np.isnan(pairs["distance"][:2, 2]).all()
    assert pairs["shared"].tolist() == [[1, 1, 0], [1, 1, 0], [0, 0, 1]]
    assert np.isnan(MEASURES["class_moments"](clients)[0, 2])
    assert MEASURES["class_moments"](clients[:2], clients[2:]).shape == (2, 1)
    assert class_distances([]).shape == (0, 0)


def test_equal_samples_are_at_0_and_different_constants_far_apart() -> None:
    same, other = (ClassMoments(np.full((1, 2), mean), np.zeros(1), np.array([9])) for mean in (1.0, 2.0))
    pairs = class_distances([same, same, other])
    assert pairs["distance"][0, 1] == pytest.approx(-2 / 9)
    assert pairs["distance"][0, 2] > 1e6
    assert np.isfinite(pairs["excess"]).all()


def test_moments_of_other_lengths_are_refused() -> None:
    a, b = (ClassMoments(np.zeros((2, width)), np.zeros(2), np.zeros(2, int)) for width in (3, 4))
    with pytest.raises(ValueError, match="can't be compared"):
        class_distances([a], [b])
