"""Samples that stay in their file are those that would be read from it."""

import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from coterie.data import FederatedData, load
from coterie.data.on_demand import LazyArray, blocks, choose, is_in_file
from coterie.data.readers import npz
from coterie.errors import CoterieError

RNG = np.random.default_rng(0)
BYTES = RNG.integers(0, 256, (240, 6, 6, 3), np.uint8)
NUMBERS = RNG.standard_normal((240, 5)).astype(np.float32)
Y = np.arange(240) % 4


def saved(path: Path, x: np.ndarray, save: Any = np.savez) -> str:
    save(path, x_train=x[:200], y_train=Y[:200], x_test=x[200:], y_test=Y[200:])
    return str(path)


def loaded(path: str, partition: tuple[str, dict[str, Any]]) -> FederatedData:
    return load(path, {}, partition, clients=7, seed=3)


@pytest.mark.parametrize("x", [BYTES, NUMBERS], ids=["images", "vectors"])
@pytest.mark.parametrize("partition", [("iid", {}), ("label-skew", {"rho": 0.5}), ("rotated", {}), ("shards", {})])
def test_data_divided_in_their_file_are_the_same(
    x: np.ndarray, partition: tuple[str, dict[str, Any]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if partition[0] == "rotated" and x is NUMBERS:
        return
    path = saved(tmp_path / "data.npz", x)
    expected = loaded(path, partition)
    monkeypatch.setattr(npz, "MEMORY", 0)
    data = loaded(path, partition)
    assert isinstance(data.train.x, LazyArray)
    for part in ("train", "test", "server"):
        ours, theirs = getattr(data, part), getattr(expected, part)
        assert (ours.x.shape, ours.x.dtype) == (theirs.x.shape, theirs.x.dtype)
        assert np.array_equal(ours.x[:], theirs.x)
        assert np.array_equal(ours.y, theirs.y)
    for client, part in enumerate(expected.train_parts):
        own = data.train.x[data.train_parts[client]]
        assert own.flags.c_contiguous == expected.train.x[part].flags.c_contiguous
        assert np.array_equal(data.normalise(own), expected.normalise(expected.train.x[part]))


def test_what_is_packed_or_of_another_type_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(npz, "MEMORY", 0)
    packed = saved(tmp_path / "packed.npz", BYTES, np.savez_compressed)
    doubles = saved(tmp_path / "doubles.npz", NUMBERS.astype(np.float64))
    assert not isinstance(loaded(packed, ("iid", {})).train.x, LazyArray)
    assert not isinstance(loaded(doubles, ("iid", {})).train.x, LazyArray)


@pytest.mark.parametrize("damage", ["bit", "cut", "nan"])
def test_damage_is_found_in_what_stays_in_the_file(
    damage: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(npz, "MEMORY", 0)
    x = NUMBERS.copy()
    if damage == "nan":
        x[3, 2] = np.nan
    path = Path(saved(tmp_path / "data.npz", x))
    content = bytearray(path.read_bytes())
    if damage == "bit":
        with zipfile.ZipFile(path) as archive:
            content[archive.getinfo("x_train.npy").header_offset + 2000] ^= 1
    path.write_bytes(content[: -len(content) // 3] if damage == "cut" else content)
    with pytest.raises(CoterieError, match="NaN" if damage == "nan" else "npz"):
        loaded(str(path), ("iid", {}))


def test_rows_of_a_file_are_chosen_without_reading_them(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", NUMBERS)
    mapped = np.asarray(np.load(tmp_path / "x.npy", mmap_mode="r"))
    assert is_in_file(mapped)
    assert is_in_file(mapped[3:].T)
    assert not is_in_file(NUMBERS[3:].T)
    some, fewer = np.array([5, 200, 5, 17]), np.array([2, 0])
    twice: Any = choose(choose(mapped, some), fewer)
    assert isinstance(twice, LazyArray)
    assert np.array_equal(twice[:], NUMBERS[[5, 5]])
    assert np.array_equal(twice == NUMBERS[5], np.ones((2, 5), bool))
    assert choose(NUMBERS, some).base is None
    assert np.array_equal(np.concatenate(list(blocks(mapped))), NUMBERS)


class Made(LazyArray):
    """Numbers that are made when they are looked up."""

    nbytes = 0

    def rows(self, positions: Any) -> Any:
        return NUMBERS[positions]


def test_rows_are_looked_up_as_in_an_array() -> None:
    lazy, mask = Made(NUMBERS.shape, NUMBERS.dtype), np.arange(len(NUMBERS)) % 3 == 0
    for index in (3, -1, np.int64(2), slice(5, 1, -2), slice(None), [4, -2, 4], [], mask, np.array([[0, 1], [2, -3]])):
        assert np.array_equal(lazy[index], NUMBERS[index])
    for outside in (len(NUMBERS), -len(NUMBERS) - 1, [0, len(NUMBERS)]):
        with pytest.raises(IndexError, match="240 that there are"):
            lazy[outside]
