"""Measures between samples against SciPy, closed forms and brute force (ALGORITHMS 9)."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial.distance import cdist
from scipy.stats import multivariate_normal, wasserstein_distance

from coterie.similarity import (
    SAMPLE_MEASURES,
    bhattacharyya,
    emd_pixel,
    kl_divergence,
    label_total_variation,
    linear_cka,
    mmd,
    moment_cka,
    pairwise,
    principal_angles,
    reduced,
    signature,
    sliced_wasserstein,
)
from coterie.similarity import distributions as module

GENERATED = settings(max_examples=40, deadline=None, derandomize=True)
sizes = st.tuples(st.integers(0, 10**6), st.integers(1, 12), st.integers(1, 12), st.integers(1, 5))

PAIR = {
    "bhattacharyya": bhattacharyya,
    "kl": kl_divergence,
    "kl_symmetric": lambda x, y: kl_divergence(x, y, symmetric=True),
    "mmd": mmd,
    "emd": sliced_wasserstein,
    "emd_pixel": emd_pixel,
    "cka": moment_cka,
}


def sample(seed: int, n: int, features: int, mean: float = 0.0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return rng.normal(mean, 1, (n, features)) @ rng.normal(size=(features, features)) + rng.normal(size=features)


def exactly(mean: np.ndarray, covariance: np.ndarray) -> np.ndarray:
    """Points whose mean and covariance are those given, to rounding."""
    f = len(mean)
    corners = np.vstack([np.eye(f), -np.eye(f)]) * f**0.5
    return mean + corners @ np.linalg.cholesky(covariance).T


def test_gaussian_distances_in_closed_form() -> None:
    """One feature, where they can be written down; the ridge of 1e-6 is in the tolerance."""
    m1, v1, m2, v2 = 1.0, 4.0, -2.0, 9.0
    x, y = (exactly(np.array([m]), np.array([[v]])) for m, v in ((m1, v1), (m2, v2)))
    bd = (m1 - m2) ** 2 / (v1 + v2) / 4 + np.log((v1 + v2) / 2 / np.sqrt(v1 * v2)) / 2
    kl = (v1 / v2 + (m1 - m2) ** 2 / v2 - 1 + np.log(v2 / v1)) / 2
    lk = (v2 / v1 + (m1 - m2) ** 2 / v1 - 1 + np.log(v1 / v2)) / 2
    assert bhattacharyya(x, y) == pytest.approx(bd, rel=1e-5)
    assert kl_divergence(x, y) == pytest.approx(kl, rel=1e-5)
    assert kl_divergence(y, x) == pytest.approx(lk, rel=1e-5)
    assert kl_divergence(x, y, symmetric=True) == pytest.approx((kl + lk) / 2, rel=1e-5)


def test_gaussian_distances_against_integrals() -> None:
    """KL is the mean of a log ratio, BD minus the log of the mean of a root of it: 400,000 draws from the first."""
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(2, 3, 3))
    first, second = a @ a.T + np.eye(3), b @ b.T + np.eye(3)
    means = np.array([0.3, -0.2, 0.1]), np.zeros(3)
    x, y = exactly(means[0], first), exactly(means[1], second)
    p, q = multivariate_normal(means[0], first), multivariate_normal(means[1], second)
    drawn = p.rvs(400_000, random_state=rng)
    ratio = p.logpdf(drawn) - q.logpdf(drawn)
    assert kl_divergence(x, y) == pytest.approx(ratio.mean(), rel=0.02)
    assert bhattacharyya(x, y) == pytest.approx(-np.log(np.exp(-ratio / 2).mean()), rel=0.02)


@given(sizes)
@GENERATED
def test_gaussian_distances_do_not_change_with_the_unit_or_a_turn(size: tuple[int, int, int, int]) -> None:
    seed, n, m, f = size
    x, y = sample(seed, n + f + 3, f), sample(seed + 1, m + f + 3, f)
    turn = np.linalg.qr(sample(seed + 2, f, f))[0] * 7.0
    for measure in (bhattacharyya, kl_divergence):
        assert measure(x @ turn + 3, y @ turn + 3) == pytest.approx(measure(x, y), rel=1e-6, abs=1e-9)
    assert bhattacharyya(x, y) == pytest.approx(bhattacharyya(y, x), rel=1e-9)
    assert bhattacharyya(x, y) <= kl_divergence(x, y) / 2 + 1e-9  # BD ≤ KL / 2 in both directions


@given(sizes, st.booleans())
@GENERATED
def test_mmd_by_brute_force(size: tuple[int, int, int, int], unbiased: bool) -> None:
    seed, n, m, f = size
    x, y = sample(seed, n, f), sample(seed + 1, m, f, 1.0)
    both = np.vstack([x, y])
    median = np.median([np.linalg.norm(a - b) for i, a in enumerate(both) for b in both[:i]])
    for given_width, sigma in ((None, median), (0.7, 0.7)):
        xx, yy, xy = (np.exp(-(cdist(a, b) ** 2) / (2 * sigma**2)) for a, b in ((x, x), (y, y), (x, y)))
        if unbiased:
            own = [1.0 if len(k) == 1 else k[~np.eye(len(k), dtype=bool)].mean() for k in (xx, yy)]
        else:
            own = [xx.mean(), yy.mean()]
        expected = sum(own) - 2 * xy.mean()
        found = mmd(x, y, bandwidth=given_width, unbiased=unbiased, squared=True)
        assert found == pytest.approx(expected, abs=1e-12)
        assert mmd(x, y, bandwidth=given_width, unbiased=unbiased) == pytest.approx(max(expected, 0) ** 0.5, abs=1e-6)


def test_unbiased_mmd_has_a_mean_of_0_between_equals() -> None:
    rng = np.random.default_rng(0)
    found = [mmd(*rng.normal(size=(2, 12, 2)), bandwidth=1.0, unbiased=True, squared=True) for _ in range(400)]
    assert abs(np.mean(found)) < 3 * np.std(found) / 20
    assert min(found) < 0


def test_many_samples_in_float32_and_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    samples = [sample(i, 9 + i, 3, i) for i in range(4)]
    exact = pairwise("mmd", samples, unbiased=True)
    monkeypatch.setattr(module, "LARGE", 10)
    monkeypatch.setattr(module, "AT_ONCE", 25)
    np.testing.assert_allclose(pairwise("mmd", samples, unbiased=True), exact, atol=1e-5)


@given(sizes)
@GENERATED
def test_earth_movers_distance_against_scipy(size: tuple[int, int, int, int]) -> None:
    seed, n, m, f = size
    x, y = sample(seed, n, f), sample(seed + 1, m, f, 1.0)
    assert sliced_wasserstein(x[:, :1], y[:, :1]) == pytest.approx(wasserstein_distance(x[:, 0], y[:, 0]), abs=1e-12)
    directions = module.stream(3, "projections").normal(size=(f, 5))
    directions /= np.linalg.norm(directions, axis=0)
    each = [wasserstein_distance(x @ d, y @ d) for d in directions.T]
    assert sliced_wasserstein(x, y, projections=5, seed=3) == pytest.approx(np.mean(each), abs=1e-12)
    pixels = wasserstein_distance(x.mean(axis=0), y.mean(axis=0))
    assert emd_pixel(x, y) == pytest.approx(pixels, abs=1e-12)


def test_a_shift_moves_the_earth_by_its_length() -> None:
    """In one feature exactly; in F, the mean of |cos| between a fixed and a random direction."""
    x = sample(0, 50, 3)
    assert sliced_wasserstein(x[:, :1], x[:, :1] + 2.5) == pytest.approx(2.5)
    assert sliced_wasserstein(x, x + np.array([0, 2, 0]), projections=4000) == pytest.approx(2 * 0.5, rel=0.03)


@given(st.integers(0, 10**6), st.integers(2, 6), st.integers(1, 5))
@GENERATED
def test_label_total_variation(seed: int, clients: int, classes: int) -> None:
    counts = np.random.default_rng(seed).integers(0, 9, (clients, classes))
    counts[0] = 0
    found = label_total_variation(counts)
    shares = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    for i in range(clients):
        for j in range(clients):
            empty = [counts[i].sum() == 0, counts[j].sum() == 0]
            plain = max(sum(max(a - b, 0) for a, b in zip(*pair, strict=True)) for pair in [(shares[i], shares[j])])
            assert found[i, j] == pytest.approx(0.0 if all(empty) else 1.0 if any(empty) else plain)


def test_label_total_variation_refuses_what_are_no_counts() -> None:
    for wrong in ([1, 2], [[1, -1]], [[1, np.nan]]):
        with pytest.raises(ValueError, match="counts should"):
            label_total_variation(wrong)


@pytest.mark.parametrize(("n", "f", "g"), [(20, 3, 5), (6, 9, 2), (5, 8, 30)])
def test_linear_cka_by_its_definition(n: int, f: int, g: int) -> None:
    x, y = sample(1, n, f), sample(2, n, g)
    h = np.eye(n) - 1 / n
    k, m = h @ x @ x.T @ h, h @ y @ y.T @ h
    expected = np.trace(k @ m) / np.sqrt(np.trace(k @ k) * np.trace(m @ m))
    assert linear_cka(x, y) == pytest.approx(expected)
    turn = np.linalg.qr(sample(3, f, f))[0]
    assert linear_cka(3 * x @ turn + 4, y) == pytest.approx(expected)
    assert linear_cka(x, -x) == pytest.approx(1)


def test_linear_cka_of_constant_features() -> None:
    x, still = sample(0, 7, 3), np.full((7, 4), 0.1)
    assert (linear_cka(x, still), linear_cka(still, x), linear_cka(still, still * 3)) == (0, 0, 1)
    assert linear_cka(x[:1], x[:1]) == 1
    with pytest.raises(ValueError, match="same inputs"):
        linear_cka(x, x[:4])


def test_moment_cka_by_its_definition() -> None:
    x, y = sample(1, 9, 4), sample(2, 6, 4)
    s, t = x.T @ x, y.T @ y
    assert moment_cka(x, y) == pytest.approx((s * t).sum() / np.linalg.norm(s) / np.linalg.norm(t))
    assert moment_cka(x, -5 * x) == pytest.approx(1)
    assert moment_cka(np.eye(4)[:2], np.eye(4)[2:]) == 0
    black = np.zeros((3, 4))
    assert (moment_cka(x, black), moment_cka(black, black)) == (0, 1)


def test_moments_of_many_features_are_compared_in_the_directions_that_matter() -> None:
    rng = np.random.default_rng(0)
    axes = rng.normal(size=(300, 300)) * np.geomspace(1, 1e-3, 300)[:, None] + 0.05
    x, y = (rng.normal(1, 1, (n, 300)) * scale @ axes for n, scale in ((80, 1), (120, np.linspace(0, 1, 300))))
    s, t = x.T @ x, y.T @ y
    exact = (s * t).sum() / np.linalg.norm(s) / np.linalg.norm(t)
    assert moment_cka(x, y) == pytest.approx(exact, abs=1e-4)
    assert exact < 0.95


@pytest.mark.parametrize("measure", SAMPLE_MEASURES)
def test_all_pairs_are_as_two_by_two(measure: str) -> None:
    samples = [sample(i, 8 + i, 5, i) for i in range(4)]
    options = {"bandwidth": 2.0} if measure == "mmd" else {}
    found = pairwise(measure, samples, **options)
    expected = [[PAIR[measure](x, y, **options) for y in samples] for x in samples]
    np.testing.assert_allclose(found, expected, atol=1e-9)
    np.testing.assert_array_equal(np.diagonal(found), 1.0 if measure == "cka" else 0.0)
    assert (np.array_equal(found, found.T)) == (measure != "kl")
    assert pairwise(measure, []).shape == (0, 0)
    assert pairwise(measure, samples[:1], **options).shape == (1, 1)


@pytest.mark.parametrize("measure", SAMPLE_MEASURES)
def test_what_is_degenerate_gives_finite_numbers(measure: str) -> None:
    """One row, equal rows, constant features, fewer rows than features, all zero; in one matrix and two by two."""
    x = sample(0, 30, 6)
    flat = x.copy()
    flat[:, 2:] = 0.3
    samples = [x, x[:1], x[:1] + 1, np.repeat(x[:1], 5, axis=0), np.repeat(x[1:2] / 3, 7, axis=0), flat, x[:3],
               np.zeros((4, 6)), np.zeros((1, 6))]  # fmt: skip
    found = pairwise(measure, samples)
    assert np.isfinite(found).all()
    assert (found >= 0).all()
    assert all(np.isfinite(PAIR[measure](a, b)) for a in samples for b in samples)
    equal = 1.0 if measure == "cka" else 0.0
    assert found[1, 3] == pytest.approx(equal, abs=1e-9)  # one row, and that row five times
    assert found[7, 8] == equal
    if measure != "cka":
        assert (found[0, [1, 2, 4, 7]] > 0).all()
        assert found[1, 2] > 0
    if measure in ("bhattacharyya", "kl", "kl_symmetric"):
        assert found[1, 2] > 1e4  # points that differ: large, but finite


@pytest.mark.parametrize("measure", SAMPLE_MEASURES)
def test_bytes_count_from_0_to_1_and_images_are_flattened(measure: str) -> None:
    rng = np.random.default_rng(0)
    images = [rng.integers(0, high, (20, 1, 3, 3), dtype=np.uint8) for high in (256, 200, 90)]
    floats = [(x / 255.0).reshape(20, 9) for x in images]
    np.testing.assert_allclose(pairwise(measure, images), pairwise(measure, floats), rtol=1e-9)


@pytest.mark.parametrize("measure", SAMPLE_MEASURES)
def test_bad_samples_are_named(measure: str) -> None:
    x = sample(0, 5, 3)
    for wrong, message in (
        ([x, x[:0]], r"samples\[1\] should have samples in rows, at least one"),
        ([x, x[0]], r"samples\[1\]"),
        ([x, x[:, :2]], r"samples\[1\] has 2 features, but samples\[0\] has 3"),
        ([x, x * np.array([np.nan, 1, 1])], r"samples\[1\] holds NaN"),
    ):
        with pytest.raises(ValueError, match=message):
            pairwise(measure, wrong)


def test_bad_options_are_named() -> None:
    x = sample(0, 5, 3)
    with pytest.raises(ValueError, match="measure = 'angle' is not one of bhattacharyya"):
        pairwise("angle", [x])  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="projections = 0"):
        sliced_wasserstein(x, x, projections=0)
    with pytest.raises(ValueError, match="components = 0"):
        reduced([x], 0)
    with pytest.raises(ValueError, match="bandwidth = 0"):
        mmd(x, x, bandwidth=0)


def test_reduced_are_the_principal_components_of_all(monkeypatch: pytest.MonkeyPatch) -> None:
    samples = [sample(i, 12 + i, 7, i) for i in range(3)]
    both = np.concatenate(samples)
    centred = both - both.mean(axis=0)
    u, s, _ = np.linalg.svd(centred, full_matrices=False)
    found = np.concatenate(reduced(samples, 3))
    np.testing.assert_allclose(np.abs(found), np.abs(u[:, :3] * s[:3]), atol=1e-9)
    np.testing.assert_array_equal(np.concatenate(reduced(samples, 7)), both)
    np.testing.assert_array_equal(np.concatenate(reduced(samples, None)), both)
    assert [x.shape for x in reduced([np.ones((4, 9)), np.ones((2, 9))], 3)] == [(4, 1), (2, 1)]
    monkeypatch.setattr(module, "FITTED", 13)  # every third row of each client
    some = np.concatenate([x[::4] if len(both) > 39 else x[::3] for x in samples])
    axes = np.linalg.svd(some - some.mean(axis=0))[2][:3]
    np.testing.assert_allclose(np.abs(np.concatenate(reduced(samples, 3))), np.abs((both - some.mean(axis=0)) @ axes.T))


def test_order_of_table_6() -> None:
    """PACFL, Table 6: 100 points in 20 dimensions, p = 3; column 2 above 1, and 4 above 3, in each of 20 draws.

    For the angle this holds for the last two columns, and in their mean: between multiples of the mean it does not
    tell, since the mean is the first direction of all three.
    """
    angles = np.zeros(4)
    for seed in range(20):
        rng = np.random.default_rng(seed)
        mean, root = rng.normal(size=20), rng.normal(size=(20, 20)) / 20**0.5
        times, spread = np.array([[1, 1], [2, 1], [3, 1], [1, 2], [1, 5]]).T
        drawn = [t * mean + s**0.5 * rng.normal(size=(100, 20)) @ root for t, s in zip(times, spread, strict=True)]
        for measure in (bhattacharyya, kl_divergence, mmd):
            a, b, c, d = (measure(drawn[0], y) for y in drawn[1:])
            assert b > a
            assert d > c
        angles += principal_angles([signature(drawn[0], 3)], [signature(y, 3) for y in drawn[1:]], "min_abs")[0] / 20
    assert angles[3] > angles[2]
