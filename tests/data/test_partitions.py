"""Partitions are exact, repeatable, and have the label counts that they promise."""

import time
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from partition_world import pools

from coterie.data import PARTITIONS, Dataset, Samples
from coterie.errors import CoterieError
from coterie.streams import stream

Labels = npt.NDArray[np.int64]


def parts_of(name: str, y: Labels, clients: int, seed: int = 0, **options: Any) -> list[Labels]:
    values = PARTITIONS.validate(name, options)
    data = Dataset("labels", Samples(np.zeros((len(y), 1), np.float32), y), None, int(y.max()) + 1)
    return list(PARTITIONS[name](data, clients, stream(seed, "partition"), **values).parts)


def owners_by_label(y: Labels, parts: list[Labels]) -> npt.NDArray[np.int64]:
    """(clients, classes): how many samples of each class each client has."""
    return np.stack([np.bincount(y[part], minlength=y.max() + 1) for part in parts])


@given(pools())
def test_iid_is_an_exact_partition_into_nearly_equal_parts(pool: tuple[Labels, int, int]) -> None:
    y, clients, seed = pool
    parts = parts_of("iid", y, clients, seed)
    sizes = [len(part) for part in parts]
    assert len(parts) == clients
    assert np.array_equal(np.sort(np.concatenate(parts)), np.arange(len(y)))
    assert max(sizes) - min(sizes) <= 1


def test_iid_gives_everyone_the_same_mixture() -> None:
    y = np.repeat(np.arange(10), 1000)
    counts = owners_by_label(y, parts_of("iid", y, 10))
    # 100 of each label expected, with a standard deviation below 10 (hypergeometric).
    assert np.abs(counts - 100).max() < 50


@pytest.mark.integration
@given(pools(), st.floats(0.01, 1))
def test_label_skew_is_an_exact_partition_with_every_label_shared_evenly(
    pool: tuple[Labels, int, int], rho: float
) -> None:
    y, clients, seed = pool
    classes = int(y.max()) + 1
    each = max(1, round(rho * classes))
    assume(each * clients >= classes)
    parts = parts_of("label-skew", y, clients, seed, rho=rho)
    assert np.array_equal(np.sort(np.concatenate(parts)), np.arange(len(y)))
    counts = owners_by_label(y, parts)
    assert (counts > 0).sum(axis=1).max() <= each
    for label in range(classes):
        shares = counts[:, label][counts[:, label] > 0]
        assert len(shares) > 0
        assert shares.max() - shares.min() <= 1


@given(clients=st.integers(10, 60), each=st.integers(1, 10), seed=st.integers(0, 2**32))
def test_label_skew_gives_client_i_label_i_and_exactly_k_labels(clients: int, each: int, seed: int) -> None:
    y = np.arange(10 * 60) % 10  # 60 of each label: at least one for each possible owner
    counts = owners_by_label(y, parts_of("label-skew", y, clients, seed, rho=each / 10))
    assert ((counts > 0).sum(axis=1) == each).all()
    assert all(counts[client, client % 10] > 0 for client in range(clients))


def test_label_skew_draws_further_labels_uniformly() -> None:
    y = np.arange(50_000) % 10
    counts = owners_by_label(y, parts_of("label-skew", y, 5000, rho=0.2)) > 0
    first = np.arange(5000) % 10
    for label in range(10):
        others = counts[first != label, label]
        # One in nine, with a standard deviation of 0.0047.
        assert others.mean() == pytest.approx(1 / 9, abs=0.025)


@pytest.mark.parametrize(("clients", "labels", "rho"), [(10, 100, 0.1), (5, 10, 0.2), (3, 62, 0.35), (99, 100, 0.02)])
def test_label_skew_with_fewer_clients_than_labels_still_owns_every_label(
    clients: int, labels: int, rho: float
) -> None:
    # In the first case a random draw covers all labels about once in 10^39 draws: drawing alone would not end.
    y = np.arange(labels * clients) % labels
    counts = owners_by_label(y, parts_of("label-skew", y, clients, rho=rho)) > 0
    assert counts.any(axis=0).all()
    assert (counts.sum(axis=1) == round(rho * labels)).all()
    assert all(counts[client, client] for client in range(clients))


def test_label_skew_refuses_what_cannot_cover_the_labels_and_its_advice_works() -> None:
    y = np.arange(700) % 7
    with pytest.raises(
        CoterieError, match=r"rho = 0\.2 each of 3 clients has 1 of 7 labels.* 7 clients, or rho = 0.429"
    ):
        parts_of("label-skew", y, 3, rho=0.2)
    for clients, rho in ((7, 0.2), (3, 0.429)):
        assert (owners_by_label(y, parts_of("label-skew", y, clients, rho=rho)) > 0).any(axis=0).all()


def test_label_skew_leaves_few_clients_empty_handed_when_samples_are_scarce() -> None:
    y = np.arange(1700) % 10
    sizes = [len(part) for part in parts_of("label-skew", y, 1000)]
    assert sum(size == 0 for size in sizes) == 0
    assert sum(sizes) == 1700


def test_label_skew_shuffles_the_samples_of_a_label_before_they_are_shared() -> None:
    y = np.zeros(1000, np.int64)
    for part in parts_of("label-skew", y, 4):
        # Positions of a random quarter have the mean 499.5, with a standard deviation of 16.
        assert part.mean() == pytest.approx(499.5, abs=80)


def test_label_skew_ignores_labels_that_do_not_occur() -> None:
    y = np.repeat([0, 3, 9], 40)
    counts = owners_by_label(y, parts_of("label-skew", y, 6, rho=1 / 3))
    assert ((counts > 0).sum(axis=1) == 1).all()
    assert (counts.sum(axis=1) == 20).all()


@pytest.mark.parametrize("name", ["iid", "label-skew"])
def test_the_seed_alone_decides(name: str) -> None:
    y = np.random.default_rng(1).integers(0, 10, 900)
    first, again, other = parts_of(name, y, 30, 5), parts_of(name, y, 30, 5), parts_of(name, y, 30, 6)
    assert all(np.array_equal(a, b) for a, b in zip(first, again, strict=True))
    assert not all(np.array_equal(a, b) for a, b in zip(first, other, strict=True))


def test_a_thousand_clients_take_well_under_two_seconds() -> None:
    y = np.random.default_rng(0).integers(0, 100, 60_000)
    start = time.perf_counter()
    parts_of("label-skew", y, 1000)
    parts_of("iid", y, 1000)
    assert time.perf_counter() - start < 2


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rho": 0}, r"rho = 0 is not valid.*greater than 0"),
        ({"rho": 20}, r"rho = 20 is not valid.*less than or equal to 1"),
        ({"rho": float("nan")}, r"rho = nan is not valid"),
        ({"ro": 0.2}, r"no option 'ro': did you mean 'rho'\?"),
    ],
)
def test_bad_options_are_named(options: dict[str, Any], message: str) -> None:
    with pytest.raises(CoterieError, match=message):
        PARTITIONS.validate("label-skew", options)
