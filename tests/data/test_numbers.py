"""Data sets whose labels are numbers to predict."""

from itertools import pairwise

import numpy as np
import pytest

from coterie.data.dividing import divide
from coterie.data.in_memory import arrays_to_dataset
from coterie.data.numbers import as_labels, as_numbers
from coterie.data.partitions.concept_shift import rotated
from coterie.data.readers.arrays import dataset_from_arrays
from coterie.errors import CoterieError


def dataset(y, y_test=None, **options):
    x = np.random.default_rng(0).normal(size=(len(y), 4)).astype(np.float32)
    arrays = {"x_train": x, "y_train": np.asarray(y)}
    if y_test is not None:
        arrays |= {"x_test": x[: len(y_test)], "y_test": np.asarray(y_test)}
    return dataset_from_arrays("numbers", arrays, "here", **options)


def test_numbers_are_divided_in_deviations_from_their_mean():
    y = np.random.default_rng(1).normal(300, 40, 200)
    data = divide(dataset(y, y[:30] + 1.0), "iid", {}, 5, 0)
    mean, deviation = data.target
    assert (mean, deviation, data.classes) == (pytest.approx(y.mean()), pytest.approx(y.std()), 1)
    own = np.concatenate([data.train.y[part] for part in data.train_parts] + [data.server.y])
    np.testing.assert_allclose(np.sort(mean + deviation * own), np.sort(y), rtol=1e-5)
    assert data.common_test
    assert all(len(part) == 30 for part in data.test_parts)
    np.testing.assert_allclose(np.sort(mean + deviation * data.test.y), np.sort(y[:30] + 1), rtol=1e-5)


def test_shards_are_of_the_samples_sorted_by_number():
    y = np.random.default_rng(1).normal(size=100)
    data = divide(dataset(y), "shards", {"per_client": 1}, 4, 0, server_share=0.0)
    ends = sorted((float(data.train.y[part].min()), float(data.train.y[part].max())) for part in data.train_parts)
    assert all(a[1] < b[0] for a, b in pairwise(ends))


def test_whole_numbers_can_be_predicted_as_such_but_texts_not():
    whole = as_numbers(dataset([3, 0, 7, 7]))
    assert whole.train.y.tolist() == [3.0, 0.0, 7.0, 7.0]
    assert whole.classes == 1
    named = as_numbers(dataset(["10", "2", "10"]))
    assert named.train.y.tolist() == [10.0, 2.0, 10.0]
    assert named.class_names == ()
    with pytest.raises(CoterieError, match="has classes to predict, such as 'high'"):
        as_numbers(dataset(["1", "high", "low"]))


def test_what_is_no_number_or_no_class_is_refused():
    with pytest.raises(
        CoterieError, match="a quantity and not a class: to predict numbers write --metric mae; classes"
    ):
        as_labels(dataset([0.5, 1.5]))
    with pytest.raises(CoterieError, match=r"1 regression target that can't be used \(NaN, infinite or beyond"):
        dataset([0.5, np.nan])
    with pytest.raises(CoterieError, match="classes are named"):
        dataset([0.5, 1.5], classes=2)
    with pytest.raises(CoterieError, match="y_test is of type"):
        dataset([0.5, 1.5], ["a"])


def test_partitions_by_label_are_refused_also_inside_others():
    for name, options in (("dirichlet", {}), ("label-skew", {}), ("planted", {}), ("permuted", {})):
        with pytest.raises(CoterieError, match=f"partition '{name}' uses labels"):
            divide(dataset(np.linspace(0.5, 9, 50)), name, options, 4, 0)
    images = arrays_to_dataset((np.zeros((40, 8, 8), np.uint8), np.linspace(0, 1, 40)), "images")
    with pytest.raises(CoterieError, match="partition 'dirichlet' uses labels"):
        rotated(images, 4, np.random.default_rng(0), parts="dirichlet:alpha=0.5")
    with pytest.raises(CoterieError, match="leave it out"):
        divide(dataset(np.linspace(0.5, 9, 50)), "iid", {"labels": 2}, 4, 0)
