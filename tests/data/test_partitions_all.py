"""What holds for every partition, built in or registered later, and how `divide` honours what they say."""

import time
from typing import Any

import numpy as np
import pytest
from partition_world import Labels, division, mixed, pooled

from coterie.data import PARTITIONS, Partition, Samples, divide, partition
from coterie.errors import CoterieError

EXACT = {
    "c-dirichlet", "c-niid", "dirichlet", "dirichlet-categories", "iid", "label-skew", "label-skew-quantity",
    "permuted", "planted", "rotated", "sc-dirichlet", "sc-niid", "shards",
}  # fmt: skip
TRUE_GROUPS = {"label-skew-quantity", "permuted", "planted", "rotated", "sc-dirichlet", "sc-niid"}
OWN_TEST = {"by-user", "femnist-200", "power-law"}
BUILT_IN = sorted(EXACT | OWN_TEST)


def made_by(name: str, y: Labels, clients: int, seed: int = 0) -> Partition:
    """A division with the usual options, of images and users where these are needed."""
    users = np.random.default_rng(0).integers(0, 2 * clients, len(y))
    data = pooled(y, users)
    if name == "rotated":
        data = type(data)("images", Samples(np.zeros((len(y), 1, 2, 2), np.uint8), y), None, data.classes)
    values = PARTITIONS.validate(name, {})
    return PARTITIONS[name](data, clients, np.random.default_rng(seed), **values)


def test_all_that_are_promised_are_there() -> None:
    assert set(BUILT_IN) <= set(PARTITIONS)


@pytest.mark.parametrize("name", BUILT_IN)
@pytest.mark.parametrize(("classes", "clients"), [(10, 40), (10, 10), (26, 57)])
def test_clients_get_distinct_samples_and_true_groups(name: str, classes: int, clients: int) -> None:
    y = mixed([211] * classes)
    made = made_by(name, y, clients)
    held = np.concatenate(list(made.parts))
    assert len(made.parts) == clients
    assert len(np.unique(held)) == len(held)
    assert (len(held) == len(y)) == (name in EXACT)
    assert all((np.diff(part) > 0).all() for part in made.parts)
    assert min(map(len, made.parts)) >= 1
    assert (made.true_groups is not None) == (name in TRUE_GROUPS)
    assert made.true_groups is None or made.true_groups.shape == (clients,)
    assert (made.own_test is not None) == (name in OWN_TEST)


@pytest.mark.parametrize("name", BUILT_IN)
def test_the_seed_alone_decides(name: str) -> None:
    y = mixed([90] * 10)
    first, again, other = (made_by(name, y, 20, seed) for seed in (5, 5, 6))
    assert all(np.array_equal(a, b) for a, b in zip(first.parts, again.parts, strict=True))
    assert first.notes == again.notes
    assert not all(np.array_equal(a, b) for a, b in zip(first.parts, other.parts, strict=True))


@pytest.mark.integration
@pytest.mark.parametrize("name", BUILT_IN)
@pytest.mark.parametrize("classes", [10, 100])
def test_a_thousand_clients_take_under_two_seconds(name: str, classes: int) -> None:
    y = np.arange(60_000) % classes
    start = time.perf_counter()
    made_by(name, y, 1000)
    assert time.perf_counter() - start < 2


@pytest.mark.parametrize("name", BUILT_IN)
def test_labels_that_do_not_occur_do_not_matter(name: str) -> None:
    y = mixed([120] * 8)
    gaps = np.array([0, 2, 3, 7, 8, 11, 12, 15])
    plain, sparse = made_by(name, y, 12), made_by(name, gaps[y], 12)
    if name != "permuted":  # which renames all classes, also those without samples
        assert all(np.array_equal(a, b) for a, b in zip(plain.parts, sparse.parts, strict=True))


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("dirichlet", {"alpha": 0}, r"alpha = 0 is not valid.*greater than 0"),
        ("dirichlet", {"alpha": float("inf")}, r"alpha = inf is not valid"),
        ("dirichlet", {"alpha": float("nan")}, r"alpha = nan is not valid"),
        ("dirichlet", {"min_samples": -1}, r"min_samples = -1 is not valid"),
        ("dirichlet-categories", {"scale": 0}, r"scale = 0 is not valid"),
        ("label-skew-quantity", {"rho": 20}, r"rho = 20 is not valid"),
        ("label-skew-quantity", {"groups": 0}, r"groups = 0 is not valid"),
        ("planted", {"rho": 1}, r"rho = 1 is not valid"),
        ("sc-niid", {"labels": 0}, r"labels = 0 is not valid"),
        ("sc-niid", {"allocation": "P"}, r"allocation = 'P' is not valid"),
        ("sc-dirichlet", {"threshold": -1}, r"threshold = -1 is not valid"),
        ("shards", {"size": 0}, r"size = 0 is not valid"),
        ("power-law", {"classes": 0}, r"classes = 0 is not valid"),
        ("by-user", {"test_share": 1}, r"test_share = 1 is not valid"),
    ],
)
def test_bad_options_are_named(name: str, options: dict[str, Any], message: str) -> None:
    with pytest.raises(CoterieError, match=message):
        PARTITIONS.validate(name, options)


def test_iid_of_some_labels_gives_everyone_the_same_ones() -> None:
    y = mixed([100] * 10)
    made = division("iid", y, 7, labels=2)
    used = np.unique(y[np.concatenate(list(made.parts))])
    assert len(used) == 2
    assert sorted(np.concatenate(list(made.parts))) == np.flatnonzero(np.isin(y, used)).tolist()
    assert {len(part) for part in made.parts} == {28, 29}
    assert all(set(y[part]) == set(used) for part in made.parts)
    others = {
        tuple(np.unique(y[np.concatenate(list(division("iid", y, 7, seed, labels=2).parts))])) for seed in range(9)
    }
    assert len(others) > 1
    with pytest.raises(CoterieError, match="labels = 11, but there are 10: use at most 10"):
        division("iid", y, 7, labels=11)
    with pytest.raises(
        CoterieError, match=r"2 labels in use have 200 samples, too few for 201.*use at most 200 clients"
    ):
        division("iid", y, 201, labels=2)


@pytest.mark.parametrize("test_set", [False, True])
@pytest.mark.parametrize("share", [0.1, 0.5, 0.99])
def test_divide_holds_out_the_share_that_a_partition_asks_for(test_set: bool, share: float) -> None:
    def halves(data: Any, clients: int, rng: np.random.Generator) -> Partition:
        return Partition(np.split(np.arange(len(data.train)), [1, 3, 95]), own_test=share, notes=["a note"])

    partition("test-halves")(halves)
    try:
        y = mixed([100, 100])
        test = Samples(np.full((4, 1), -1.0, np.float32), np.array([0, 1, 0, 1])) if test_set else None
        data = divide(pooled(y, test=test), "test-halves", {}, 4, 0)
    finally:
        del PARTITIONS._items["test-halves"]
    assert not data.common_test
    assert data.notes == ("a note",)
    assert [len(part) for part in data.train_parts][:2] == [1, 1]
    assert [len(part) for part in data.test_parts] == [0, 1, *(min(round(share * n), n - 1) for n in (92, 95))]
    everything = np.concatenate([data.train.x, data.test.x, data.server.x])[:, 0]
    assert sorted(everything) == list(range(200))
    assert np.array_equal(np.concatenate(data.test_parts), np.arange(len(data.test)))


@pytest.mark.parametrize("share", [0.0, 1.0, -0.5])
def test_divide_refuses_a_share_that_is_none(share: float) -> None:
    partition("test-all")(lambda data, clients, rng: Partition([np.arange(9)], own_test=share))
    try:
        with pytest.raises(CoterieError, match=f"holds out {share} of .* between 0 and 1"):
            divide(pooled(mixed([100])), "test-all", {}, 1, 0)
    finally:
        del PARTITIONS._items["test-all"]
