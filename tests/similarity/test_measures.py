"""Measures by name: between samples two by two and all at once, and of one's own."""

import numpy as np
import pytest
from random_samples import sample

from coterie.errors import CoterieError
from coterie.registry import is_own
from coterie.similarity import (
    MEASURES,
    bhattacharyya,
    emd_pixel,
    error_in_signature_measure,
    kl_divergence,
    measure,
    mmd,
    moment_cka,
    pairwise,
    principal_angles,
    reduced,
    signature,
    sliced_wasserstein,
)
from coterie.similarity import samples as module

PAIR = {
    "bhattacharyya": bhattacharyya,
    "kl": kl_divergence,
    "kl_symmetric": lambda x, y: kl_divergence(x, y, symmetric=True),
    "mmd": mmd,
    "emd": sliced_wasserstein,
    "emd_pixel": emd_pixel,
    "cka": moment_cka,
}


@pytest.mark.parametrize("measure", PAIR)
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


@pytest.mark.parametrize("measure", PAIR)
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


@pytest.mark.parametrize("measure", PAIR)
def test_bytes_count_from_0_to_1_and_images_are_flattened(measure: str) -> None:
    rng = np.random.default_rng(0)
    images = [rng.integers(0, high, (20, 1, 3, 3), dtype=np.uint8) for high in (256, 200, 90)]
    floats = [(x / 255.0).reshape(20, 9) for x in images]
    np.testing.assert_allclose(pairwise(measure, images), pairwise(measure, floats), rtol=1e-9)


@pytest.mark.parametrize("measure", PAIR)
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
        for distance in (bhattacharyya, kl_divergence, mmd):
            a, b, c, d = (distance(drawn[0], y) for y in drawn[1:])
            assert b > a
            assert d > c
        angles += principal_angles([signature(drawn[0], 3)], [signature(y, 3) for y in drawn[1:]], "min_abs")[0] / 20
    assert angles[3] > angles[2]


def test_every_measure_says_what_it_needs() -> None:
    ours = [name for name in MEASURES if is_own(MEASURES[name])]
    assert {name for name in ours if MEASURES[name].needs == "samples"} == set(PAIR)
    assert {name for name in ours if MEASURES[name].similarity} == {"cka"}
    assert {name for name in ours if not MEASURES[name].symmetric} == {"kl"}
    assert [name for name in ours if not error_in_signature_measure(name)] == [
        "min_abs", "min_entry", "sum_angles", "theta1", "trace"
    ]  # fmt: skip
    assert MEASURES["labels"].to_json() == {
        "title": "total variation of labels",
        "unit": "share",
        "similarity": False,
        "needs": "label counts",
        "real_federation": True,
        "says": "what share of the labels would have to change for two clients to have the same mixture",
    }


def test_measures_of_signatures_are_the_angles() -> None:
    u = [signature(sample(seed, 9, 6), 2) for seed in range(4)]
    for name in ("min_abs", "min_entry", "sum_angles", "theta1", "trace"):
        np.testing.assert_array_equal(MEASURES[name](u), principal_angles(u, measure=name))
        np.testing.assert_array_equal(MEASURES[name](u[:1], u), principal_angles(u[:1], u, name))


def test_what_can_not_compare_signatures_is_named() -> None:
    assert error_in_signature_measure("theta2") == "unknown measure 'theta2': did you mean 'theta1'?"
    assert "'emd' is not a distance between signatures: use " in str(error_in_signature_measure("emd"))


def test_a_measure_that_returns_nonsense_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(MEASURES, "_items", dict(MEASURES._items))

    @measure("flat", needs="samples")
    def flat(samples):
        """Forget one of the axes."""
        return np.zeros(len(samples))

    @measure("hole", needs="samples")
    def hole(samples):
        """Divide by nothing."""
        return np.full((len(samples), len(samples)), np.nan)

    with pytest.raises(
        CoterieError, match=r"measure 'flat' of .*test_measures.py returned the shape \(2,\), not \(2, 2\)"
    ):
        pairwise("flat", [np.ones((2, 3))] * 2)
    with pytest.raises(CoterieError, match=r"measure 'hole' of .* returned NaN"):
        pairwise("hole", [np.ones((2, 3))] * 2)

    @measure("one-way", needs="vectors")
    def one_way(a, b=None):
        """Count upwards."""
        return np.arange(len(a) ** 2.0).reshape(len(a), len(a))

    with pytest.raises(CoterieError, match="is not symmetric: declare symmetric=False"):
        one_way([np.eye(2)] * 2)
    with pytest.raises(CoterieError, match="needs = 'pixels' is not one of vectors"):
        measure("odd", needs="pixels")(lambda samples: samples)
    with pytest.raises(CoterieError, match="a measure is a function, registered by"):
        MEASURES.register("plain")(flat.function)
