"""IDX files: MNIST's, Fashion-MNIST's and EMNIST's, plain and gzipped, whole and broken."""

import contextlib
import gzip
import struct
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from dataset_writers import idx, pixels, write_idx_set
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from coterie.data import read, recognise
from coterie.errors import CoterieError

DIGITS = {
    "x_train": pixels(30, 7, 5),
    "y_train": np.arange(30, dtype=np.uint8) % 3,
    "x_test": pixels(6, 7, 5),
    "y_test": np.arange(6, dtype=np.uint8) % 3,
}


def assert_digits(path: Path, transposed: bool = False, **options: Any) -> None:
    data = read(path, **options)
    assert data.test is not None
    for samples, part in ((data.train, "train"), (data.test, "test")):
        images = DIGITS[f"x_{part}"]
        assert np.array_equal(samples.x[:, 0], images.swapaxes(1, 2) if transposed else images)
        assert np.array_equal(samples.y, DIGITS[f"y_{part}"])
    assert data.classes == 3


@pytest.mark.parametrize("gz", [False, True])
@pytest.mark.parametrize("test", ["t10k", "test"])
def test_the_four_files_in_a_folder(tmp_path: Path, gz: bool, test: str) -> None:
    folder = write_idx_set(tmp_path / "mnist", DIGITS, test=test, gz=gz)
    assert recognise(folder).format == "idx"
    assert_digits(folder)
    assert read(folder).name == "mnist"
    assert read(folder).normalisation is not None  # the published one goes by the name


def test_a_folder_in_the_folder_and_names_with_a_dot(tmp_path: Path) -> None:
    folder = write_idx_set(tmp_path / "MNIST" / "raw", DIGITS)
    for file in list(folder.iterdir()):
        file.rename(file.with_name(file.name.replace("-idx", ".idx")))
    assert_digits(tmp_path / "MNIST")


def test_one_file_finds_those_beside_it(tmp_path: Path) -> None:
    folder = write_idx_set(tmp_path / "mine", DIGITS, gz=True)
    assert_digits(folder / "train-images-idx3-ubyte.gz")
    assert_digits(folder / "t10k-labels-idx1-ubyte.gz")
    assert read(folder / "train-images-idx3-ubyte.gz").name == "mine"


def test_a_test_part_is_not_needed_but_may_not_be_half(tmp_path: Path) -> None:
    folder = write_idx_set(tmp_path / "mine", DIGITS)
    (folder / "t10k-images-idx3-ubyte").unlink()
    with pytest.raises(CoterieError, match=r"mine has no 't10k-images-idx3-ubyte'"):
        read(folder)
    (folder / "t10k-labels-idx1-ubyte").unlink()
    assert read(folder).test is None


@pytest.mark.parametrize("name", ["balanced", "letters"])
def test_emnist_has_rows_and_columns_exchanged_and_letters_from_1(tmp_path: Path, name: str) -> None:
    first = int(name == "letters")
    stored = {key: array + first if key[0] == "y" else array for key, array in DIGITS.items()}
    folder = write_idx_set(tmp_path, stored, prefix=f"emnist-{name}-", test="test", gz=True)
    assert_digits(folder, transposed=True)
    assert read(folder).name == "emnist"


def test_one_of_several_sets_is_chosen_also_in_an_archive(tmp_path: Path) -> None:
    write_idx_set(tmp_path / "raw", DIGITS, prefix="emnist-digits-", test="test", gz=True)
    write_idx_set(tmp_path / "raw", {k: DIGITS[k][:3] for k in DIGITS}, prefix="emnist-balanced-", test="test", gz=True)
    with zipfile.ZipFile(tmp_path / "gzip.zip", "w") as archive:
        for file in (tmp_path / "raw").iterdir():
            archive.write(file, f"gzip/{file.name}")
    for place in (tmp_path / "raw", tmp_path / "gzip.zip"):
        with pytest.raises(CoterieError, match=r"holds several sets: choose one with split = balanced or digits"):
            read(place)
        with pytest.raises(CoterieError, match=r"has no set 'digit': did you mean 'digits'\?"):
            read(place, split="digit")
        assert_digits(place, transposed=True, split="digits")
        assert len(read(place, split="balanced").train) == 3


@pytest.mark.parametrize("kind", ["u1", "i1", "i2", "i4", "f4", "f8"])
def test_all_types_of_numbers(tmp_path: Path, kind: str) -> None:
    x = (pixels(30, 4, 4) % 100).astype(kind)
    folder = write_idx_set(tmp_path, {"x_train": x, "y_train": DIGITS["y_train"].astype("i4")})
    data = read(folder)
    assert np.array_equal(data.train.x[:, 0], x)
    assert data.train.x.dtype == (np.uint8 if kind == "u1" else np.float32)


def test_a_file_is_recognised_by_content_but_needs_its_place_in_a_set(tmp_path: Path) -> None:
    (tmp_path / "pictures.dat").write_bytes(idx(DIGITS["x_train"]))
    assert recognise(tmp_path / "pictures.dat").format == "idx"
    with pytest.raises(CoterieError, match=r"should be called train-images-idx3-ubyte"):
        read(tmp_path / "pictures.dat")


WHOLE = idx(DIGITS["x_train"])
BROKEN = {
    "empty": (b"", "it ends after 0 of 4 bytes"),
    "cut in the header": (WHOLE[:7], "it ends after 3 of 12 bytes"),
    "cut in the pixels": (WHOLE[:-1], "it ends after 1049 of 1050 bytes"),
    "too long": (WHOLE + b"\0", "it goes on after the 1050 bytes"),
    "another format": (b"PNG!" + WHOLE[4:], "does not begin as an IDX file"),
    "an unknown type": (WHOLE[:2] + b"\x0a" + WHOLE[3:], "does not begin as an IDX file"),
    "too much announced": (WHOLE[:4] + struct.pack(">3I", 2**31, 2**31, 4) + WHOLE[16:], "more than the 4294967296"),
    "more announced than there is": (WHOLE[:4] + struct.pack(">3I", 2**27, 7, 4), "it ends after 0 of 3758096384"),
    "a damaged gzip file": (gzip.compress(WHOLE)[:-40] + b"\xff" * 40, ""),
    "a gzip file that is cut short": (gzip.compress(WHOLE)[:-20], "end-of-stream"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_broken_files_are_refused(tmp_path: Path, case: str) -> None:
    content, reason = BROKEN[case]
    folder = write_idx_set(tmp_path / "mnist", DIGITS)
    (folder / "train-images-idx3-ubyte").write_bytes(content)
    with pytest.raises(
        CoterieError, match=rf"train-images-idx3-ubyte cannot be read as IDX files \(.*{reason}"
    ) as raised:
        read(folder)
    assert str(folder) in str(raised.value)


def test_a_gzip_bomb_is_read_no_further_than_announced(tmp_path: Path) -> None:
    folder = write_idx_set(tmp_path / "mnist", DIGITS, gz=True)
    bomb = gzip.compress(WHOLE + bytes(50_000_000), 1)
    assert len(bomb) < 1_000_000
    (folder / "train-images-idx3-ubyte.gz").write_bytes(bomb)
    with pytest.raises(CoterieError, match="it goes on after the 1050 bytes"):
        read(folder)


@pytest.mark.integration
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(where=st.integers(0, 40), value=st.integers(0, 255), gz=st.booleans())
def test_a_garbled_byte_at_the_beginning_ends_in_one_kind_of_error(
    tmp_path: Path, where: int, value: int, gz: bool
) -> None:
    folder = write_idx_set(tmp_path / f"mnist{gz}", DIGITS, gz=gz)
    file = folder / ("train-images-idx3-ubyte" + ".gz" * gz)
    content = bytearray(file.read_bytes())
    content[where] = value
    file.write_bytes(content)
    with contextlib.suppress(CoterieError):
        assert len(read(folder).train) == 30
