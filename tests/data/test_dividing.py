"""Dividing a pooled data set: the server's set, the clients' parts, and what they are tested on."""

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from coterie.data import PARTITIONS, Dataset, FederatedData, Normalisation, Partition, Samples, divide, load, partition
from coterie.data.dividing import with_server_share
from coterie.errors import CoterieError


def numbered(sizes: list[int], test_sizes: list[int] | None = None) -> Dataset:
    """A data set with classes of the given sizes, whose inputs are their own positions, mixed up."""

    def samples(counts: list[int], first: int) -> Samples:
        y = np.random.default_rng(0).permutation(np.repeat(np.arange(len(counts)), counts))
        return Samples(np.arange(first, first + len(y), dtype=np.float32)[:, None], y)

    test = samples(test_sizes, 10**6) if test_sizes else None
    return Dataset("numbered", samples(sizes, 0), test, len(sizes))


def positions(samples: Samples) -> list[int]:
    return [int(value) for value in samples.x[:, 0]]


def labels_kept(samples: Samples, pool: Samples, first: int = 0) -> bool:
    """Whether every input still has the label that it had in the pool."""
    return bool((pool.y[np.array(positions(samples), np.int64) - first] == samples.y).all())


@pytest.fixture
def register() -> Iterator[Callable[[Callable[..., Partition]], str]]:
    """Register a partition for one test."""
    names: list[str] = []

    def enter(function: Callable[..., Partition]) -> str:
        names.append(f"test-{len(names)}")
        partition(names[-1])(function)
        return names[-1]

    yield enter
    for name in names:
        del PARTITIONS._items[name]


@pytest.mark.integration
@given(
    sizes=st.lists(st.integers(20, 60), min_size=1, max_size=6),
    clients=st.integers(1, 19),
    seed=st.integers(0, 2**32),
    own_test=st.booleans(),
)
def test_every_sample_is_with_one_client_or_the_server(
    sizes: list[int], clients: int, seed: int, own_test: bool
) -> None:
    pool = numbered(sizes, [5] * len(sizes) if own_test else None)
    data = divide(pool, "iid", {}, clients, seed)
    held = positions(data.server) + positions(data.train) + ([] if own_test else positions(data.test))
    assert sorted(held) == list(range(sum(sizes)))
    assert np.array_equal(np.concatenate(data.train_parts), np.arange(len(data.train)))
    assert all(labels_kept(samples, pool.train) for samples in (data.server, data.train))
    assert (data.clients, data.classes, data.common_test) == (clients, len(sizes), own_test)


@pytest.mark.parametrize(
    ("sizes", "expected"),
    [
        ([100, 100, 100, 100], [5, 5, 5, 5]),
        ([6000] * 10, [250] * 10),
        ([380, 3, 14], [12, 1, 7]),  # no more than half of a class; the rest is made up by others
        ([40_000, 30_000], [1250, 1250]),
        ([4, 3], [1, 0]),
    ],
)
def test_the_server_set_is_five_percent_at_most_2500_and_balanced(sizes: list[int], expected: list[int]) -> None:
    server = divide(numbered(sizes), "iid", {}, 2, 0).server
    assert sorted(np.bincount(server.y, minlength=len(sizes))) == sorted(expected)
    assert len(server) == max(1, min(2500, round(0.05 * sum(sizes))))


def test_a_server_set_that_classes_cannot_share_evenly_differs_by_one() -> None:
    counts = np.bincount(divide(numbered([180, 178, 182]), "iid", {}, 2, 3).server.y)
    assert counts.sum() == 27
    assert counts.max() - counts.min() <= 1


def test_the_server_set_depends_on_the_seed_only() -> None:
    pool = numbered([50] * 10)
    reference = positions(divide(pool, "iid", {}, 5, 1).server)
    assert positions(divide(pool, "label-skew", {"rho": 0.3}, 40, 1).server) == reference
    assert positions(divide(pool, "iid", {}, 5, 2).server) != reference


@pytest.mark.parametrize(("share", "reserved"), [(None, 50), (0.0, 0), (0.001, 1), (0.1, 100)])
def test_the_server_keeps_the_share_that_is_set(share: float | None, reserved: int) -> None:
    data = divide(numbered([100] * 10, [5] * 10), "iid", {}, 10, 0, server_share=share)
    assert (len(data.server), len(data.train)) == (reserved, 1000 - reserved)
    assert sorted(positions(data.server) + positions(data.train)) == list(range(1000))


def test_what_networks_see_does_not_depend_on_the_server_share() -> None:
    usual, none = (divide(images(), "iid", {}, 10, 0, server_share=share) for share in (None, 0.0))
    assert np.array_equal(usual.normalise(usual.server.x), none.normalise(usual.server.x))
    assert len(none.train) + len(none.test) == 2000


@pytest.mark.parametrize("name", ["digits-rotated", "synthetic"])
def test_a_divided_data_set_gives_clients_what_the_server_does_not_keep(name: str) -> None:
    usual, none = (load(name, clients=8, server_share=share) for share in (None, 0.0))
    assert len(none.server) == 0 < len(usual.server)
    assert len(none.train) + len(none.test) == sum(map(len, (usual.train, usual.test, usual.server)))


def test_a_data_set_that_divides_itself_may_leave_the_server_less_but_not_more() -> None:
    whole = divide(numbered([100] * 10), "iid", {}, 10, 0)  # 760 samples to train on
    assert positions(with_server_share(whole, 0.02).server) == [
        x for x in positions(whole.server) if x in positions(with_server_share(whole, 0.02).server)
    ]
    assert [len(with_server_share(whole, share).server) for share in (None, 0, 0.02)] == [50, 0, 16]
    with pytest.raises(CoterieError, match=r"server_share = 0.1 would be 81 samples, but .* has 50 for the server"):
        with_server_share(whole, 0.1)


def test_with_a_test_set_a_client_is_tested_on_all_samples_of_its_own_labels() -> None:
    pool = numbered([60] * 10, [7, 3, 9, 5, 4, 6, 8, 2, 1, 0])
    assert pool.test is not None
    data = divide(pool, "label-skew", {"rho": 0.3}, 25, 0)
    assert data.common_test
    assert sorted(positions(data.test)) == list(range(10**6, 10**6 + 45))
    assert labels_kept(data.test, pool.test, 10**6)
    assert (np.diff(data.test.y) >= 0).all()
    for training, testing in zip(data.train_parts, data.test_parts, strict=True):
        own = set(data.train.y[training].tolist())
        assert len(own) == 3
        assert sorted(testing.tolist()) == [i for i, label in enumerate(data.test.y.tolist()) if label in own]


def test_the_test_set_is_sorted_by_label_and_otherwise_keeps_its_order() -> None:
    data = divide(numbered([30, 30], [20, 20]), "iid", {}, 3, 0)
    for label in (0, 1):
        order = positions(data.test[data.test.y == label])
        assert order == sorted(order)


@pytest.mark.integration
@given(samples=st.integers(2, 200), clients=st.integers(1, 40), seed=st.integers(0, 1000))
def test_without_a_test_set_a_fifth_of_each_client_is_held_out(samples: int, clients: int, seed: int) -> None:
    clients = min(clients, samples - max(1, round(samples / 20)))
    data = divide(numbered([samples]), "iid", {}, clients, seed)
    assert not data.common_test
    assert np.array_equal(np.concatenate(data.test_parts), np.arange(len(data.test)))
    for training, testing in zip(data.train_parts, data.test_parts, strict=True):
        size = len(training) + len(testing)
        assert len(training) >= 1
        assert len(testing) == (0 if size == 1 else max(1, round(size / 5)))


@pytest.mark.parametrize("test_sizes", [None, [4, 4, 4]])
def test_one_seed_gives_the_same_division_and_another_a_different_one(test_sizes: list[int] | None) -> None:
    pool = numbered([40, 40, 40], test_sizes)
    first, again, other = (divide(pool, "label-skew", {"rho": 0.5}, 6, seed) for seed in (8, 8, 9))
    for name in ("train", "test", "server"):
        assert positions(getattr(first, name)) == positions(getattr(again, name))
    assert positions(first.train) != positions(other.train)


def test_who_has_which_labels_follows_the_seed() -> None:
    def label_sets(seed: int) -> list[set[int]]:
        data = divide(numbered([60] * 10), "label-skew", {"rho": 0.4}, 10, seed)
        return [set(data.train.y[part].tolist()) for part in data.train_parts]

    assert label_sets(0) == label_sets(0)
    assert label_sets(0) != label_sets(1)


@pytest.mark.parametrize("clients", [0, -3, 96])
def test_a_number_of_clients_that_samples_cannot_serve_is_refused(clients: int) -> None:
    with pytest.raises(CoterieError, match=rf"{clients} clients cannot share data set 'numbered'.*use 1 to 95 clients"):
        divide(numbered([50, 50]), "iid", {}, clients, 0)
    assert divide(numbered([50, 50]), "iid", {}, 95, 0).clients == 95


@pytest.mark.parametrize("test_sizes", [None, [3, 3]])
def test_a_client_without_samples_is_allowed(
    register: Callable[[Callable[..., Partition]], str], test_sizes: list[int] | None
) -> None:
    def unfair(data: Dataset, clients: int, rng: np.random.Generator) -> Partition:
        return Partition([np.array([]), np.arange(len(data.train))], np.array([0, 1]))

    data = divide(numbered([50, 50], test_sizes), register(unfair), {}, 2, 0)
    assert [len(part) for part in data.train_parts] == [0, 76 if test_sizes is None else 95]
    assert [len(part) for part in data.test_parts] == [0, 19 if test_sizes is None else 6]
    assert data.true_groups is not None
    assert data.true_groups.tolist() == [0, 1]


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ([[0, 1]], "made 1 parts for 2 clients"),
        ([[0, 1], [2, 95]], "gave client 1 something other than positions from 0 to 94"),
        ([[-1], [2]], "gave client 0 something other"),
        ([[0.5], [2]], "gave client 0 something other"),
        ([[True, False], [2]], "gave client 0 something other"),
    ],
)
def test_a_wrong_partition_is_found_out(
    register: Callable[[Callable[..., Partition]], str], parts: list[list[float]], message: str
) -> None:
    def wrong(data: Dataset, clients: int, rng: np.random.Generator) -> Partition:
        return Partition([np.array(part) for part in parts])

    with pytest.raises(CoterieError, match=message):
        divide(numbered([50, 50]), register(wrong), {}, 2, 0)


def images(channels: int = 3) -> Dataset:
    rng = np.random.default_rng(0)
    shades = [40 * channel + rng.normal(60, 10 + 5 * channel, (2000, 6, 6)) for channel in range(channels)]
    x = np.stack(shades, axis=1).clip(0, 255).astype(np.uint8)
    return Dataset("images", Samples(x, np.arange(2000) % 4), None, 4)


def moments(data: FederatedData) -> tuple[np.ndarray, np.ndarray]:
    x = data.normalise(data.server.x)
    axes = (0, *range(2, x.ndim))
    return x.mean(axes), x.std(axes)


def test_normalisation_is_measured_per_channel_on_the_server_set() -> None:
    data = divide(images(), "iid", {}, 10, 0)
    assert data.normalise.scale == 255
    mean, std = moments(data)
    assert mean == pytest.approx(np.zeros(3), abs=1e-5)
    assert std == pytest.approx(np.ones(3), abs=1e-5)
    clients = data.normalise(data.train.x)
    assert clients.mean((0, 2, 3)) == pytest.approx(np.zeros(3), abs=0.1)
    assert clients.std((0, 2, 3)) == pytest.approx(np.ones(3), abs=0.1)


def test_normalisation_of_vectors_is_per_feature_and_leaves_constants_finite() -> None:
    x = np.random.default_rng(0).normal([3, -1000, 0], [0.1, 50, 1e-9], (400, 3)).astype(np.float32)
    constant = np.repeat(np.array([[0.0, 7.7]], np.float32), 400, axis=0)
    pool = Dataset("vectors", Samples(np.hstack([x, constant]), np.arange(400) % 2), None, 2)
    data = divide(pool, "iid", {}, 4, 0)
    mean, std = moments(data)
    assert mean == pytest.approx(np.zeros(5), abs=1e-3)
    assert std == pytest.approx([1, 1, 1, 0, 0], abs=1e-3)


def test_pixels_in_vectors_share_one_normalisation() -> None:
    x = np.zeros((400, 9), np.uint8)
    x[:, :4] = np.random.default_rng(0).integers(0, 256, (400, 4))
    x[0, 8] = 255  # a pixel that is black elsewhere must not be blown up
    data = divide(Dataset("flat", Samples(x, np.arange(400) % 2), None, 2), "iid", {}, 4, 0)
    assert len(data.normalise.mean) == 1
    assert np.abs(data.normalise(x)).max() < 4


def test_a_normalisation_that_comes_with_the_data_is_kept() -> None:
    known = Normalisation(255.0, (0.5,), (0.25,))
    data = divide(replace(images(1), normalisation=known), "iid", {}, 4, 0)
    assert data.normalise is known
    assert data.normalise(np.full((1, 1, 1, 1), 255, np.uint8)).item() == pytest.approx(2.0)


@pytest.mark.parametrize(("samples", "clients"), [(60_000, 100), (3_200, 100), (3_000, 95), (300, 9), (50, 2), (4, 2)])
def test_the_number_of_clients_follows_the_data_where_nobody_names_one(samples: int, clients: int) -> None:
    """Each has 30 training samples or more on average, besides the server's; but there are two clients."""
    data = divide(numbered([samples - samples // 2, samples // 2]), "iid", {}, None, 0)
    assert data.clients == clients
    assert divide(numbered([30, 30]), "iid", {}, 20, 0).clients == 20  # who names one gets it


def test_divided_by_user_there_are_as_many_clients_as_users() -> None:
    pool = replace(numbered([300, 300]), users=np.repeat(np.arange(8), 75))
    assert divide(pool, "by-user", {}, None, 0).clients == 8
    assert divide(pool, "by-user", {}, None, 0, usual_clients=5).clients == 5
