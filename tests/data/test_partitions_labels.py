"""Partitions by label sets: planted groups, uneven shares, shards."""

import math
import re

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from partition_world import Labels, division, is_exact, mixed, pools, table

from coterie.errors import CoterieError

# ---- planted


@pytest.mark.integration
@given(clients=st.integers(2, 80), classes=st.integers(4, 30), rho=st.floats(0.01, 0.99), seed=st.integers(0, 2**32))
def test_planted_gives_all_equally_many_labels_and_every_label_an_owner(
    clients: int, classes: int, rho: float, seed: int
) -> None:
    each = round(rho * classes)
    assume(2 <= each < 2 * classes / 3)
    assume(each * clients >= classes)
    y = np.arange(classes * clients) % classes
    made = division("planted", y, clients, seed, rho=rho)
    owned = table(y, made) > 0
    assert is_exact(y, made)
    assert (owned.sum(axis=1) == each).all()
    assert owned.any(axis=0).all()
    base = owned[0]
    assert made.true_groups is not None
    assert np.array_equal(made.true_groups, (2 * owned[:, base].sum(axis=1) < each).astype(int))
    for label in range(classes):
        counts = table(y, made)[:, label]
        assert np.ptp(counts[counts > 0]) <= 1


def test_planted_groups_are_far_apart_in_how_much_of_the_base_set_they_have() -> None:
    y = np.arange(100_000) % 100
    made = division("planted", y, 1000, rho=0.2)
    owned = table(y, made) > 0
    common = owned[:, owned[0]].sum(axis=1)
    group = made.true_groups
    assert group is not None
    assert group[0] == 0
    # One in three, with a standard deviation of 0.015.
    assert group.mean() == pytest.approx(1 / 3, abs=0.06)
    assert (common[group == 0].min(), common[group == 1].max()) == (10, 5)
    # x is uniform from 50 to 99, s = ceil(x / 5) from 10 to 20; those of 20 in one half are reduced to 19.
    exact = np.mean([math.ceil(x / 5) for x in range(50, 100)]) - 0.5 * np.mean([x > 95 for x in range(50, 100)])
    assert common[group == 0].mean() == pytest.approx(exact, abs=0.5)
    assert common[group == 1].mean() == pytest.approx(np.mean([math.ceil(x / 5) for x in range(26)]), abs=0.4)
    assert (common == 20).mean() == pytest.approx(1 / 3 * 4 / 50, abs=0.03)


def test_planted_with_two_labels_tells_groups_apart_by_labels() -> None:
    y = np.arange(10_000) % 10
    made = division("planted", y, 600, rho=0.2)
    owned = table(y, made) > 0
    common = owned[:, owned[0]].sum(axis=1)
    assert made.true_groups is not None
    assert np.array_equal(made.true_groups == 1, common == 0)
    # Only y = 0 of 0, 1, 2 gives s = 0: one client in nine.
    assert made.true_groups.mean() == pytest.approx(1 / 9, abs=0.05)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize(("clients", "classes", "rho"), [(5, 10, 0.2), (10, 100, 0.1), (34, 100, 0.03), (2, 4, 0.5)])
def test_planted_covers_all_labels_where_drawing_alone_would_not(
    clients: int, classes: int, rho: float, seed: int
) -> None:
    y = np.arange(classes * clients) % classes
    owned = table(y, division("planted", y, clients, seed, rho=rho)) > 0
    assert owned.any(axis=0).all()
    assert (owned.sum(axis=1) == round(rho * classes)).all()


@pytest.mark.parametrize(
    ("classes", "rho", "advised"), [(10, 0.1, 0.2), (10, 0.7, 0.6), (7, 0.05, 0.2857), (100, 0.99, 0.66)]
)
def test_planted_refuses_too_few_or_too_many_labels_and_its_advice_works(
    classes: int, rho: float, advised: float
) -> None:
    y = np.arange(classes * 50) % classes
    with pytest.raises(CoterieError, match=rf"of {classes} labels, but two groups need 2 to \d+: use rho = {advised}$"):
        division("planted", y, 50, rho=rho)
    division("planted", y, 50, rho=advised)


def test_planted_refuses_too_few_clients_and_its_advice_works() -> None:
    y = np.arange(700) % 7
    with pytest.raises(CoterieError, match=r"each of 3 clients has 2 of 7 labels, .* use at least 4 clients"):
        division("planted", y, 3, rho=0.3)
    assert (table(y, division("planted", y, 4, rho=0.3)) > 0).any(axis=0).all()
    with pytest.raises(CoterieError, match="two groups need 4 labels"):
        division("planted", np.arange(30) % 3, 5, rho=0.5)


# ---- label-skew-quantity


@pytest.mark.integration
@given(
    pools(most=200),
    st.floats(0.05, 1),
    st.floats(0.05, 10),
    st.one_of(st.none(), st.integers(1, 12)),
    st.integers(0, 12),
)
def test_groups_have_their_own_label_sets_and_members_the_minimum(
    pool: tuple[Labels, int, int], rho: float, alpha: float, groups: int | None, minimum: int
) -> None:
    y, clients, seed = pool
    options = {"rho": rho, "alpha": alpha, "groups": groups, "min_samples": minimum}
    classes = int(y.max()) + 1
    each = max(1, round(rho * classes))
    try:
        made = division("label-skew-quantity", y, clients, seed, **options)
    except CoterieError as error:
        advised = re.search(r"use (groups|min_samples) = (\d+)", str(error))
        assert advised is not None
        better = options | {advised[1]: int(advised[2])}
        if advised[1] == "groups":
            better["min_samples"] = 0
        division("label-skew-quantity", y, clients, seed, **better)
        if advised[1] == "min_samples":
            with pytest.raises(CoterieError):
                division("label-skew-quantity", y, clients, seed, **(options | {"min_samples": int(advised[2]) + 1}))
        return
    used = min(math.ceil(classes / each), clients) if groups is None else groups
    assert made.true_groups is not None
    assert made.true_groups.tolist() == [client % used for client in range(clients)]
    counts = table(y, made)
    assert counts.sum(axis=1).min() >= minimum
    owned = counts > 0
    sets = [owned[made.true_groups == group].any(axis=0) for group in range(used)]
    assert max(own.sum() for own in sets) <= each
    covered = owned.any(axis=0)
    if used * each >= classes:
        assert covered.all()
        assert is_exact(y, made)
    else:
        assert covered.sum() == used * each
        assert np.array_equal(counts.sum(axis=0), np.where(covered, np.bincount(y), 0))


@pytest.mark.parametrize(("rho", "groups"), [(0.2, 5), (0.3, 4), (0.5, 2), (1.0, 1)])
def test_the_usual_number_of_groups_is_the_fewest_that_have_all_labels(rho: float, groups: int) -> None:
    y = mixed([500] * 10)
    made = division("label-skew-quantity", y, 40, rho=rho)
    assert made.true_groups is not None
    assert made.true_groups.max() + 1 == groups
    assert is_exact(y, made)


@pytest.mark.parametrize(("groups", "rho"), [(10, 0.1), (45, 0.2), (20, 0.5)])
def test_no_two_groups_have_the_same_labels(groups: int, rho: float) -> None:
    y = mixed([500] * 10)
    made = division("label-skew-quantity", y, 90, 1, rho=rho, groups=groups, alpha=100.0)
    assert made.true_groups is not None
    owned = table(y, made) > 0
    sets = {tuple(owned[made.true_groups == group].any(axis=0)) for group in range(groups)}
    assert len(sets) == groups


def test_labels_without_an_owner_are_dropped_and_named() -> None:
    y = mixed([100] * 5)
    made = division("label-skew-quantity", y, 10, rho=0.4, groups=2)
    missing = np.flatnonzero(table(y, made).sum(axis=0) == 0)
    assert len(missing) == 1
    (note,) = made.notes
    assert note.endswith(f"nobody has the labels {missing[0]}, so 100 of 500 samples are not used")


@pytest.mark.integration
@pytest.mark.parametrize("alpha", [0.25, 1.0, 5.0])
def test_owners_share_a_label_by_a_dirichlet_distribution(alpha: float) -> None:
    y = mixed([20_000] * 4)
    shares = []
    for seed in range(60):
        made = division("label-skew-quantity", y, 20, seed, rho=0.5, alpha=alpha, min_samples=0)
        counts = table(y, made)
        # Two groups of ten clients with two labels each: a label is shared by one of the groups.
        assert made.true_groups is not None
        for group in (0, 1):
            own = counts[made.true_groups == group]
            shares.append(own[:, own.any(axis=0)] / 20_000)
    assert np.shape(shares) == (120, 10, 2)
    assert np.var(shares) == pytest.approx(0.1 * 0.9 / (10 * alpha + 1), rel=0.15)


def test_what_label_skew_quantity_refuses() -> None:
    y = mixed([100] * 10)
    with pytest.raises(CoterieError, match=r"cannot make 7 groups, as there are 6 clients: use groups = 6"):
        division("label-skew-quantity", y, 6, groups=7)
    with pytest.raises(CoterieError, match=r"1 of 10 labels each there are 10 different ones: use groups = 10"):
        division("label-skew-quantity", y, 60, groups=11, rho=0.1)
    with pytest.raises(CoterieError, match=r"too few samples for 110 clients in 5 groups.*use min_samples = 9"):
        division("label-skew-quantity", y, 110)
    assert min(map(len, division("label-skew-quantity", y, 110, min_samples=9).parts)) == 9


# ---- shards


@given(pools(), st.integers(1, 5), st.one_of(st.none(), st.integers(1, 40)))
def test_shards_are_slices_of_the_samples_sorted_by_label(
    pool: tuple[Labels, int, int], per_client: int, size: int | None
) -> None:
    y, clients, seed = pool
    options = {"per_client": per_client, "size": size}
    try:
        made = division("shards", y, clients, seed, **options)
    except CoterieError as error:
        for number in re.findall(r"at most (\d+) clients", str(error)):
            division("shards", y, int(number), seed, **options)
            with pytest.raises(CoterieError):
                division("shards", y, int(number) + 1, seed, **options)
        if "and no size" in str(error):
            division("shards", y, clients, seed, per_client=1)
            return
        for option, number in re.findall(r"(per_client|size) = (\d+)", str(error)):
            division("shards", y, clients, seed, **(options | {option: int(number)}))
        return
    sizes = [len(part) for part in made.parts]
    held = np.concatenate(list(made.parts))
    assert len(set(held.tolist())) == len(held)
    if size is None:
        assert is_exact(y, made)
        assert max(sizes) - min(sizes) <= per_client
    else:
        assert set(sizes) == {per_client * size}


@pytest.mark.parametrize("per_client", [1, 2, 3])
def test_a_shard_of_a_fraction_of_a_class_has_one_label(per_client: int) -> None:
    y = mixed([600] * 10)
    counts = table(y, division("shards", y, 60 // per_client, per_client=per_client))
    assert (counts.sum(axis=1) == 100 * per_client).all()
    assert ((counts > 0).sum(axis=1) <= per_client).all()
    assert (counts % 100 == 0).all()


def test_shards_are_drawn_at_random_and_mixed_inside_a_label() -> None:
    y = np.repeat(np.arange(10), 1000)
    made = division("shards", y, 50, size=100)
    assert sum(map(len, made.parts)) == 10_000
    firsts = [int(y[part[0]]) for part in made.parts]
    assert firsts != sorted(firsts)
    # A hundred samples out of a thousand of a label lie all over it: their mean has a deviation of 28.
    for part in made.parts:
        for label in np.unique(y[part]):
            own = part[y[part] == label] - 1000 * label
            assert own.mean() == pytest.approx(499.5, abs=150)


def test_shards_refuse_the_impossible_with_numbers_that_work() -> None:
    y = mixed([4750] * 10)  # CIFAR-10 without the server's set
    with pytest.raises(
        CoterieError,
        match=r"100 clients with 2 shards each need 200 shards of 250 samples, but 47500 samples make 190: "
        r"use at most 95 clients, or per_client = 1, or size = 237",
    ):
        division("shards", y, 100, size=250)
    assert {len(part) for part in division("shards", y, 95, size=250).parts} == {500}
    assert {len(part) for part in division("shards", y, 100, size=237).parts} == {474}
