"""Parts of chosen difficulty against Algorithm 2 of the dissertation, step by step; oracle 11 of ALGORITHMS 12."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coterie.data import Dataset, Partition, Samples, divide
from coterie.data.difficulty import by_difficulty, some_of, spread, with_noise
from coterie.data.dividing import on_validation
from coterie.errors import CoterieError
from coterie.run.building import load_data
from coterie.run.settings import settings_to_config

World = tuple[np.ndarray, np.ndarray, list[np.ndarray]]


def world(seed: int, samples: int, classes: int, clients: int) -> World:
    """Labels, losses and a partition of most of the samples, whatever that is."""
    rng = np.random.default_rng(seed)
    y, losses = rng.integers(classes, size=samples), rng.exponential(size=samples)
    used = rng.permutation(samples)[: samples - samples // 10]
    cuts = np.sort(rng.integers(0, len(used) + 1, clients - 1))
    return y, losses, np.split(used, cuts)


worlds = st.builds(world, st.integers(0, 2**32), st.integers(1, 120), st.integers(1, 5), st.integers(1, 8))
shares = st.integers(0, 100).map(lambda k: k / 100)


def counts(y: np.ndarray, parts: list[np.ndarray]) -> list[list[int]]:
    return [np.bincount(y[part], minlength=int(y.max()) + 1).tolist() for part in parts]


def banded(y: np.ndarray, losses: np.ndarray, parts: list[np.ndarray], percent: int) -> list[set[int]]:
    """What each part gets before chance comes in: sample by sample, in whole numbers."""
    held = [int(i) for part in parts for i in part]
    bands: list[set[int]] = []
    begin = dict.fromkeys(range(int(y.max()) + 1), 0)
    for part in parts:
        band: set[int] = set()
        for c in begin:
            Q = sorted((i for i in held if y[i] == c), key=lambda i: losses[i])
            N = sum(1 for i in part if y[i] == c)
            band |= set(Q[begin[c] : begin[c] + percent * N // 100])
            begin[c] += N
        bands.append(band)
    return bands


@pytest.mark.integration
@given(worlds, st.integers(0, 100))
def test_class_counts_stay_and_the_bands_are_those_of_the_algorithm(w: World, percent: int) -> None:
    y, losses, parts = w
    new = by_difficulty(y, losses, parts, percent / 100, np.random.default_rng(0))
    assert counts(y, new) == counts(y, parts)
    assert sorted(np.concatenate(new).tolist()) == sorted(np.concatenate(parts).tolist())
    for got, band in zip(new, banded(y, losses, parts, percent), strict=True):
        assert band <= set(got.tolist())


def test_of_three_samples_half_in_order_is_one() -> None:
    """⌊f·N⌋, not ⌈f·N⌉: the second of three is left to chance."""
    y, losses = np.zeros(6, int), np.arange(6.0)
    parts = [np.arange(3), np.arange(3, 6)]
    got = [by_difficulty(y, losses, parts, 0.5, np.random.default_rng(seed)) for seed in range(40)]
    assert all(0 in first and 3 in second for first, second in got)
    assert {1, 2, 4, 5} == {int(i) for first, _ in got for i in first} - {0}
    assert {(1, 2), (4, 5)} <= {tuple(int(i) for i in first if i) for first, _ in got}


@given(worlds)
def test_in_full_order_no_sample_is_easier_than_one_of_a_part_before(w: World) -> None:
    y, losses, parts = w
    new = by_difficulty(y, losses, parts, 1.0, np.random.default_rng(0))
    for c in range(int(y.max()) + 1):
        bands = [losses[part[y[part] == c]] for part in new]
        bands = [band for band in bands if len(band)]
        assert all(one.max() <= other.min() for one, other in pairwise(bands))
        means = [band.mean() for band in bands]
        assert means == sorted(means)


def test_without_order_all_is_chance_and_follows_the_stream() -> None:
    y, losses, _ = world(0, 400, 3, 5)
    parts = np.array_split(np.arange(400), 5)
    drawn = [by_difficulty(y, losses, parts, 0.0, np.random.default_rng(seed)) for seed in (0, 0, 1)]
    assert all(np.array_equal(a, b) for a, b in zip(drawn[0], drawn[1], strict=True))
    assert not all(np.array_equal(a, b) for a, b in zip(drawn[0], drawn[2], strict=True))
    means = [losses[part].mean() for part in drawn[0]]
    assert np.ptp(means) < 0.6


def test_a_whole_share_is_not_rounded_down() -> None:
    """0.29 · 100 is 28.999… in floats."""
    y, losses = np.zeros(200, int), np.arange(200.0)
    parts = [np.arange(0, 200, 2), np.arange(1, 200, 2)]
    new = by_difficulty(y, losses, parts, 0.29, np.random.default_rng(1))
    assert set(range(29)) <= set(new[0].tolist())
    assert set(range(100, 129)) <= set(new[1].tolist())


@given(worlds, shares)
@settings(max_examples=30)
def test_equal_losses_and_hopeless_ones_do_no_harm(w: World, f_ord: float) -> None:
    y, losses, parts = w
    for flat in (np.zeros(len(losses)), np.where(losses > 1, 1e30, 0.0)):
        assert counts(y, by_difficulty(y, flat, parts, f_ord, np.random.default_rng(0))) == counts(y, parts)


def test_no_samples_at_all() -> None:
    empty = np.zeros(0, np.int64)
    assert [len(part) for part in by_difficulty(empty, np.zeros(0), [empty, empty], 1.0, np.random.default_rng(0))] == [
        0,
        0,
    ]


def test_order_makes_clients_consistent() -> None:
    """As in the dissertation's Figure 2.8: the deviation within a part falls with f_ord."""
    y, losses, _ = world(3, 2000, 4, 1)
    parts = np.array_split(np.random.default_rng(0).permutation(2000), 20)
    spreads = [
        spread(losses, by_difficulty(y, losses, parts, f, np.random.default_rng(0))).mean()
        for f in (0.0, 0.5, 0.9, 1.0)
    ]
    assert spreads == sorted(spreads, reverse=True)
    assert spreads[0] == pytest.approx(1.0, abs=0.15)  # that of an exponential distribution
    assert spreads[-1] < 0.3


def test_spread_is_the_standard_deviation_of_each_part() -> None:
    losses = np.array([1.0, 3.0, 5.0, 9.0])
    found = spread(losses, [np.array([0, 1]), np.array([3]), np.array([0, 2, 3]), np.zeros(0, np.int64)])
    mean = (1 + 5 + 9) / 3
    assert found.tolist() == pytest.approx(
        [1, 0, math.sqrt(((1 - mean) ** 2 + (5 - mean) ** 2 + (9 - mean) ** 2) / 3), 0]
    )


def test_some_parts_are_given_and_the_rest_is_with_nobody() -> None:
    parts = [np.arange(10 * i, 10 * i + i + 1) for i in range(6)]
    whole = Partition(parts, true_groups=np.arange(6) % 2, notes=("before",))
    some = some_of(whole, 3, np.random.default_rng(0))
    kept = [next(i for i, part in enumerate(parts) if np.array_equal(part, got)) for got in some.parts]
    assert len(kept) == 3
    assert kept == sorted(set(kept))
    assert some.true_groups is not None
    assert some.true_groups.tolist() == [i % 2 for i in kept]
    unused = 21 - sum(i + 1 for i in kept)
    assert list(some.notes) == ["before", f"3 of 6 parts were given to the clients; {unused} samples are with nobody"]
    draws = {tuple(len(p) for p in some_of(whole, 3, np.random.default_rng(seed)).parts) for seed in range(20)}
    assert len(draws) > 5


@pytest.mark.parametrize("validation", [0.0, 0.25])
def test_noise_grows_with_the_clients_number_and_leaves_tests_clean(validation: float) -> None:
    """Client i of N has the deviation σ i/(N − 1), in the unit of the inputs (dissertation, 2.6.3)."""
    rng = np.random.default_rng(0)
    x, y = rng.normal(3, 2, (4000, 30)).astype(np.float32), np.arange(4000) % 4
    data = divide(Dataset("vectors", Samples(x, y), Samples(x[:40], y[:40]), 4), "iid", {}, 5, 0)
    data = on_validation(data, validation, 0) if validation else data
    noisy = with_noise(data, 0.5, 7)
    added = noisy.train.x.astype(float) - data.train.x
    for client, part in enumerate(data.train_parts):
        assert added[part].std() == pytest.approx(0.5 * client / 4 * data.train.x.std(), rel=0.02, abs=1e-6)
        assert added[part].mean() == pytest.approx(0, abs=0.03)
    assert np.array_equal(noisy.train.x[data.train_parts[0]], data.train.x[data.train_parts[0]])
    assert noisy.train.x.dtype == np.float32
    assert noisy.train.y is data.train.y
    assert noisy.test is data.test
    assert noisy.server is data.server
    assert "noise in the training samples" in noisy.notes[-1]
    again, other = with_noise(data, 0.5, 7), with_noise(data, 0.5, 8)
    assert np.array_equal(again.train.x, noisy.train.x)
    assert not np.array_equal(other.train.x, noisy.train.x)


def test_noisy_images_stay_shades_and_text_is_refused() -> None:
    rng = np.random.default_rng(0)
    images = Dataset(
        "images", Samples(rng.integers(0, 256, (600, 1, 8, 8)).astype(np.uint8), np.arange(600) % 4), None, 4
    )
    data = divide(images, "rotated", {"drift_at": 3, "groups": 2}, 3, 0)
    noisy = with_noise(data, 0.1, 0)
    assert noisy.train.x.dtype == np.uint8
    for parts in (data.train_parts, data.drift[0].train_parts):
        for client, part in enumerate(parts):
            before, now = data.train.x[part].astype(float), noisy.train.x[part].astype(float)
            inside = (before > 100) & (before < 155)  # two deviations from where shades are cut
            assert (now - before)[inside].std() == pytest.approx(25.5 * client / 2, rel=0.1, abs=1e-9)
    words = replace(data, train=Samples(np.zeros(data.train.x.shape, np.int64), data.train.y))
    with pytest.raises(CoterieError, match=r"noise = 0\.1: the inputs of data set 'images' are int64"):
        with_noise(words, 0.1, 0)


def test_noise_is_a_setting_of_the_partition() -> None:
    small = {"dataset": "digits", "clients": 4}
    plain, noisy = (load_data(settings_to_config(None, {**small, **more})) for more in ({}, {"noise": 0.2}))
    assert np.array_equal(noisy.train.x, with_noise(plain, 0.2, 0).train.x)
    assert np.array_equal(load_data(settings_to_config(None, {**small, "noise": 0.0})).train.x, plain.train.x)
    assert settings_to_config(None, {**small, "noise": 0.2}).partition.described["noise"] == 0.2
    with pytest.raises(CoterieError, match="f_ord and noise are two ways"):
        load_data(settings_to_config(None, {**small, "noise": 0.2, "f_ord": 1.0}))
    with pytest.raises(CoterieError, match=r"'digits-rotated' comes divided .*leave out noise"):
        settings_to_config(None, {"dataset": "digits-rotated", "noise": 0.2})


def pooled(samples: int, test: int = 20) -> Dataset:
    y = np.arange(samples) % 4
    x = np.arange(samples, dtype=np.float32)[:, None]
    return Dataset("numbered", Samples(x, y), Samples(-x[:test], y[:test]), 4)


@pytest.mark.parametrize("surplus", [1, 2, 5])
def test_a_surplus_of_parts_makes_clients_smaller(surplus: int) -> None:
    data = divide(pooled(1000), "iid", {}, 10, 0, surplus=surplus)
    assert data.clients == 10
    assert {len(part) for part in data.train_parts} <= {950 // (10 * surplus), -(-950 // (10 * surplus))}
    assert len(data.train) == sum(map(len, data.train_parts))
    assert any("with nobody" in note for note in data.notes) is (surplus > 1)
    held = data.train.x[:, 0].tolist() + data.server.x[:, 0].tolist()
    assert len(held) == len(set(held)) <= 1000


def test_a_surplus_of_one_changes_nothing_and_the_server_keeps_its_set() -> None:
    plain, one, more = (divide(pooled(800), "label-skew", {"rho": 0.5}, 8, 1, surplus=k) for k in (1, 1, 3))
    assert np.array_equal(plain.train.x, one.train.x)
    assert np.array_equal(plain.server.x, more.server.x)


def test_more_parts_than_samples_are_refused() -> None:
    with pytest.raises(CoterieError, match=r"50 clients cannot share data set 'numbered', cut into 3 parts for each"):
        divide(pooled(100), "iid", {}, 50, 0, surplus=3)


def test_samples_that_groups_see_in_their_own_ways_are_not_exchanged() -> None:
    images = Dataset("images", Samples(np.zeros((80, 1, 4, 4), np.uint8), np.arange(80) % 4), None, 4)
    with pytest.raises(CoterieError, match=r"partition 'rotated' shows samples .* leave out f_ord"):
        divide(images, "rotated", {}, 4, 0, exchangeable=True)
    assert divide(images, "rotated", {}, 4, 0).clients == 4
    assert divide(images, "iid", {}, 4, 0, exchangeable=True).clients == 4
