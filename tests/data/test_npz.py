"""Reading .npz files: layouts, units, and every mistake with its message."""

import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from coterie.data import Normalisation, read, read_npz
from coterie.errors import CoterieError

SaveNpz = Callable[..., Path]

COLOURED = np.random.default_rng(1).integers(0, 256, (60, 4, 5, 3), dtype=np.uint8)
NO_TEST: dict[str, Any] = {"x_test": None, "y_test": None}


def test_grey_images_get_a_channel_axis(save: SaveNpz, small: dict[str, Any]) -> None:
    data = read_npz(save())
    assert (data.name, data.classes, data.shape) == ("own", 3, (1, 4, 5))
    assert np.array_equal(data.train.x[:, 0], small["x_train"])
    assert data.train.y.dtype == np.int64
    assert np.array_equal(data.train.y, small["y_train"])
    assert data.test is not None
    assert np.array_equal(data.test.x[:, 0], small["x_test"])
    assert data.users is None


@pytest.mark.parametrize("channels", [1, 3, 4])
def test_channels_come_last_in_files_and_first_inside(save: SaveNpz, channels: int) -> None:
    x = np.random.default_rng(0).integers(0, 256, (60, 4, 5, channels), dtype=np.uint8)
    inside = read_npz(save(x_train=x, **NO_TEST)).train.x
    assert inside.shape == (60, channels, 4, 5)
    assert inside.flags.c_contiguous
    for sample, row, column, channel in [(0, 0, 0, 0), (7, 3, 1, channels - 1), (59, 2, 4, channels // 2)]:
        assert inside[sample, channel, row, column] == x[sample, row, column, channel]


def test_channels_may_come_first_where_the_last_axis_cannot_be_channels(save: SaveNpz) -> None:
    x = COLOURED.transpose(0, 3, 1, 2)
    assert np.array_equal(read_npz(save(x_train=x, **NO_TEST)).train.x, x)


def test_an_ambiguous_layout_is_read_as_channels_last(save: SaveNpz) -> None:
    x = np.zeros((60, 3, 8, 3), np.uint8)
    assert read_npz(save(x_train=x, **NO_TEST)).shape == (3, 3, 8)


@pytest.mark.parametrize(("wrong", "meant"), [("users_train", "user_train"), ("Attributes", "attributes")])
def test_an_array_that_is_nearly_called_like_ours_is_not_left_out_silently(
    save: SaveNpz, wrong: str, meant: str
) -> None:
    with pytest.raises(CoterieError, match=f"array '{wrong}', which is not read: did you mean '{meant}'"):
        read_npz(save(**{wrong: np.zeros(60, int)}))
    assert len(read_npz(save(notes=np.zeros(3))).train) == 60  # others are no concern of ours


def test_vectors_stay_vectors_and_users_are_kept(save: SaveNpz) -> None:
    x, users = np.random.default_rng(0).normal(size=(60, 6)), np.arange(60) // 7
    data = read_npz(save(x_train=x, user_train=users, **NO_TEST))
    assert data.train.x.dtype == np.float32
    assert np.array_equal(data.train.x, x.astype(np.float32))
    assert data.users is not None
    assert np.array_equal(data.users, users)


@pytest.mark.parametrize(
    ("name", "x", "expected"),
    [
        ("fashion_mnist.npz", COLOURED[..., :1], Normalisation(255.0, (0.1307,), (0.3081,))),
        ("cifar10.npz", COLOURED, Normalisation(255.0, (0.4914, 0.4822, 0.4465), (0.2023, 0.1994, 0.2010))),
        ("own.npz", COLOURED, None),
        ("cifar10.npz", COLOURED[..., 0], None),  # not what the constants were made for
        ("cifar10.npz", COLOURED / 255, None),
    ],
)
def test_published_normalisation_goes_by_the_name_of_the_file(
    save: SaveNpz, name: str, x: np.ndarray, expected: Normalisation | None
) -> None:
    assert read_npz(save(name, x_train=x, **NO_TEST)).normalisation == expected


def with_values(values: dict[tuple[int, ...], float]) -> np.ndarray:
    x = np.zeros((60, 4, 5))
    for place, value in values.items():
        x[place] = value
    return x


MISTAKES: list[tuple[dict[str, Any], str]] = [
    ({"x_train": None}, r"has no 'x_train', only x_test, y_test, y_train: it must hold x_train and y_train"),
    ({"y_train": None}, r"has no 'y_train'"),
    ({"y_test": None}, r"has no 'y_test'"),
    ({"x_test": None}, r"has no 'x_test'"),
    ({"x_train": None, "x_train_webp": np.zeros(9, np.uint8)}, r"holds packed images .*unpack it first"),
    ({"y_train": np.arange(59) % 3}, r"x_train has 60 samples, but y_train has 59 labels"),
    ({"y_test": np.arange(13) % 3}, r"x_test has 12 samples, but y_test has 13 labels"),
    ({"x_test": np.zeros((12, 5, 4), np.uint8)}, r"shape \(4, 5\) in x_train, but \(5, 4\) in x_test"),
    ({"x_test": np.zeros((12, 4, 5))}, r"x_train is of type uint8, but x_test of type float64"),
    ({"y_train": np.arange(60) % 2 > 0}, r"y_train is of type bool: labels must be integers"),
    ({"y_train": np.array(["cat"] * 60)}, r"the class '0' is in y_test, but not in y_train: there are: cat"),
    ({"y_train": np.eye(60, dtype=int)}, r"y_train has shape \(60, 60\): labels must be \(n,\)"),
    ({"y_train": np.arange(60) % 3 + 1}, r"y_train start at 1, but must start at 0: subtract 1 from all labels"),
    ({"y_train": np.arange(60) % 3 - 1}, r"y_train has 20 negative labels, first -1 in sample 0"),
    ({"y_test": np.arange(12) - 1}, r"y_test has 1 negative labels, first -1 in sample 0"),
    ({"y_train": np.arange(60) * 10**9}, r"largest label in y_train is 59000000000, with only 60 samples"),
    ({"y_test": np.arange(12) % 4}, r"y_test holds the label 3, but the labels in y_train go from 0 to 2"),
    (
        {"x_train": with_values({(7, 1, 1): np.nan, (7, 2, 2): np.inf, (40, 0, 0): -np.inf}), **NO_TEST},
        r"x_train has 2 of 60 samples with NaN or infinite values, first in sample 7",
    ),
    ({"x_train": with_values({(3, 0, 0): 1e300}), **NO_TEST}, r"1 of 60 samples with NaN or infinite values"),
    ({"x_train": np.zeros((0, 4, 5)), "y_train": np.zeros(0, int)}, r"x_train is empty, with shape \(0, 4, 5\)"),
    ({"x_train": np.zeros((60, 0, 5))}, r"x_train is empty, with shape \(60, 0, 5\)"),
    ({"x_test": np.zeros((0, 4, 5), np.uint8), "y_test": np.zeros(0, int)}, r"x_test is empty"),
    ({"y_train": np.zeros(0, int)}, r"y_train is empty"),
    ({"x_train": np.zeros(60)}, r"x_train has shape \(60,\): inputs must be \(n, features\)"),
    ({"x_train": np.zeros((60, 8, 8, 2))}, r"x_train has shape \(60, 8, 8, 2\).*1, 3 or 4 channels"),
    ({"x_train": np.array(["a"] * 60)[:, None]}, r"x_train is of type <U1: inputs must be numbers"),
    ({"x_train": np.zeros((60, 4), complex)}, r"x_train is of type complex128: inputs must be numbers"),
    ({"x_train": np.array([[None]] * 60)}, r"'x_train' is an array of Python objects, which are not loaded"),
    ({"y_train": np.array([{}] * 60)}, r"'y_train' is an array of Python objects"),
    ({"user_train": np.arange(59)}, r"user_train has shape \(59,\) .* each of the 60 training samples"),
    ({"user_train": np.array(["me"] * 60)}, r"user_train .* type <U2: it must hold one integer"),
]


@pytest.mark.parametrize(("changes", "message"), MISTAKES, ids=[message for _, message in MISTAKES])
def test_a_mistake_is_named_with_its_file(save: SaveNpz, changes: dict[str, Any], message: str) -> None:
    path = save(**changes)
    with pytest.raises(CoterieError, match=message) as raised:
        read_npz(path)
    assert str(path) in str(raised.value)


def test_a_class_may_be_missing_from_training(save: SaveNpz) -> None:
    data = read_npz(save(y_train=np.repeat([0, 2], 30), y_test=np.arange(12) % 3))
    assert data.classes == 3


@pytest.mark.parametrize(("start", "stop"), [(0, 0), (0, -1), (0, 300), (100, None)])
def test_a_file_that_is_cut_short_is_named(save: SaveNpz, start: int, stop: int | None) -> None:
    path = save("cut.npz")
    path.write_bytes(path.read_bytes()[start:stop])
    with pytest.raises(CoterieError, match=r"cut\.npz cannot be read as an \.npz file .*cut short or damaged"):
        read_npz(path)


def test_a_text_is_not_a_data_set(tmp_path: Path) -> None:
    (tmp_path / "text.npz").write_text("no archive at all")
    with pytest.raises(CoterieError, match=r"text\.npz cannot be read as an \.npz file"):
        read_npz(tmp_path / "text.npz")


def test_a_single_array_is_not_a_data_set(tmp_path: Path) -> None:
    with (tmp_path / "single.npz").open("wb") as file:
        np.save(file, np.zeros(3))
    with pytest.raises(CoterieError, match=r"single\.npz cannot be read as an \.npz file"):
        read_npz(tmp_path / "single.npz")


def test_a_member_that_is_no_array_is_named(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "text.npz", "w") as archive:
        archive.writestr("x_train.npy", b"text")
        archive.writestr("y_train.npy", b"")
    with pytest.raises(CoterieError, match=r"text\.npz cannot be read"):
        read_npz(tmp_path / "text.npz")


@pytest.mark.integration
@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(where=st.floats(0, 1, exclude_max=True), value=st.integers(0, 255))
@example(where=0.0, value=0)
def test_a_garbled_byte_is_either_harmless_or_reported(
    save: SaveNpz, small: dict[str, Any], where: float, value: int
) -> None:
    path = save()
    content = bytearray(path.read_bytes())
    content[int(where * len(content))] = value
    path.write_bytes(content)
    try:
        train = read_npz(path).train
    except CoterieError as error:
        reported, harmless = str(path) in str(error), False
    else:
        reported = False
        harmless = np.array_equal(train.x[:, 0], small["x_train"]) and np.array_equal(train.y, small["y_train"])
    assert harmless or reported


@pytest.mark.parametrize(
    "header", ["{'descr': '|u1', 'shape': (((", "{'descr': [], ", "{'descr': '|u1', 'shape': " + "(" * 900]
)
def test_an_array_whose_header_is_damaged_is_refused(header: str, tmp_path: Path) -> None:
    content = b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header.encode()
    with zipfile.ZipFile(tmp_path / "data.npz", "w") as archive:
        archive.writestr("x_train.npy", content)
        archive.writestr("y_train.npy", content)
    with pytest.raises(CoterieError, match="header"):
        read_npz(tmp_path / "data.npz")


@pytest.mark.parametrize(("place", "value"), [(8, 1), (10, 97)])  # encrypted, and a compression that nobody has
def test_a_member_that_can_t_be_unpacked_is_refused(place: int, value: int, tmp_path: Path) -> None:
    np.savez(tmp_path / "data.npz", x_train=np.zeros((4, 2), np.uint8), y_train=np.arange(4))
    content = bytearray((tmp_path / "data.npz").read_bytes())
    content[content.index(b"PK\x01\x02") + place] = value
    (tmp_path / "data.npz").write_bytes(content)
    with pytest.raises(CoterieError, match="cannot be read"):
        read_npz(tmp_path / "data.npz")


def test_labels_may_be_texts(tmp_path: Path) -> None:
    """They are the names of the classes, numbered in their order; numbers written as texts in that of numbers."""
    x, y = np.zeros((6, 4), np.float32), np.array(["pear", "apple", "fig", "apple", "fig", "pear"])
    np.savez(tmp_path / "fruit.npz", x_train=x, y_train=y, x_test=x[:2], y_test=y[:2].astype("S"))
    data = read(tmp_path / "fruit.npz")
    assert data.class_names == ("apple", "fig", "pear")
    assert data.train.y.tolist() == [2, 0, 1, 0, 1, 2]
    assert data.test is not None
    assert data.test.y.tolist() == [2, 0]
    np.savez(tmp_path / "numbers.npz", x_train=x, y_train=np.array(["10", "2", "1", "2", "1", "10"]))
    assert read(tmp_path / "numbers.npz").class_names == ("1", "2", "10")
    agreed = read(tmp_path / "fruit.npz", class_names=["pear", "plum", "fig", "apple"])
    assert (agreed.classes, agreed.train.y.tolist()) == (4, [0, 3, 2, 3, 2, 0])


@pytest.mark.parametrize(
    ("test_labels", "options", "said"),
    [
        (["appel"], {}, "the class 'appel' is in y_test, but not in y_train: did you mean 'apple'"),
        (["apple"], {"class_names": ["fig", "pear"]}, "'apple' is in y_train, but not in class_names"),
        (["apple"], {"classes": 3}, "the labels are texts.*class_names = "),
    ],
)
def test_texts_that_are_no_classes(tmp_path: Path, test_labels: list[str], options: dict[str, Any], said: str) -> None:
    x = np.zeros((3, 4), np.float32)
    np.savez(tmp_path / "a.npz", x_train=x, y_train=["apple", "fig", "pear"], x_test=x[:1], y_test=test_labels)
    with pytest.raises(CoterieError, match=said):
        read(tmp_path / "a.npz", **options)
