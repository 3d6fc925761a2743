"""What servers do with models: means, distances, and whether all numbers are numbers."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from coterie.messages import distance, usable, weighted_mean


def models(count: int, kind: str = "f4") -> st.SearchStrategy[list[dict[str, np.ndarray]]]:
    def alike(shapes: dict[str, tuple[int, ...]]) -> st.SearchStrategy[list[dict[str, np.ndarray]]]:
        numbers = st.floats(-1e3, 1e3, width=32)
        models = st.fixed_dictionaries(
            {name: npst.arrays(kind, shape, elements=numbers) for name, shape in shapes.items()}
        )
        return st.lists(models, min_size=count, max_size=count)

    shapes = npst.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4)
    return st.dictionaries(st.sampled_from(["w", "b", "fc.weight"]), shapes, min_size=1).flatmap(alike)


@pytest.mark.integration
@given(st.integers(1, 5).flatmap(models), st.data())
def test_the_mean_is_that_of_numpy(given_models: list[dict[str, np.ndarray]], data: st.DataObject) -> None:
    weight = st.integers(1, 1000) | st.floats(1e-3, 1e3)
    weights = data.draw(st.lists(weight, min_size=len(given_models), max_size=len(given_models)))
    mean = weighted_mean(given_models, weights)
    assert list(mean) == list(given_models[0])
    for name, value in mean.items():
        stack = np.stack([model[name] for model in given_models]).astype(np.float64)
        assert isinstance(value, np.ndarray)
        assert value.dtype == np.float32
        assert value.shape == given_models[0][name].shape
        expected = np.average(stack, axis=0, weights=weights)
        allowed = 1e-6 * np.abs(stack).max(initial=0.0) + np.finfo(np.float32).smallest_subnormal
        np.testing.assert_allclose(value, expected, rtol=1e-6, atol=allowed)


def test_means_are_summed_in_float64() -> None:
    """In float32 the small ones would be lost beside the large one."""
    many = [{"w": np.float32([1e8])}] + [{"w": np.float32([1.0])}] * 1000 + [{"w": np.float32([-1e8])}]
    assert weighted_mean(many, [1] * len(many))["w"] == pytest.approx([1000 / 1002], rel=1e-6)


def test_a_mean_of_one_is_the_very_model() -> None:
    w = np.random.default_rng(0).normal(size=1000).astype(np.float32)
    np.testing.assert_array_equal(weighted_mean([{"w": w}], [37])["w"], w)
    assert weighted_mean([{"w": w}], [37])["w"] is not w


def test_a_weight_of_zero_leaves_a_model_out() -> None:
    assert weighted_mean([{"w": np.float32([1])}, {"w": np.float32([9])}], [5, 0])["w"] == [1]


def test_weights_are_relative() -> None:
    pair = [{"w": np.float32([1, 2])}, {"w": np.float32([4, 8])}]
    np.testing.assert_array_equal(weighted_mean(pair, [1, 2])["w"], weighted_mean(pair, [0.25, 0.5])["w"])


@pytest.mark.parametrize("kind", ["f2", "f4", "f8"])
def test_a_mean_has_the_type_of_the_models(kind: str) -> None:
    assert weighted_mean([{"w": np.ones(2, kind)}] * 2, [1, 1])["w"].dtype == np.dtype(kind)


@pytest.mark.parametrize("kind", ["i8", "i4", "u1"])
@pytest.mark.parametrize("shape", [(), (1,), (2, 2)])
def test_counters_are_not_averaged_but_the_largest_taken(kind: str, shape: tuple[int, ...]) -> None:
    mean = weighted_mean([{"n": np.full(shape, k, kind)} for k in (3, 9, 4)], [1, 1, 100])["n"]
    assert isinstance(mean, np.ndarray)
    assert mean.dtype == np.dtype(kind)
    assert mean.shape == shape
    assert np.all(mean == 9)


def test_the_largest_counter_is_taken_entry_by_entry() -> None:
    pair = [{"n": np.array([1, 7])}, {"n": np.array([5, 2])}]
    np.testing.assert_array_equal(weighted_mean(pair, [1, 1])["n"], [5, 7])


def test_what_is_averaged_does_not_change() -> None:
    pair = [{"w": np.float32([1, 2]), "n": np.array([3])}, {"w": np.float32([5, 6]), "n": np.array([1])}]
    weighted_mean(pair, [1, 3])
    np.testing.assert_array_equal(pair[0]["w"], [1, 2])
    np.testing.assert_array_equal(pair[1]["w"], [5, 6])
    np.testing.assert_array_equal(pair[0]["n"], [3])


def test_there_must_be_something_to_average() -> None:
    with pytest.raises(ValueError, match="nothing to average"):
        weighted_mean([], [])
    with pytest.raises(ValueError, match=r"zip|shorter|longer"):
        weighted_mean([{"w": np.ones(1)}] * 2, [1])


def test_weights_that_are_all_zero_are_refused() -> None:
    """Not a model of NaNs: clients that trained on nothing say so with a weight of 0."""
    with pytest.raises(ValueError, match="average"):
        weighted_mean([{"w": np.ones(2, np.float32)}] * 2, [0, 0])


@pytest.mark.integration
@given(models(2))
def test_distance_is_the_norm_of_the_difference(pair: list[dict[str, np.ndarray]]) -> None:
    a, b = pair
    flat = [np.concatenate([m[name].ravel() for name in a]).astype(np.float64) for m in (a, b)]
    assert distance(a, b) == pytest.approx(np.linalg.norm(flat[0] - flat[1]), rel=1e-5, abs=1e-4)
    assert distance(a, b) == pytest.approx(distance(b, a), rel=1e-12)  # their names may stand in another order
    assert distance(a, a) == 0


def test_distance_by_hand() -> None:
    a = {"w": np.float32([[1, 2], [3, 4]]), "b": np.float32([0]), "n": np.array(7)}
    b = {"w": np.float32([[1, 2], [3, 1]]), "b": np.float32([4]), "n": np.array(900)}
    assert distance(a, b) == pytest.approx(5.0)  # the counter does not count


def test_the_distance_of_finite_models_is_finite() -> None:
    a, b = {"w": np.full(4, 1e25, np.float32)}, {"w": np.zeros(4, np.float32)}
    assert distance(a, b) == pytest.approx(2e25)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, 2e12, -2e12])
@pytest.mark.parametrize("place", [0, 3, -1])
def test_one_bad_number_is_enough(bad: float, place: int) -> None:
    w = np.zeros(10, np.float32)
    assert usable({"n": np.array(3), "flag": np.array(True), "none": np.zeros(0), "w": w.reshape(2, 5)})
    w[place] = bad
    assert not usable({"n": np.array(3), "w": w.reshape(2, 5)})
    assert not usable({"w": w.reshape(2, 5), "n": np.array(3)})
