"""Super clusters of classes, and the partitions by them: SC-NIID, SC-Dir, C-NIID, C-Dir (ALGORITHMS 8.8)."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from partition_world import division, is_exact, mixed, table
from scipy.cluster.hierarchy import fcluster, linkage
from scipy.linalg import subspace_angles
from scipy.spatial.distance import squareform

from coterie.clustering import adjusted_rand_index
from coterie.data import PARTITIONS, Dataset, Partition, Samples
from coterie.data.partitions.by_super_cluster import allocated
from coterie.data.super_clusters import class_angles, super_clusters
from coterie.errors import CoterieError
from coterie.streams import stream


def planted(sets: list[list[int]], sizes: list[int], features: int = 8, seed: int = 0) -> Samples:
    """Samples whose classes lie near one direction per set: within some 5° there, and at about 90° from others."""
    rng = np.random.default_rng(seed)
    y = mixed(sizes, seed)
    x = 0.05 * rng.normal(size=(len(y), features))
    for direction, labels in enumerate(sets):
        x[np.isin(y, labels), direction] += 1 + rng.random(int(np.isin(y, labels).sum()))
    return Samples(x.astype(np.float32), y)


def made(name: str, samples: Samples, clients: int, seed: int = 0, **options: Any) -> Partition:
    data = Dataset("planted", samples, None, int(samples.y.max()) + 1)
    return PARTITIONS[name](data, clients, stream(seed, "partition"), **PARTITIONS.validate(name, options))


SETS = [[0, 3, 4], [1, 2, 5, 6, 7]]
SAMPLES = planted(SETS, [100, 80, 80, 90, 110, 80, 80, 80])


def test_angles_are_the_smallest_between_singular_vectors() -> None:
    labels, angles = class_angles(SAMPLES)
    assert labels.tolist() == list(range(8))
    spaces = [np.linalg.svd(SAMPLES.x[SAMPLES.y == c].astype(float).T, full_matrices=False)[0][:, :3] for c in range(8)]
    expected = [[np.degrees(np.arccos(min(np.abs(u.T @ v).max(), 1))) for v in spaces] for u in spaces]
    np.testing.assert_allclose(angles, expected, atol=1e-3)


def test_classes_may_be_compared_by_equations_5_1_and_5_2() -> None:
    """Θ₁(U_i, U_j), and tr(arccos(U_iᵀ U_j)), the angles of vectors of the same rank; a vector has no sign."""
    spaces = [np.linalg.svd(SAMPLES.x[SAMPLES.y == c].astype(float).T, full_matrices=False)[0][:, :3] for c in range(8)]
    theta1 = [[np.degrees(subspace_angles(u, v).min()) if u is not v else 0 for v in spaces] for u in spaces]
    trace = [[np.degrees(np.arccos(np.minimum(np.abs((u * v).sum(axis=0)), 1))).sum() for v in spaces] for u in spaces]
    np.testing.assert_allclose(class_angles(SAMPLES, measure="theta1")[1], theta1, atol=1e-3)
    np.testing.assert_allclose(class_angles(SAMPLES, measure="trace")[1], trace, atol=1e-3)


@pytest.mark.parametrize("name", ["sc-niid", "sc-dirichlet"])
def test_super_clusters_may_be_formed_by_equation_5_2(name: str) -> None:
    """Classes 0 and 1 share their first vector, 0 and 2 all but the first: 5.1 joins all, 5.2 tells them apart."""
    eye, rng = np.eye(8), np.random.default_rng(0)
    bases = [(0, 1, 2), (0, 1, 2), (3, 1, 2), (3, 1, 2)]
    y = np.repeat(np.arange(4), 80)
    spread = rng.normal(size=(320, 3)) * [9, 3, 1]
    x = np.stack([spread[i] @ eye[list(bases[label])] for i, label in enumerate(y)])
    samples = Samples(x, y)
    labels = {"sc-niid": {"labels": 2}, "sc-dirichlet": {}}[name]
    assert len(super_clusters(samples, measure="theta1", threshold=30).sets) == 1
    for options in ({"groups": 2}, {"threshold": 89.0}):
        groups = made(name, samples, 6, measure="trace", **options, **labels)
        assert any("{0, 1}, {2, 3}" in note for note in groups.notes)
        assert groups.true_groups is not None
        counts = table(y, groups)
        assert counts[groups.true_groups == 0][:, 2:].sum() == counts[groups.true_groups == 1][:, :2].sum() == 0
    for measure in ("theta1", "trace"):
        with pytest.raises(CoterieError, match=rf"are for measure = min_abs: with {measure} name a threshold"):
            made(name, samples, 6, measure=measure)


def test_sets_are_those_of_scipy() -> None:
    rng = np.random.default_rng(1)
    samples = Samples(
        rng.normal(size=(300, 5)) + 3 * rng.normal(size=(12, 5))[np.arange(300) % 12], np.arange(300) % 12
    )
    _, angles = class_angles(samples)
    merges = linkage(squareform(angles, checks=False), "weighted")
    for options, expected in (
        ({"threshold": 20.0}, fcluster(merges, 20, "distance")),
        ({}, fcluster(merges, 10, "distance")),
        ({"groups": 3}, fcluster(merges, 3, "maxclust")),
    ):
        found = super_clusters(samples, **options)
        assert adjusted_rand_index(found.grouping.labels, expected) == 1
        assert sorted(label for each in found.sets for label in each) == list(range(12))
        np.testing.assert_array_equal(found.angles, angles)


def test_planted_sets_are_found_and_told() -> None:
    found = super_clusters(SAMPLES)
    assert found.sets == SETS
    assert found.grouping.reason == "Classes merge up to 10 degrees."
    assert super_clusters(SAMPLES, threshold=90).sets == [list(range(8))]
    assert super_clusters(SAMPLES, groups=2).sets == SETS
    assert len(super_clusters(SAMPLES, groups=99).sets) == 8
    with pytest.raises(ValueError, match="either"):
        super_clusters(SAMPLES, groups=2, threshold=3)


def test_classes_with_one_sample_with_none_and_black_ones() -> None:
    x = np.array([[2, 0, 0], [0, 1, 0], [0, 3, 0], [0, 0, 0], [0, 0, 0], [5, 0, 0]], float)
    y = np.array([1, 2, 2, 5, 5, 7])  # 0, 3, 4 and 6 have none
    found = super_clusters(Samples(x, y))
    assert found.labels.tolist() == [1, 2, 5, 7]
    np.testing.assert_array_equal(found.angles, [[0, 90, 90, 0], [90, 0, 90, 90], [90, 90, 0, 90], [0, 90, 90, 0]])
    assert found.sets == [[1, 7], [2], [5]]
    one = super_clusters(Samples(x[:1], y[:1]))
    assert (one.sets, one.angles.tolist()) == ([[1]], [[0.0]])


@pytest.mark.parametrize("name", ["sc-niid", "sc-dirichlet"])
@pytest.mark.parametrize("allocation", ["proportional", "R"])
@pytest.mark.parametrize("clients", [5, 7, 30])
def test_clients_have_labels_of_their_super_cluster_only(name: str, allocation: str, clients: int) -> None:
    division = made(name, SAMPLES, clients, allocation=allocation)
    counts = table(SAMPLES.y, division)
    assert is_exact(SAMPLES.y, division)
    assert division.true_groups is not None
    assert set(division.true_groups) == {0, 1}
    for group, labels in enumerate(SETS):
        others = np.setdiff1d(np.arange(8), labels)
        assert counts[division.true_groups == group][:, others].sum() == 0
    assert any("{0, 3, 4}, {1, 2, 5, 6, 7}" in note for note in division.notes)


def test_sc_niid_gives_so_many_labels_evenly() -> None:
    for labels, each in ((None, 2), (1, 1), (2, 2), (4, 4)):
        division = made("sc-niid", SAMPLES, 25, labels=labels)
        owned = table(SAMPLES.y, division) > 0
        assert division.true_groups is not None
        expected = np.minimum(each, np.array([3, 5])[division.true_groups])
        np.testing.assert_array_equal(owned.sum(axis=1), expected)
        for label in range(8):
            shares = table(SAMPLES.y, division)[owned[:, label], label]
            assert shares.max() - shares.min() <= 1


@pytest.mark.parametrize("allocation", ["proportional", "R"])
@pytest.mark.parametrize(("shards", "size"), [(2, None), (3, None), (2, 10)])
def test_sc_niid_deals_shards_of_one_super_cluster(shards: int, size: int | None, allocation: str) -> None:
    """Chapter 5.2.2: shards of each super cluster's samples, so many for each client from one of them only."""
    division = made("sc-niid", SAMPLES, 20, shards=shards, size=size, allocation=allocation)
    assert division.true_groups is not None
    expected = {"proportional": [9, 11], "R": np.bincount(division.true_groups).tolist()}[allocation]
    assert np.bincount(division.true_groups).tolist() == expected
    counts = table(SAMPLES.y, division)
    assert is_exact(SAMPLES.y, division) == (size is None)
    for group, labels in enumerate(SETS):
        mine = counts[division.true_groups == group]
        assert mine[:, np.setdiff1d(np.arange(8), labels)].sum() == 0
        sizes = mine.sum(axis=1)
        if size is None:
            assert sizes.max() - sizes.min() <= shards
        else:
            assert set(sizes.tolist()) == {shards * size}
    assert (counts > 0).sum(axis=1).max() <= 2 * shards  # a shard spans two labels at most
    drawn = [tuple(part.tolist()) for seed in range(3) for part in made("sc-niid", SAMPLES, 20, seed, shards=2).parts]
    assert len(set(drawn)) == 60


def test_shards_of_one_super_cluster_are_those_of_the_partition_shards() -> None:
    one = made("sc-niid", SAMPLES, 20, shards=2, threshold=90)
    whole = made("shards", SAMPLES, 20, per_client=2)
    assert all(np.array_equal(a, b) for a, b in zip(one.parts, whole.parts, strict=True))


def test_a_fraction_is_of_the_labels_of_the_super_cluster() -> None:
    division = made("sc-niid", SAMPLES, 25, rho=0.5)
    owned = (table(SAMPLES.y, division) > 0).sum(axis=1)
    np.testing.assert_array_equal(owned, np.array([2, 3])[division.true_groups])
    assert (table(SAMPLES.y, made("c-niid", SAMPLES, 25, rho=0.25)) > 0).sum(axis=1).tolist() == [2] * 25


def test_many_labels_are_given_by_a_fifth_of_them() -> None:
    """CIFAR-100: max(2, ⌈0.2 · labels of the super cluster⌉)."""
    sets = [list(range(4)), list(range(4, 30))]
    samples = planted(sets, [40] * 30)
    owned = table(samples.y, made("sc-niid", samples, 40)) > 0
    assert set(owned[owned[:, :4].any(axis=1)].sum(axis=1)) == {2}
    assert set(owned[owned[:, 4:].any(axis=1)].sum(axis=1)) == {6}


@pytest.mark.integration
@given(st.integers(0, 2**32), st.integers(5, 60), st.integers(1, 10))
def test_c_niid_is_label_skew(seed: int, clients: int, labels: int) -> None:
    y = mixed([70] * 10)
    if clients * labels < 10:
        with pytest.raises(CoterieError, match="at least 10 clients"):
            division("c-niid", y, clients, seed, labels=labels)
        return
    one, other = (
        division("c-niid", y, clients, seed, labels=labels),
        division("label-skew", y, clients, seed, rho=labels / 10),
    )
    assert all(np.array_equal(a, b) for a, b in zip(one.parts, other.parts, strict=True))
    assert one.true_groups is None


@pytest.mark.integration
@given(st.integers(0, 2**32), st.integers(1, 30), st.sampled_from([0.05, 0.5, 5.0]))
def test_c_dirichlet_is_dirichlet(seed: int, clients: int, alpha: float) -> None:
    y = mixed([70] * 10)
    one = division("c-dirichlet", y, clients, seed, alpha=alpha)
    other = division("dirichlet", y, clients, seed, alpha=alpha, min_samples=15)
    assert all(np.array_equal(a, b) for a, b in zip(one.parts, other.parts, strict=True))
    assert min(map(len, one.parts)) >= 15


def test_sc_dirichlet_is_dirichlet_in_each_super_cluster() -> None:
    """Every client reaches the minimum; with a large alpha all have all labels of their super cluster evenly."""
    small = made("sc-dirichlet", SAMPLES, 30, alpha=0.05)
    assert min(map(len, small.parts)) >= 15
    counts = table(SAMPLES.y, small)
    assert ((counts / counts.sum(axis=1, keepdims=True)).max(axis=1) > 0.6).mean() > 0.5
    even = made("sc-dirichlet", SAMPLES, 7, alpha=1e5)
    assert even.true_groups is not None
    for group, labels in enumerate(SETS):
        shares = table(SAMPLES.y, even)[even.true_groups == group][:, labels]
        assert np.ptp(shares, axis=0).max() <= 3


@pytest.mark.parametrize(
    ("sizes", "clients", "expected"),
    [([40] * 10, 100, [40, 60]), ([40] * 10, 7, [3, 4]), ([100] * 4 + [10] * 6, 10, [9, 1]), ([40] * 10, 2, [1, 1])],
)
def test_clients_are_allocated_by_samples(sizes: list[int], clients: int, expected: list[int]) -> None:
    sets = [np.arange(4), np.arange(4, 10)]
    rng = np.random.default_rng(0)
    assert allocated(mixed(sizes), sets, [1, 1], clients, "proportional", rng) == expected


def test_allocation_of_the_public_code() -> None:
    """CIFAR-10: 46.7 % and 53.3 %, rounded up, and one of the two at random has one less."""
    y, sets = mixed([40] * 10), [np.arange(4), np.arange(4, 10)]
    drawn = {tuple(allocated(y, sets, [1, 1], 100, "R", np.random.default_rng(seed))) for seed in range(20)}
    assert drawn == {(46, 54), (47, 53)}
    assert allocated(y, sets, [1, 1], 15, "R", np.random.default_rng(0)) == [7, 8]


@given(st.lists(st.integers(1, 40), min_size=2, max_size=9), st.integers(0, 40), st.sampled_from(["proportional", "R"]))
def test_all_clients_are_allocated_and_labels_have_owners(sizes: list[int], more: int, allocation: str) -> None:
    y, half = mixed(sizes), len(sizes) // 2
    sets = [np.arange(half), np.arange(half, len(sizes))]
    fewest = [-(-len(own) // 2) for own in sets]
    numbers = allocated(y, sets, fewest, sum(fewest) + more, allocation, np.random.default_rng(0))
    assert sum(numbers) == sum(fewest) + more
    assert all(a >= b for a, b in zip(numbers, fewest, strict=True))


@pytest.mark.parametrize(
    ("name", "clients", "options", "message"),
    [
        ("sc-niid", 4, {"labels": 1}, r"4 clients are too few .* 1 label per client in 2 super clusters.*at least 8"),
        ("c-niid", 3, {"labels": 2}, r"3 clients are too few .* use at least 4 clients, or more labels"),
        ("sc-niid", 20, {"labels": 2, "rho": 0.5}, r"labels = 2 and rho = 0.5: use one of them"),
        ("sc-niid", 20, {"groups": 9}, r"groups = 9, but there are 8 labels: use at most 8"),
        ("sc-niid", 20, {"groups": 2, "threshold": 8}, r"threshold = 8 and groups = 2: use one of them"),
        ("sc-niid", 20, {"shards": 2, "labels": 2}, r"shards = 2 takes the place of labels and rho"),
        ("sc-niid", 20, {"size": 20}, r"size = 20 is that of shards"),
        ("sc-niid", 1, {"shards": 2}, r"1 clients are too few for 2 super clusters"),
        (
            "sc-niid",
            20,
            {"shards": 2, "size": 50},
            r"labels 0, 3, 4: 9 clients with 2 shards .* need 18 shards of 50",
        ),
        ("sc-dirichlet", 1, {}, r"1 clients are too few for 2 super clusters: use at least 2"),
        ("sc-dirichlet", 70, {}, r"15 samples for each of 30 clients are 450, but the labels 0, 3, 4 have 300.*= 10"),
        ("c-dirichlet", 70, {}, r"15 samples for each of 70 clients are 1050.*min_samples = 10"),
    ],
)
def test_what_cannot_be_says_what_can(name: str, clients: int, options: dict[str, Any], message: str) -> None:
    with pytest.raises(CoterieError, match=message):
        made(name, SAMPLES, clients, **options)


def test_one_super_cluster_is_noted() -> None:
    assert any("in one super cluster" in note for note in made("sc-niid", SAMPLES, 20, threshold=90).notes)
