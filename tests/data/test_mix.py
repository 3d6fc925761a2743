"""Mixtures of any image data sets, a true group each; on small files written here, and on the real ones of MIX-4."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from partition_world import mixed

from coterie.data import check, load
from coterie.data.federated import measured
from coterie.data.mixing import GreyOrColour, clients_of_each
from coterie.errors import CoterieError

SIZES = {"small": [40] * 3, "large": [30] * 5, "colour": [50] * 4, "skewed": [150, 10]}
SHAPES = {"small": (12, 12), "large": (15, 20), "colour": (17, 16, 3), "skewed": (12, 12)}


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Data sets of images that say in their second row of pixels which they are, and their label."""
    for number, (name, sizes) in enumerate(SIZES.items()):
        arrays = {}
        for part, counts in (("train", sizes), ("test", [4] * len(sizes))):
            y = mixed(counts)
            x = np.random.default_rng(number).integers(1, 256, (len(y), *SHAPES[name]), dtype=np.uint8)
            x[:, 1, 0], x[:, 1, 1] = number + 1, y.reshape(-1, *(1,) * (x.ndim - 3)) + 1
            arrays |= {f"x_{part}": x, f"y_{part}": y}
        if name == "large":
            arrays = {key: array for key, array in arrays.items() if "train" in key}
        np.savez(tmp_path / f"{name}.npz", **arrays)
    np.savez(tmp_path / "vectors.npz", x_train=np.zeros((50, 4), np.float32), y_train=np.arange(50) % 2)
    monkeypatch.setenv("COTERIE_DATA", str(tmp_path))
    return tmp_path


def mix(of: str, clients: int = 6, seed: int = 0, **options: Any) -> Any:
    return load("mix", {"of": of, **options}, clients=clients, seed=seed)


@pytest.mark.parametrize(("labels", "offsets", "classes"), [("apart", [0, 3, 7], 12), ("shared", [0, 0, 0], 5)])
def test_images_labels_and_groups(files: Path, labels: str, offsets: list[int], classes: int) -> None:
    data = mix("small+colour+large", labels=labels, samples=12)
    assert (data.name, data.shape, data.classes) == ("mix", (3, 17, 20), classes)
    assert data.true_groups.tolist() == [0, 0, 1, 1, 2, 2]
    numbers = [1, 3, 2]  # of the files, as marked in the images
    for client, group in enumerate(data.true_groups):
        height, width = SHAPES[["small", "colour", "large"][group]][:2]
        top, left = (17 - height) // 2, (20 - width) // 2
        for samples, part in ((data.train, data.train_parts[client]), (data.test, data.test_parts[client])):
            inner = samples.x[part][:, :, top : top + height, left : left + width]
            assert inner.astype(int).sum() == samples.x[part].astype(int).sum()  # black around
            assert (inner[:, :, 1, 0] == numbers[group]).all()
            assert np.array_equal(inner[:, 0, 1, 1] - 1 + offsets[group], samples.y[part])
        assert len(data.train_parts[client]) == 12
        assert np.ptp(np.unique(data.train.y[data.train_parts[client]], return_counts=True)[1]) <= 1
    assert [len(data.test_parts[client]) for client in (0, 2, 4)] == [12, 16, 30]  # 20 % of `large`, which has none
    assert np.array_equal(np.concatenate(data.train_parts), np.arange(72))


def test_what_is_held_out_for_testing_is_with_nobody(files: Path) -> None:
    data = mix("large+small", samples=40)
    own = {x.tobytes() for x in data.test.x[data.test_parts[0]]}
    others = {x.tobytes() for x in (*data.train.x, *data.server.x)}
    assert not own & others


def test_grey_ones_stay_grey_where_all_are(files: Path) -> None:
    data = mix("small+large", samples=10)
    assert data.shape == (1, 15, 20)
    assert data.normalise == measured(data.server.x)


def test_grey_and_colour_are_normalised_each_in_its_way(files: Path) -> None:
    data = mix("small+colour", samples=20, clients=4)
    assert isinstance(data.normalise, GreyOrColour)
    grey, colour = data.server.y < 3, data.server.y >= 3
    seen = data.normalise(data.server.x)
    for chosen in (grey, colour):
        np.testing.assert_allclose(seen[chosen], measured(data.server.x[chosen])(data.server.x[chosen]), atol=1e-5)
    assert abs(seen[grey].mean()) < 1e-4
    assert abs(seen[colour].mean()) < 1e-4


def test_shares_and_proportions(files: Path) -> None:
    data = mix("small+colour", clients=8, shares="1+3", samples=20)
    assert np.bincount(data.true_groups).tolist() == [2, 6]
    skewed = mix("skewed+small", clients=6, samples=30)
    for client in range(3):  # equally many of both classes would be 15 of either, but there are 10 for three clients
        counts = np.bincount(skewed.train.y[skewed.train_parts[client]], minlength=2)
        assert counts.sum() == 30
        assert abs(counts[1] - 30 / 16) < 2


def test_the_seed_alone_decides(files: Path) -> None:
    first, again, other = (mix("small+large", seed=seed, samples=10) for seed in (0, 0, 1))
    assert np.array_equal(first.train.x, again.train.x)
    assert np.array_equal(first.test.x, again.test.x)
    assert not np.array_equal(first.train.x, other.train.x)
    assert not np.array_equal(first.test.x, other.test.x)


def test_digits_are_brought_to_shades() -> None:
    data = mix("digits", clients=3, samples=50)
    assert (data.shape, data.classes, int(data.train.x.max())) == ((1, 8, 8), 10, 255)
    assert set(data.true_groups) == {0}


def test_paths_are_data_sets_too(files: Path) -> None:
    assert mix(f"small+{files / 'colour.npz'}", samples=10).classes == 7


@given(st.lists(st.integers(1, 50), min_size=1, max_size=6), st.integers(0, 60))
def test_every_data_set_has_clients(shares: list[int], more: int) -> None:
    clients = len(shares) + more
    numbers = np.array(clients_of_each("mix", clients, shares))
    assert numbers.sum() == clients
    assert numbers.min() >= 1
    exact = clients * np.array(shares) / sum(shares)
    if exact.min() >= 1:
        assert np.abs(numbers - exact).max() < 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, r"needs the option 'of'"),
        ({"of": "small+nothing"}, r"nothing"),
        ({"of": "small+small"}, r"should name each data set once"),
        ({"of": "small+digits-rotated"}, r"cannot be made of 'digits-rotated', which comes divided"),
        ({"of": "mix+small"}, r"cannot be made of 'mix', which comes divided"),
        ({"of": "small+large", "shares": "1"}, r"shares = '1' should be 2 whole numbers above 0.*: 1\+2"),
        ({"of": "small+large", "shares": "1+0"}, r"2 whole numbers above 0"),
        ({"of": "small+large", "shares": "1+a"}, r"2 whole numbers above 0"),
        ({"of": "small+vectors"}, r"needs 'vectors' as grey or colour images of bytes, .* float32 and shape \(4,\)"),
        ({"of": "small+large", "samples": 3}, r"samples = 3 is not valid"),
    ],
)
def test_what_is_wrong_is_named(files: Path, options: dict[str, Any], message: str) -> None:
    with pytest.raises(CoterieError, match=message):
        load("mix", options, clients=4)


def test_too_many_or_few_clients(files: Path) -> None:
    with pytest.raises(CoterieError, match=r"2 data sets, which cannot be 1 clients: use at least 2"):
        mix("small+large", clients=1)
    with pytest.raises(CoterieError, match=r"at least 10 samples to each of 90 clients: use at most (\d+) clients"):
        mix("small+large", clients=90)


def test_files_must_be_there_before_any_is_read(files: Path) -> None:
    (files / "small.npz").unlink()
    with pytest.raises(CoterieError, match="small"):
        check("mix", {"of": "large+small"})


@pytest.mark.slow
def test_mix_4_is_a_mix(real: Path) -> None:
    for name in ("usps", "cifar10", "svhn", "fashion_mnist"):
        if not (real / f"{name}.npz").is_file():
            pytest.skip(f"no {name}.npz in {real}: unpack the data sets (unpack.py) and set COTERIE_DATA")
    four = load("mix-4")
    same = load("mix", {"of": "usps+cifar10+svhn+fashion_mnist", "shares": "14+32+26+28"})
    for part in ("train", "test", "server"):
        assert np.array_equal(getattr(four, part).x, getattr(same, part).x)
        assert np.array_equal(getattr(four, part).y, getattr(same, part).y)
    assert np.array_equal(four.true_groups, same.true_groups)
