"""MIX-4: four data sets, four true groups; on small files written here, and on the real ones."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from partition_world import Labels, mixed

from coterie.data import FederatedData, check, default_clients, load, traits
from coterie.data.federated import PUBLISHED
from coterie.data.mixing import clients_of_each, even, proportional
from coterie.data.sources.mix import SHARES
from coterie.errors import CoterieError

SOURCES = ["usps", "cifar10", "svhn", "fashion_mnist"]
SHAPES = {"usps": (16, 16), "cifar10": (32, 32, 3), "svhn": (32, 32, 3), "fashion_mnist": (28, 28)}
TRAIN = {
    "usps": [60, 50, 37, 33, 32, 28, 33, 32, 27, 33],
    "cifar10": [70] * 10,
    "svhn": [90, 200, 150, 120, 100, 95, 80, 78, 70, 30],
    "fashion_mnist": [80] * 10,
}
TEST = {"usps": [3] * 10, "cifar10": [4] * 10, "svhn": [5] * 10, "fashion_mnist": [6] * 10}


def images(name: str, y: Labels, part: int) -> np.ndarray:
    """Images that can be recognised: number, part and source stand in the first row, then noise."""
    x = np.random.default_rng(part).integers(0, 256, (len(y), *SHAPES[name]), dtype=np.uint8)
    marks = np.stack(
        [np.arange(len(y)) // 256, np.arange(len(y)) % 256, np.full(len(y), 10 * SOURCES.index(name) + part)]
    )
    x[:, 0, :3] = marks.T if x.ndim == 3 else np.repeat(marks.T[:, :, None], 3, axis=2)
    return x


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Path]:
    """A function that writes the four files, with changes by data set (None: no file), and names their folder."""

    def write(**changes: dict[str, np.ndarray] | None) -> Path:
        for name in SOURCES:
            arrays = {}
            for part, sizes in ((0, TRAIN[name]), (1, TEST[name])):
                y = mixed(sizes, part)
                kind = "test" if part else "train"
                arrays |= {f"x_{kind}": images(name, y, part), f"y_{kind}": y}
            change = changes.get(name, {})
            if change is not None:
                arrays = {key: array for key, array in (arrays | change).items() if array is not None}
                np.savez(tmp_path / f"{name}.npz", **arrays)
        monkeypatch.setenv("COTERIE_DATA", str(tmp_path))
        return tmp_path

    return write


def marks(x: np.ndarray, source: int) -> np.ndarray:
    """(n, 2): which image each is, by its number and part; it must be of this source and correctly placed."""
    height, width = SHAPES[SOURCES[source]][:2]
    top, left = (32 - height) // 2, (32 - width) // 2
    inner = x[:, :, top : top + height, left : left + width]
    border = x.astype(int).sum() - inner.astype(int).sum()
    assert border == 0
    row = inner[:, :, 0, :3].astype(int)
    assert (row == row[:, :1]).all()
    assert (row[:, 0, 2] // 10 == source).all()
    return np.stack([256 * row[:, 0, 0] + row[:, 0, 1], row[:, 0, 2] % 10], axis=1)


def by_source(data: FederatedData) -> list[list[int]]:
    assert data.true_groups is not None
    return [np.flatnonzero(data.true_groups == source).tolist() for source in range(4)]


def test_every_image_is_where_it_belongs(folder: Callable[..., Path]) -> None:
    folder()
    data = load("mix-4", {"samples": 40}, clients=26, seed=1)
    assert (data.name, data.clients, data.classes, data.shape, data.common_test) == ("mix-4", 26, 40, (3, 32, 32), True)
    assert data.train.x.dtype == np.uint8
    assert [len(clients) for clients in by_source(data)] == [4, 8, 7, 7]
    assert (np.diff(data.true_groups) >= 0).all()
    assert np.array_equal(np.concatenate(data.train_parts), np.arange(len(data.train)))
    for source, clients in enumerate(by_source(data)):
        y = mixed(TRAIN[SOURCES[source]], 0)
        used = np.concatenate([data.train_parts[client] for client in clients])
        reserved = np.flatnonzero(data.server.y // 10 == source)
        found = np.concatenate([marks(data.train.x[used], source), marks(data.server.x[reserved], source)])
        labels = np.concatenate([data.train.y[used], data.server.y[reserved]])
        assert (found[:, 1] == 0).all()
        assert len(set(found[:, 0])) == len(found)  # nobody has what another has, nor what the server has
        assert np.array_equal(labels, 10 * source + y[found[:, 0]])


def test_pixels_are_not_changed(folder: Callable[..., Path]) -> None:
    folder()
    data = load("mix-4", {"samples": 20}, clients=8)
    for source, clients in enumerate(by_source(data)):
        name = SOURCES[source]
        originals = images(name, mixed(TRAIN[name], 0), 0)
        height, width = SHAPES[name][:2]
        top, left = (32 - height) // 2, (32 - width) // 2
        for client in clients:
            x = data.train.x[data.train_parts[client]]
            number = marks(x, source)[:, 0]
            inner = x[:, :, top : top + height, left : left + width]
            expected = originals[number]
            grey = expected.ndim == 3
            assert np.array_equal(inner, np.repeat(expected[:, None], 3, 1) if grey else expected.transpose(0, 3, 1, 2))


def test_a_client_is_tested_on_the_whole_test_part_of_its_source(folder: Callable[..., Path]) -> None:
    folder()
    data = load("mix-4", {"samples": 20}, clients=10)
    assert (np.diff(data.test.y) >= 0).all()
    assert len(data.test) == 180
    for source, clients in enumerate(by_source(data)):
        name = SOURCES[source]
        for client in clients:
            part = data.test_parts[client]
            found = marks(data.test.x[part], source)
            assert (found[:, 1] == 1).all()
            assert sorted(found[:, 0]) == list(range(sum(TEST[name])))
            assert np.array_equal(data.test.y[part], 10 * source + mixed(TEST[name], 1)[found[:, 0]])


def test_clients_are_balanced_and_those_of_usps_proportional(folder: Callable[..., Path]) -> None:
    folder()
    data = load("mix-4", {"samples": 50}, clients=26)
    usps, cifar, svhn, fashion = by_source(data)
    for client in (*cifar, *fashion):
        assert np.bincount(data.train.y[data.train_parts[client]] % 10).tolist() == [5] * 10
    for client in svhn:  # seven clients want 35 of label 9, of which there are 30
        assert np.bincount(data.train.y[data.train_parts[client]] % 10)[:9].tolist() == [5] * 9
    nines = [np.sum(data.train.y[data.train_parts[client]] == 29) for client in svhn]
    assert sum(nines) == 30
    assert set(nines) == {4, 5}
    proportions = np.array(TRAIN["usps"]) / sum(TRAIN["usps"])
    for client in usps:
        counts = np.bincount(data.train.y[data.train_parts[client]], minlength=10)
        assert counts.sum() == 50
        assert np.abs(counts - 50 * proportions).max() < 2
    assert data.notes == [
        "data set 'mix-4': 'svhn' has too few samples of some classes, so its clients have 49 to 50 samples, not 50"
    ]


def test_the_server_set_is_balanced_over_what_is_left(folder: Callable[..., Path]) -> None:
    folder()
    data = load("mix-4", {"samples": 50}, clients=26)
    total = sum(sum(sizes) for sizes in TRAIN.values())
    assert len(data.server) == round(0.05 * total)
    given = np.bincount(data.train.y, minlength=40)
    left = np.concatenate([TRAIN[name] for name in SOURCES]) - given
    counts = np.bincount(data.server.y, minlength=40)
    assert (counts <= left).all()
    assert counts[29] == left[29] == 0
    richest = counts.max()
    assert ((counts >= richest - 1) | (counts == left)).all()


def test_images_are_normalised_nearly_as_in_their_own_data_sets(folder: Callable[..., Path]) -> None:
    folder()
    data = load("mix-4", {"samples": 20}, clients=8)
    seen = data.normalise(data.test.x)
    assert seen.dtype == np.float32
    assert seen.shape == data.test.x.shape
    for source, name in enumerate(SOURCES):
        chosen = data.test.y // 10 == source
        own = PUBLISHED[name](data.test.x[chosen])
        assert np.abs(seen[chosen] - own).max() < (1e-5 if name in ("usps", "fashion_mnist") else 0.2)
    assert np.array_equal(data.normalise(data.test.x[5:8]), seen[5:8])


def test_with_many_clients_all_get_fewer_samples_and_beyond_that_it_refuses(folder: Callable[..., Path]) -> None:
    folder()
    data = load("mix-4", clients=60)
    sizes = [len(part) for part in data.train_parts]
    # Nineteen clients of CIFAR-10 share 25/26 of its 700 images.
    assert [len(clients) for clients in by_source(data)] == [8, 19, 16, 17]
    assert max(sizes) == (700 - 26) // 19 == 35
    assert data.notes[0] == "data set 'mix-4': there are too few samples for so many clients, so each has 35, not 500"
    with pytest.raises(
        CoterieError, match=r"at least 10 samples to each of 900 clients: use at most (\d+) clients"
    ) as no:
        load("mix-4", clients=900)
    most = int(str(no.value).split("at most ")[1].split()[0])
    assert max(len(part) for part in load("mix-4", clients=most).train_parts) == 10
    with pytest.raises(CoterieError, match=f"use at most {most} clients"):
        load("mix-4", clients=most + 1)


def test_the_seed_alone_decides(folder: Callable[..., Path]) -> None:
    folder()
    first, again, other = (load("mix-4", {"samples": 20}, clients=8, seed=seed) for seed in (0, 0, 1))
    assert np.array_equal(first.train.x, again.train.x)
    assert np.array_equal(first.server.x, again.server.x)
    assert not np.array_equal(first.train.x, other.train.x)
    assert not np.array_equal(first.server.x, other.server.x)


@given(st.integers(4, 3000))
def test_clients_are_divided_in_the_papers_proportions(clients: int) -> None:
    numbers = np.array(clients_of_each("mix-4", clients, list(SHARES.values())))
    assert numbers.sum() == clients
    assert numbers.min() >= 1
    assert np.abs(numbers - clients * np.array([14, 32, 26, 28]) / 100).max() < 1


def test_a_hundred_clients_are_divided_as_in_the_paper() -> None:
    assert clients_of_each("mix-4", 100, list(SHARES.values())) == [14, 32, 26, 28]
    assert default_clients("mix-4") == 100
    assert traits("mix-4").divided


@given(st.integers(1, 9), st.integers(10, 70), st.integers(0, 2**32))
def test_shards_are_distinct_and_of_the_size_asked_for(clients: int, each: int, seed: int) -> None:
    sizes = [100, 90, 80, 75, 70, 70, 69, 68, 67, 66]
    y = mixed(sizes, seed % 10)
    balanced = even(y, clients, each, np.random.default_rng(seed))
    in_proportion = proportional(y, clients, each, np.random.default_rng(seed))
    for parts in (balanced, in_proportion):
        held = np.concatenate(parts)
        assert len(set(held.tolist())) == len(held)
        assert [len(part) for part in parts] == [each] * clients
    for part in balanced:
        assert np.ptp(np.bincount(y[part], minlength=10)) <= 1
    for part in in_proportion:
        assert np.abs(np.bincount(y[part], minlength=10) - each * np.array(sizes) / sum(sizes)).max() < 2


@pytest.mark.parametrize("clients", [-1, 0, 3])
def test_fewer_clients_than_data_sets_are_refused(folder: Callable[..., Path], clients: int) -> None:
    folder()
    with pytest.raises(CoterieError, match=rf"4 data sets, which cannot be {clients} clients: use at least 4"):
        load("mix-4", clients=clients)
    assert load("mix-4", {"samples": 20}, clients=4).clients == 4


def test_a_missing_file_is_named_before_any_is_read(folder: Callable[..., Path]) -> None:
    place = folder(svhn=None)
    for name in ("usps", "cifar10", "fashion_mnist"):
        (place / f"{name}.npz").write_bytes(b"not to be looked into")
    with pytest.raises(CoterieError, match="svhn"):
        check("mix-4")
    with pytest.raises(CoterieError, match="svhn"):
        load("mix-4")


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"x_test": None, "y_test": None}, "10 classes, without a test part"),
        ({"x_train": np.zeros((365, 33, 33), np.uint8), "x_test": np.zeros((30, 33, 33), np.uint8)}, r"\(1, 33, 33\)"),
        ({"x_train": np.zeros((365, 16, 16), np.float32), "x_test": np.zeros((30, 16, 16), np.float32)}, "float32"),
        ({"x_train": np.zeros((365, 256), np.uint8), "x_test": np.zeros((30, 256), np.uint8)}, r"\(256,\)"),
        ({"y_train": np.arange(365) % 12}, "in 12 classes"),
    ],
    ids=["no test part", "too large", "no bytes", "no images", "too many classes"],
)
def test_a_data_set_that_does_not_fit_is_named(
    folder: Callable[..., Path], change: dict[str, np.ndarray], told: str
) -> None:
    folder(usps=change)
    with pytest.raises(CoterieError, match=rf"'mix-4' needs 'usps' as .* but it has .*{told}"):
        load("mix-4", clients=8)


def test_the_real_four(real: Path) -> None:
    for name in SOURCES:
        if not (real / f"{name}.npz").is_file():
            pytest.skip(f"no {name}.npz in {real}: unpack the data sets (unpack.py) and set COTERIE_DATA")
        with np.load(real / f"{name}.npz") as file:
            if "x_train" not in file.files:
                pytest.skip(f"{name}.npz in {real} is packed: unpack the data sets (unpack.py) and set COTERIE_DATA")
    data = load("mix-4")
    assert [clients[0] for clients in by_source(data)] == [0, 14, 46, 72]
    assert (data.clients, data.classes, data.shape, len(data.server)) == (100, 40, (3, 32, 32), 2500)
    sizes = np.array([len(part) for part in data.train_parts])
    assert sizes.max() == 500
    assert sizes.min() >= 498
    assert np.delete(sizes, np.arange(46, 72)).tolist() == [500] * 74
    counts = np.stack([np.bincount(data.train.y[part], minlength=40) for part in data.train_parts])
    for source, clients in enumerate(by_source(data)):
        own = counts[clients][:, 10 * source : 10 * source + 10]
        assert own.sum() == counts[clients].sum()
        if source in (1, 3):
            assert (own == 50).all()
    assert np.bincount(data.test.y).tolist()[:10] == [359, 264, 198, 166, 200, 160, 170, 147, 166, 177]
    server = np.bincount(data.server.y, minlength=40)
    assert np.ptp(server[30:]) <= 1
    # Only USPS and the rare classes of SVHN have less than the others: all that was left.
    assert set(np.flatnonzero(server < server.max() - 1)) <= {*range(10), 20, 29}
    images = {x.tobytes() for x in data.server.x}
    assert sum(x.tobytes() in images for x in data.train.x) < 10  # the sets hold a few images twice
