"""Dirichlet partitions: exact, mended where needed, with the proportions that theory gives."""

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from partition_world import Labels, Table, division, is_exact, mixed, pools, table

from coterie.errors import CoterieError
from coterie.streams import stream


@pytest.mark.integration
@given(pools(), st.floats(0.01, 100), st.integers(0, 10))
def test_dirichlet_is_an_exact_partition_with_the_minimum_for_all(
    pool: tuple[Labels, int, int], alpha: float, minimum: int
) -> None:
    y, clients, seed = pool
    clients = min(clients, len(y) // max(minimum, 1)) or 1
    minimum = min(minimum, len(y) // clients)
    made = division("dirichlet", y, clients, seed, alpha=alpha, min_samples=minimum)
    assert is_exact(y, made)
    assert min(map(len, made.parts)) >= minimum


@pytest.mark.parametrize(("clients", "alpha"), [(1000, 0.1), (100, 0.05), (1000, 0.01), (500, 1e-9)])
@pytest.mark.parametrize("seed", range(3))
def test_dirichlet_ends_where_drawing_alone_would_not(clients: int, alpha: float, seed: int) -> None:
    y = np.arange(60_000) % 10
    made = division("dirichlet", y, clients, seed, alpha=alpha)
    assert is_exact(y, made)
    assert min(map(len, made.parts)) == 10
    (note,) = made.notes
    moved = re.search(r"no draw gave each client at least 10 samples, so ([\d,]+) of 60,000 samples were moved", note)
    assert moved is not None
    assert 0 < int(moved[1].replace(",", "")) < 10 * clients


def test_dirichlet_says_nothing_if_nothing_was_moved() -> None:
    assert division("dirichlet", mixed([1000] * 10), 10, alpha=5.0).notes == []


def nested_loops(sizes: list[int], clients: int, alpha: float, seed: int) -> Table:
    """NIID-Bench's way, one class after the other."""
    counts = np.zeros((clients, len(sizes)), np.int64)
    draws = stream(seed, "partition").dirichlet(np.full(clients, alpha), len(sizes))
    for label, size in enumerate(sizes):
        p = [draws[label, j] if counts[j].sum() < sum(sizes) / clients else 0.0 for j in range(clients)]
        ends = (np.cumsum(np.array(p) / sum(p)) * size).astype(int)[:-1]
        counts[:, label] = [len(piece) for piece in np.split(np.arange(size), ends)]
    return counts


@pytest.mark.parametrize("seed", range(20))
def test_a_draw_is_that_of_niid_bench(seed: int) -> None:
    sizes = [400, 300, 500, 250, 350]
    made = division("dirichlet", mixed(sizes), 15, seed, alpha=0.3, min_samples=0)
    difference = np.abs(table(mixed(sizes), made) - nested_loops(sizes, 15, 0.3, seed))
    assert difference.max() <= 1  # rounding at the end of a class


@pytest.mark.integration
@pytest.mark.parametrize("alpha", [0.1, 1.0, 10.0])
def test_shares_of_a_label_have_the_variance_of_a_dirichlet_distribution(alpha: float) -> None:
    y = np.zeros(20_000, np.int64)
    shares = np.stack(
        [table(y, division("dirichlet", y, 20, seed, alpha=alpha, min_samples=0))[:, 0] for seed in range(200)]
    ) / len(y)
    assert shares.mean(axis=0) == pytest.approx(np.full(20, 1 / 20), abs=4 * shares.std() / np.sqrt(200))
    assert shares.var() == pytest.approx(1 / 20 * 19 / 20 / (20 * alpha + 1), rel=0.15)


def test_nobody_gets_more_of_a_label_who_has_a_fair_share_already() -> None:
    y = mixed([600] * 10)
    for seed in range(5):
        counts = table(y, division("dirichlet", y, 12, seed, alpha=0.5, min_samples=0))
        held_before = np.cumsum(counts, axis=1) - counts
        assert not counts[held_before >= 500].any()


def test_mending_leaves_label_proportions_as_they_were_drawn() -> None:
    """Clients that had samples keep their labels: those who got more share few labels, as with a small alpha."""
    y = np.arange(60_000) % 10
    drawn = table(y, division("dirichlet", y, 1000, alpha=0.1, min_samples=0))
    counts = table(y, division("dirichlet", y, 1000, alpha=0.1))
    labels_drawn, labels_mended = ((t > 0).sum(axis=1).mean() for t in (drawn, counts))
    assert labels_mended == pytest.approx(labels_drawn, rel=0.05)


def test_dirichlet_refuses_the_impossible_and_its_advice_works() -> None:
    y = mixed([100, 95])
    with pytest.raises(
        CoterieError, match=r"10 samples for each of 20 clients are 200, but there are 195: use at most 19 "
    ):
        division("dirichlet", y, 20)
    with pytest.raises(CoterieError, match=r"or min_samples = 9$"):
        division("dirichlet", y, 20)
    assert min(map(len, division("dirichlet", y, 19).parts)) == 10
    assert min(map(len, division("dirichlet", y, 20, min_samples=9).parts)) == 9


@pytest.mark.integration
@given(pools(), st.floats(1e-6, 100), st.sampled_from([None, 1.0, 30.0]))
def test_dirichlet_categories_is_an_exact_partition_into_equal_parts(
    pool: tuple[Labels, int, int], alpha: float, scale: float | None
) -> None:
    y, clients, seed = pool
    made = division("dirichlet-categories", y, clients, seed, alpha=alpha, scale=scale)
    assert is_exact(y, made)
    assert np.ptp([len(part) for part in made.parts]) <= 1


@pytest.mark.integration
@pytest.mark.parametrize(("alpha", "scale", "total"), [(0.25, None, 1.0), (0.25, 1.0, 0.25), (2.0, 3.0, 6.0)])
def test_the_first_client_has_proportions_around_the_label_frequencies(
    alpha: float, scale: float | None, total: float
) -> None:
    sizes = [400, 800, 1200, 1600]
    y, prior = mixed(sizes), np.array(sizes) / 4000
    drawn = []
    for seed in range(300):
        part = division("dirichlet-categories", y, 20, seed, alpha=alpha, scale=scale).parts[0]
        drawn.append(np.bincount(y[part], minlength=4) / 200)
    variance = prior * (1 - prior) / (total + 1)
    assert np.mean(drawn, axis=0) == pytest.approx(prior, abs=4 * np.sqrt(variance.max() / 300))
    # 200 samples drawn by these proportions add their own variance to that of the Dirichlet distribution.
    expected = variance + (prior * (1 - prior) - variance) / 200
    assert np.var(drawn, axis=0) == pytest.approx(expected, rel=0.25)


def one_by_one(sizes: list[int], clients: int, alpha: float, rng: np.random.Generator) -> Table:
    """The definition: sample after sample, from the labels that are left."""
    stock, counts = np.array(sizes), np.zeros((clients, len(sizes)), np.int64)
    prior = stock / stock.sum()
    for client in range(clients):
        proportions = rng.dirichlet(alpha * len(sizes) * prior)
        for _ in range(sum(sizes) // clients):
            p = np.where(stock > 0, proportions, 0)
            label = rng.choice(len(sizes), p=p / p.sum())
            stock[label] -= 1
            counts[client, label] += 1
    return counts


@pytest.mark.integration
def test_drawing_many_at_once_is_as_drawing_one_by_one() -> None:
    sizes, runs = [8, 12, 20], 400
    slow = np.stack([one_by_one(sizes, 4, 0.5, np.random.default_rng(seed)) for seed in range(runs)])
    y = mixed(sizes)
    fast = np.stack([table(y, division("dirichlet-categories", y, 4, seed, alpha=0.5)) for seed in range(runs)])
    for moment in (lambda t: t.mean(axis=0), lambda t: (t**2).mean(axis=0)):
        spread = np.sqrt((moment(slow**2) + moment(fast**2)).clip(1) / runs)
        assert (np.abs(moment(slow) - moment(fast)) < 4 * spread).all()
    assert np.abs(slow.mean(axis=0) - fast.mean(axis=0)).max() < 1


def test_a_client_whose_labels_are_used_up_takes_what_is_left() -> None:
    y = mixed([5, 500])
    counts = table(y, division("dirichlet-categories", y, 101, 1, alpha=1e-6))
    assert (counts.sum(axis=1) == 5).all()
    assert (counts > 0).all(axis=1).sum() <= 1
