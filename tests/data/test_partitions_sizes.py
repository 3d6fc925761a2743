"""Partitions whose clients differ in size: power laws, and real users."""

import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from partition_world import MNIST_TEST, MNIST_TRAIN, Labels, division, mixed, pooled, pools, table

from coterie.data import Samples, divide, load
from coterie.errors import CoterieError

# ---- power-law


@pytest.mark.integration
@given(pools(most=300), st.integers(1, 12), st.floats(0, 4), st.integers(1, 8))
def test_power_law_gives_client_u_the_labels_from_u_on_and_a_minimum_of_each(
    pool: tuple[Labels, int, int], classes: int, sigma: float, minimum: int
) -> None:
    y, clients, seed = pool
    options = {"classes": classes, "sigma": sigma, "min_samples": minimum}
    labels = int(y.max()) + 1
    try:
        made = division("power-law", y, clients, seed, **options)
    except CoterieError as error:
        for number in re.findall(r"at most (\d+) clients", str(error)):
            division("power-law", y, int(number), seed, **options)
            with pytest.raises(CoterieError):
                division("power-law", y, int(number) + 1, seed, **options)
        for number in re.findall(r"min_samples = (\d+)", str(error)):
            division("power-law", y, clients, seed, **(options | {"min_samples": int(number)}))
        for number in re.findall(r"labels: use at most (\d+)$", str(error)):
            division("power-law", y, 1, seed, classes=int(number), min_samples=1)
        return
    counts = table(y, made)
    for client in range(clients):
        own = [(client + j) % labels for j in range(classes)]
        assert np.flatnonzero(counts[client]).tolist() == sorted(own)
        assert counts[client, own].min() >= minimum
    owners = (counts > 0).sum(axis=0)
    unused = np.bincount(y) - counts.sum(axis=0)
    assert (unused[owners > 0] <= owners[owners > 0]).all()
    assert bool(made.notes) == (owners == 0).any()


@pytest.mark.integration
def test_the_sizes_of_mnist_1000_are_those_of_fedgroup() -> None:
    """69,035 samples of 1000 clients, of all 70,000 images; what rounding loses varies by some dozens."""
    y = mixed([a + b for a, b in zip(MNIST_TRAIN, MNIST_TEST, strict=True)])
    totals = [sum(map(len, division("power-law", y, 1000, seed).parts)) for seed in range(30)]
    # A direct copy of the definition, 300 seeds: mean 69,057, deviation 15.3. FedGroup's is one such draw.
    assert np.mean(totals) == pytest.approx(69_057, abs=4 * 15.3 / np.sqrt(30))
    assert np.std(totals) == pytest.approx(15.3, rel=0.4)
    assert abs(69_035 - np.mean(totals)) < 3 * 15.3


def test_shares_are_log_normal() -> None:
    y = mixed([10**5, 10**5])
    counts = table(y, division("power-law", y, 400, classes=1)) - 5
    # The median share is 10^5 / (200 e^2), 68 samples, so only one in fifty is rounded down to nothing.
    assert np.log(counts[counts > 0]).std() == pytest.approx(2.0, abs=0.3)
    even = table(y, division("power-law", y, 400, classes=1, sigma=0))
    assert np.ptp(even[even > 0]) <= 1


@pytest.mark.parametrize("classes", [1, 3, 5, 10])
def test_the_settings_of_fedgroups_table_one_are_possible_on_mnist(classes: int) -> None:
    test = Samples(np.zeros((10, 1), np.float32), np.arange(10))
    data = divide(pooled(mixed(MNIST_TRAIN), test=test), "power-law", {"classes": classes}, 1000, 0)
    assert not data.common_test
    sizes = np.array([len(part) for part in data.train_parts])
    tests = np.array([len(part) for part in data.test_parts])
    assert (sizes + tests).min() >= 5 * classes
    assert 55_000 < sizes.sum() + tests.sum() <= 57_500
    assert tests.tolist() == [max(1, round(0.1 * n)) for n in sizes + tests]
    for client in (0, 7, 999):
        own = data.train.y[data.train_parts[client]], data.test.y[data.test_parts[client]]
        assert set(np.concatenate(own)) == {(client + j) % 10 for j in range(classes)}


def test_power_law_refuses_the_impossible_with_numbers_that_work() -> None:
    y = mixed([1000] * 10)
    with pytest.raises(
        CoterieError,
        match=r"202 of 1003 clients have the label 1, with at least 5 samples of it each, but there are 1000: "
        r"use at most 1000 clients, or min_samples = 4",
    ):
        division("power-law", y, 1003)
    division("power-law", y, 1000)
    division("power-law", y, 1003, min_samples=4)
    with pytest.raises(CoterieError, match=r"classes = 11, but there are 10 labels: use at most 10"):
        division("power-law", y, 10, classes=11)


# ---- femnist-200


@pytest.mark.integration
def test_the_sizes_of_femnist_200_are_those_of_fedgroup() -> None:
    """18,345 samples of 200 clients, from ten letters; totals vary by some 1,700 (the sum of 200 log-normal sizes)."""
    y = mixed([5000] * 26)
    totals = []
    for seed in range(20):
        made = division("femnist-200", y, 200, seed)
        counts = table(y, made)
        assert not counts[:, 10:].any()
        assert counts.sum(axis=0).max() <= 4000
        for client in range(200):
            own = [(client + j) % 10 for j in range(3)]
            assert np.flatnonzero(counts[client]).tolist() == sorted(own)
            assert np.ptp(counts[client, own]) == 0
            assert counts[client, own[0]] >= 2
        totals.append(counts.sum())
    assert np.mean(totals) == pytest.approx(18_800, abs=4 * 1700 / np.sqrt(20))
    assert np.std(totals) == pytest.approx(1700, rel=0.6)
    assert abs(18_345 - np.mean(totals)) < np.std(totals)


def test_femnist_200_cuts_down_what_there_is_not_and_refuses_less_than_two() -> None:
    y = mixed([100] * 10)
    counts = table(y, division("femnist-200", y, 100))
    assert counts.sum(axis=0).max() <= 100
    assert counts[counts > 0].min() >= 2
    with pytest.raises(
        CoterieError, match=r"51 of 166 .* least 2 samples of it each, .* are 100: use at most 162 clients"
    ):
        division("femnist-200", y, 166)
    division("femnist-200", y, 162)
    assert division("femnist-200", mixed([10] * 3), 2, classes=2, labels=3, per_label=4).notes == []


# ---- by-user


@pytest.mark.integration
@given(pools(), st.integers(1, 30), st.integers(1, 12))
def test_a_client_is_one_user_with_all_its_samples(pool: tuple[Labels, int, int], people: int, minimum: int) -> None:
    y, clients, seed = pool
    users = np.random.default_rng(seed).integers(100, 100 + people, len(y))
    known, sizes = np.unique(users, return_counts=True)
    options = {"min_samples": minimum, "users": users}
    try:
        made = division("by-user", y, clients, seed, **options)
    except CoterieError as error:
        assert clients > (sizes >= minimum).sum()
        advised = re.findall(r"(?:at most (\d+) clients)?(?: and )?(?:min_samples = (\d+))?", str(error))
        number = next((int(n) for n, _ in advised if n), clients)
        fewer = next((int(n) for _, n in advised if n), minimum)
        if "and min" not in str(error):
            if number != clients:
                division("by-user", y, number, seed, **options)
            if fewer != minimum:
                division("by-user", y, clients, seed, **(options | {"min_samples": fewer}))
        division("by-user", y, number, seed, **(options | {"min_samples": fewer}))
        return
    chosen = [users[part[0]] for part in made.parts]
    assert sorted(set(chosen)) == chosen
    for user, part in zip(chosen, made.parts, strict=True):
        assert np.array_equal(part, np.flatnonzero(users == user))
        assert len(part) >= minimum
    assert bool(made.notes) == (clients < len(known))


def test_users_are_drawn_at_random() -> None:
    users = np.repeat(np.arange(50), np.arange(11, 61))
    y = np.zeros(len(users), np.int64)
    drawn = np.zeros(50)
    for seed in range(200):
        drawn[[users[part[0]] for part in division("by-user", y, 10, seed, users=users).parts]] += 1
    # One in five, 40 of 200, with a standard deviation of 5.7, large and small users alike.
    assert np.abs(drawn - 40).max() < 25
    assert drawn[:25].sum() == pytest.approx(1000, abs=100)


def test_by_user_says_what_it_left_out() -> None:
    users = np.repeat(np.arange(6), [3, 20, 20, 4, 20, 20])
    made = division("by-user", np.zeros(len(users), np.int64), 3, users=users)
    assert made.notes == [
        "partition 'by-user': 3 of 6 users were drawn; 2 with fewer than 10 samples were left out before"
    ]
    with pytest.raises(
        CoterieError,
        match=r"has 4 users with at least 10 samples, too few for 5 .* at most 4 clients, or min_samples = 4",
    ):
        division("by-user", np.zeros(len(users), np.int64), 5, users=users)


def test_by_user_needs_users() -> None:
    with pytest.raises(CoterieError, match=r"needs to know who made each sample, which data set 'digits' does not say"):
        load("digits", None, ("by-user", {}), 5)


def test_the_writers_of_mnist_become_clients(real: Path) -> None:
    if not (real / "mnist.npz").is_file():
        pytest.skip(f"no mnist.npz in {real}")
    data = load("mnist", None, ("by-user", {}), 539, 0)
    assert (data.clients, data.common_test, data.notes) == (539, False, ())
    sizes = np.array([len(part) for part in data.train_parts])
    tests = np.array([len(part) for part in data.test_parts])
    assert sizes.sum() + tests.sum() + len(data.server) == 60_000
    assert tests.tolist() == [round(0.2 * n) for n in sizes + tests]
    assert (sizes + tests).max() <= 131
    with pytest.raises(CoterieError, match="use at most 539 clients"):
        load("mnist", None, ("by-user", {}), 540, 0)
