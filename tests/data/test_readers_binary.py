"""SVHN, USPS and STL-10 in the files that they come in."""

import bz2
import contextlib
import gzip
import importlib.util
from pathlib import Path

import numpy as np
import pytest
from dataset_writers import pixels, tar_gz, write_all
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy.io import savemat

from coterie.data import read, recognise
from coterie.errors import CoterieError

# SVHN


def write_mat(path: Path, x: np.ndarray, y: np.ndarray, compressed: bool = False) -> Path:
    savemat(path, {"X": x, "y": y}, do_compression=compressed)
    return path


@pytest.mark.parametrize("compressed", [False, True])
def test_svhn_has_samples_last_and_calls_zero_ten(tmp_path: Path, compressed: bool) -> None:
    x, y = pixels(32, 32, 3, 20), np.arange(1, 21, dtype=np.uint8)[:, None] % 10
    y[y == 0] = 10
    write_mat(tmp_path / "train_32x32.mat", x, y, compressed)
    write_mat(tmp_path / "test_32x32.mat", x[..., :5], y[:5], compressed)
    for place in (tmp_path, tmp_path / "train_32x32.mat"):
        data = read(place)
        assert (data.name, data.classes, data.shape) == ("svhn", 10, (3, 32, 32))
        assert data.train.y.tolist() == [number % 10 for number in range(1, 21)]
        assert data.train.x[7, 2, 30, 4] == x[30, 4, 2, 7]
        assert np.array_equal(data.train.x, x.transpose(3, 2, 0, 1))
        assert data.test is not None
        assert len(data.test) == 5
    (tmp_path / "train_32x32.mat").rename(tmp_path / "other.mat")
    assert recognise(tmp_path / "other.mat").format == "svhn"
    assert read(tmp_path / "other.mat").test is None


@pytest.mark.parametrize(
    ("variables", "reason"),
    [
        ({"images": np.zeros(3)}, "should hold images X"),
        ({"X": np.zeros((4, 4, 3, 2)), "y": np.ones((2, 1))}, "should hold images X"),
        ({"X": np.zeros((4, 4, 3, 2), np.uint8), "y": np.ones((3, 1))}, r"holds X \(4, 4, 3, 2\) and y \(3, 1\)"),
        ({"X": np.zeros((4, 4, 3, 2), np.uint8), "y": np.array([[1], [11]])}, "labels go from 1 to 11"),
        ({"X": {"a": 1}, "y": np.ones((2, 1))}, "'X' is no array of real numbers"),
        ({"X": np.zeros((4, 4, 3, 2), np.uint8), "y": "text"}, "'y' is no array of real numbers"),
        ({"X": np.zeros((4, 4, 3, 2), np.uint8), "y": np.ones((2, 1)) * 1j}, "'y' is no array of real numbers"),
        ({"X": np.zeros((4, 4, 3, 2), np.uint8), "y": np.full((2, 1), np.nan)}, "labels go from nan"),
    ],
)
def test_other_mat_files_are_refused(tmp_path: Path, variables: dict[str, object], reason: str) -> None:
    savemat(tmp_path / "train_32x32.mat", variables)
    with pytest.raises(CoterieError, match=rf"train_32x32\.mat cannot be read as SVHN's \.mat files \(.*{reason}"):
        read(tmp_path)


@pytest.mark.parametrize("compressed", [False, True])
@pytest.mark.parametrize("share", [0.0, 0.02, 0.1, 0.5, 0.999])
def test_cut_mat_files_are_refused(tmp_path: Path, compressed: bool, share: float) -> None:
    path = write_mat(tmp_path / "train_32x32.mat", pixels(32, 32, 3, 5), np.ones((5, 1)), compressed)
    content = path.read_bytes()
    path.write_bytes(content[: int(share * len(content))])
    with pytest.raises(CoterieError, match=r"train_32x32\.mat cannot be read"):
        read(path)


def test_a_mat_file_of_version_7_3_is_refused(tmp_path: Path) -> None:
    header = b"MATLAB 7.3 MAT-file, Platform: GLNXA64".ljust(124) + b"\x00\x02IM"
    (tmp_path / "train_32x32.mat").write_bytes(header.ljust(512, b"\0") + b"\x89HDF\r\n\x1a\n")
    with pytest.raises(CoterieError, match=r"train_32x32\.mat cannot be read as SVHN's \.mat files"):
        read(tmp_path)


# USPS


def libsvm(x: np.ndarray, y: np.ndarray) -> bytes:
    lines = [
        f"{label} " + " ".join(f"{i}:{value:g}" for i, value in enumerate(row, 1))
        for row, label in zip(x, y, strict=True)
    ]
    return ("\n".join(lines) + "\n").encode()


SHADES = np.random.default_rng(3).integers(-1000, 1001, (20, 256)) / 1000
USPS_LABELS = np.arange(20) % 10 + 1
PACKED = {".bz2": bz2.compress, ".gz": gzip.compress, "": bytes}


@pytest.mark.parametrize("ending", PACKED)
def test_usps_has_shades_from_minus_1_to_1_and_labels_from_1(tmp_path: Path, ending: str) -> None:
    (tmp_path / f"usps{ending}").write_bytes(PACKED[ending](libsvm(SHADES, USPS_LABELS)))
    (tmp_path / f"usps.t{ending}").write_bytes(PACKED[ending](libsvm(SHADES[:4], USPS_LABELS[:4])))
    for place in (tmp_path, tmp_path / f"usps{ending}") if ending != ".gz" else (tmp_path / f"usps{ending}",):
        data = read(place)
        assert (data.name, data.classes, data.shape, data.train.x.dtype) == ("usps", 10, (1, 16, 16), np.uint8)
        assert np.array_equal(data.train.y, USPS_LABELS - 1)
        assert np.array_equal(data.train.x.reshape(20, 256), np.rint(255 * (SHADES + 1) / 2))
        assert data.test is not None
        assert len(data.test) == 4


BAD_LINES = {
    "a value too few": libsvm(SHADES[:, :255], USPS_LABELS),
    "out of order": libsvm(SHADES, USPS_LABELS).replace(b" 7:", b" 8:"),
    "not a number": libsvm(SHADES, USPS_LABELS).replace(b" 7:", b" 7:x"),
    "label 0": libsvm(SHADES, USPS_LABELS - 1),
    "a shade of 3": libsvm(SHADES * 3, USPS_LABELS),
    "NaN": libsvm(SHADES * np.nan, USPS_LABELS),
    "nothing": b"",
}


@pytest.mark.parametrize("case", BAD_LINES)
def test_other_lines_are_refused(tmp_path: Path, case: str) -> None:
    (tmp_path / "usps.bz2").write_bytes(bz2.compress(BAD_LINES[case]))
    with pytest.raises(CoterieError, match=r"usps\.bz2 cannot be read as USPS in LIBSVM's format"):
        read(tmp_path)


@pytest.mark.parametrize("share", [0.3, 0.9, 0.999])
def test_a_cut_or_garbled_bz2_file_is_refused(tmp_path: Path, share: float) -> None:
    content = bz2.compress(libsvm(SHADES, USPS_LABELS))
    middle = int(share * len(content))
    for broken in (content[:middle], content[: middle - 9] + b"\xff" * 9 + content[middle:]):
        (tmp_path / "usps.bz2").write_bytes(broken)
        with pytest.raises(CoterieError, match=r"usps\.bz2 cannot be read"):
            read(tmp_path / "usps.bz2")


def test_usps_in_hdf5_needs_h5py(tmp_path: Path) -> None:
    path = tmp_path / "usps.h5"
    if importlib.util.find_spec("h5py") is None:
        path.write_bytes(b"\x89HDF\r\n\x1a\n" + bytes(100))
        with pytest.raises(CoterieError, match=r"usps\.h5 is an HDF5 file, for which the package h5py is needed"):
            read(path)
        return
    import h5py

    with h5py.File(path, "w") as file:
        for part, count in (("train", 20), ("test", 4)):
            file[f"{part}/data"], file[f"{part}/target"] = (SHADES[:count] + 1) / 2, USPS_LABELS[:count] - 1
    data = read(path)
    assert np.array_equal(data.train.x.reshape(20, 256), np.rint(255 * (SHADES + 1) / 2))
    path.write_bytes(path.read_bytes()[:600])
    with pytest.raises(CoterieError, match=r"usps\.h5 cannot be read"):
        read(path)


# STL-10


def stl10(images: np.ndarray) -> dict[str, bytes]:
    """Files from images (n, 3, rows, columns): the pixels follow each other column by column."""
    labels = (np.arange(len(images)) % 10 + 1).astype(np.uint8)
    files = {}
    for part, count in (("test", 2), ("train", len(images))):
        files[f"stl10_binary/{part}_X.bin"] = images[:count].transpose(0, 1, 3, 2).tobytes()
        files[f"stl10_binary/{part}_y.bin"] = labels[:count].tobytes()
    return files


@pytest.mark.parametrize("packed", [False, True])
def test_stl10_is_column_by_column_and_made_smaller(tmp_path: Path, packed: bool) -> None:
    images = pixels(12, 3, 96, 96)
    files = stl10(images) | {"stl10_binary/unlabeled_X.bin": bytes(1000)}
    place = tar_gz(tmp_path / "stl10_binary.tar.gz", files) if packed else write_all(tmp_path, files)
    whole = read(place, size=96)
    assert np.array_equal(whole.train.x, images)
    assert whole.train.y.tolist() == [number % 10 for number in range(12)]
    data = read(place)
    assert (data.name, data.classes, data.shape) == ("stl10", 10, (3, 32, 32))
    block = images[5, 1, 30:33, 60:63].astype(float)
    assert data.train.x[5, 1, 10, 20] == np.rint(block.mean())
    assert data.test is not None
    assert len(data.test) == 2


def test_a_large_archive_is_not_read_further_than_needed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The unlabelled images, 2.7 GB, come last."""
    archive = tar_gz(tmp_path / "stl10_binary.tar.gz", stl10(pixels(2, 3, 96, 96)))
    archive.write_bytes(archive.read_bytes()[:-30])  # the end of the archive is missing
    with pytest.raises(CoterieError, match=r"stl10_binary\.tar\.gz cannot be read"):
        read(archive)
    monkeypatch.setattr("coterie.data.readers.files._CHECKED_TO_THE_END", 0)
    assert len(read(archive).train) == 2


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"train_X.bin": bytes(27648 * 2 - 1)}, r"train_X\.bin cannot be read as STL-10 in binary .*27648 bytes"),
        ({"train_X.bin": b""}, r"train_X\.bin cannot be read as STL-10 in binary \(it is empty"),
        ({"train_y.bin": bytes([1, 11])}, r"train_y\.bin cannot be read .*labels should be 1 to 10"),
        ({"train_y.bin": bytes([0, 1])}, r"train_y\.bin cannot be read .*labels should be 1 to 10"),
        ({"train_y.bin": bytes([1, 2, 3])}, r"x_train has 2 samples, but y_train has 3 labels"),
    ],
)
def test_broken_stl10_files_are_refused(tmp_path: Path, changes: dict[str, bytes], message: str) -> None:
    folder = write_all(tmp_path, stl10(pixels(2, 3, 96, 96))) / "stl10_binary"
    write_all(folder, changes)
    with pytest.raises(CoterieError, match=message):
        read(tmp_path)


def test_stl10_can_have_sizes_that_divide_96(tmp_path: Path) -> None:
    folder = write_all(tmp_path, stl10(pixels(2, 3, 96, 96)))
    with pytest.raises(CoterieError, match=r"size = 40 is not valid: choose one of 1, 2, 3, 4, 6, 8, 12, 16, 24, 32"):
        read(folder, size=40)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(where=st.integers(0, 400), value=st.integers(0, 255))
def test_a_garbled_mat_file_ends_in_one_kind_of_error(tmp_path: Path, where: int, value: int) -> None:
    path = write_mat(tmp_path / "train_32x32.mat", pixels(4, 4, 3, 5), np.ones((5, 1)))
    content = bytearray(path.read_bytes())
    content[where % len(content)] = value
    path.write_bytes(content)
    with contextlib.suppress(CoterieError):  # and nothing else: SciPy's reader crashed the process
        read(path)
