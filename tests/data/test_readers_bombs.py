"""Files that unpack to more than they should, or take more steps: refused in a sentence, before memory is taken."""

import bz2
import gzip
import io
import pickle
import struct
import tarfile
import tracemalloc
import zipfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from coterie.coreset.files import read_graph
from coterie.data.readers.formats import read
from coterie.data.readers.inputs import read_inputs
from coterie.data.readers.unpickling import loads
from coterie.errors import CoterieError

MEGABYTES = 200


@pytest.fixture(autouse=True)
def little_memory() -> Iterator[None]:
    """No bomb may take more than 200 MB; NumPy tells what it takes too."""
    tracemalloc.start()
    yield
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < MEGABYTES * 1e6, f"{peak / 1e6:.0f} MB"


def npy_header(shape: tuple[int, ...], dtype: str = "|u1") -> bytes:
    stream = io.BytesIO()
    np.lib.format.write_array_header_1_0(stream, {"descr": dtype, "fortran_order": False, "shape": shape})
    return stream.getvalue()


def zeros(stream: io.BufferedIOBase, megabytes: int) -> None:
    for _ in range(megabytes):
        stream.write(bytes(2**20))


def npz(path: Path, megabytes: int, shape: tuple[int, ...]) -> Path:
    """Make a data set whose images are zeros, packed to a thousandth."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        with archive.open("x_train.npy", "w", force_zip64=True) as member:
            member.write(npy_header(shape))
            zeros(member, megabytes)  # type: ignore[arg-type]
        labels = io.BytesIO()
        np.save(labels, np.zeros(10, np.int64))
        archive.writestr("y_train.npy", labels.getvalue())
        archive.writestr("x.npy", npy_header(shape))
    return path


def test_an_npz_file_that_unpacks_to_a_thousand_times_its_size(tmp_path: Path) -> None:
    path = npz(tmp_path / "x.npz", 300, (300, 1024, 1024))
    with pytest.raises(
        CoterieError, match=r"x\.npz cannot be read as an \.npz file \(it unpacks to more than 200 times"
    ):
        read(path)
    with pytest.raises(CoterieError, match="unpacks to more than 200 times"):
        read_graph(path)


def test_a_directory_that_lies_about_a_size_gives_no_more_than_it_says(tmp_path: Path) -> None:
    path = npz(tmp_path / "x.npz", 300, (300, 1024, 1024))
    content = bytearray(path.read_bytes())
    size = 300 * 2**20 + 128
    for at in [i for i in range(len(content) - 8) if content[i : i + 4] == struct.pack("<I", size)]:
        content[at : at + 4] = struct.pack("<I", 2**20)
    path.write_bytes(content)
    with pytest.raises(CoterieError, match=r"cannot be read as an \.npz file"):
        read(path)


@pytest.mark.parametrize("shape", [(10**12,), (10**6, 10**6, 10**6), (2**63,)])
def test_an_array_that_announces_more_than_is_there(tmp_path: Path, shape: tuple[int, ...]) -> None:
    with zipfile.ZipFile(tmp_path / "x.npz", "w") as archive:
        for name in ("x_train", "y_train", "x"):
            archive.writestr(f"{name}.npy", npy_header(shape, "<f8"))
    with pytest.raises(CoterieError, match=r"announces an array of .* bytes, but has 0"):
        read(tmp_path / "x.npz")
    with pytest.raises(CoterieError, match=r"announces an array of .* bytes, but has 0"):
        read_inputs(tmp_path / "x.npz", (8, 8))
    (tmp_path / "x.npy").write_bytes(npy_header(shape, "<f8"))
    with pytest.raises(CoterieError, match=r"x\.npy.*announces an array of .* bytes, but has 0"):
        read_graph(tmp_path / "x.npy")


def test_a_directory_of_many_names(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "x.npz", "w") as archive:
        archive.writestr("x_train.npy", b"")
    content = bytearray((tmp_path / "x.npz").read_bytes())
    end = content.rindex(b"PK\5\6")
    content[end + 12 : end + 16] = struct.pack("<I", 2**30)
    (tmp_path / "x.npz").write_bytes(content)
    with pytest.raises(CoterieError, match=r"it has a directory of 1,073,741,824 bytes"):
        read(tmp_path / "x.npz")


@pytest.mark.parametrize("pack", [gzip.open, bz2.open])
def test_packed_files_of_zeros(tmp_path: Path, pack: Callable[..., io.BufferedIOBase]) -> None:
    with pack(tmp_path / "train-images-idx3-ubyte.gz", "wb") as stream:
        stream.write(b"\0\0\x08\x03" + struct.pack(">III", 300, 1024, 1024))
        zeros(stream, 300)
    with gzip.open(tmp_path / "train-labels-idx1-ubyte.gz", "wb") as stream:
        stream.write(b"\0\0\x08\x01" + struct.pack(">I", 300) + bytes(300))
    with pytest.raises(CoterieError, match=r"images-idx3-ubyte\.gz cannot be read.*unpacks to more than 200 times"):
        read(tmp_path)


def test_an_archive_is_not_unpacked_to_skip_what_nobody_wants(tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "cifar-10-python.tar.gz", "w:gz") as archive, open("/dev/zero", "rb") as nothing:
        for name, size in (("data_batch_1", 0), ("padding", 300 * 2**20)):
            about = tarfile.TarInfo(f"cifar-10-batches-py/{name}")
            about.size = size
            archive.addfile(about, nothing)
    with pytest.raises(CoterieError, match=r"cifar-10-python\.tar\.gz. is not a data set that Coterie can read"):
        read(tmp_path / "cifar-10-python.tar.gz")


def test_a_matlab_file_of_zeros(tmp_path: Path) -> None:
    inner = zlib.compress(struct.pack("<II", 14, 300 * 2**20) + bytes(300 * 2**20), 9)
    header = b"MATLAB 5.0 MAT-file".ljust(124) + b"\0\1IM"
    tracemalloc.reset_peak()
    (tmp_path / "train_32x32.mat").write_bytes(header + struct.pack("<II", 15, len(inner)) + inner)
    with pytest.raises(CoterieError, match=r"train_32x32\.mat cannot be read.*unpacks to more than 200 times"):
        read(tmp_path / "train_32x32.mat")


DOUBLED = b"\x80\x02K\x01" + b"2\x86" * 70
"""A tuple that holds twice a tuple that holds twice ...: 2 ** 70 ones, of which each hash and text takes for ever."""
PICKLES = {
    "a key that takes for ever to hash": b"\x80\x02}(" + DOUBLED[2:] + b"K\x01u.",
    "a key that is nested": b"\x80\x02}(" + b")" + b"\x85" * 10**6 + b"K\x01u.",
    "a text that takes for ever": b"\x80\x02c_codecs\nencode\n" + DOUBLED[2:] + b"X\x06\x00\x00\x00latin1\x86R.",
    "bytes that are not there": b"\x80\x05\x96" + struct.pack("<Q", 10**11) + b".",
    "many steps": b"\x80\x02]" + b"K\x01a" * 10**6 + b".",
    "a set": b"\x80\x04\x8f(" + DOUBLED[2:] + b"\x90.",
}


@pytest.mark.parametrize("case", PICKLES)
def test_pickles_that_take_for_ever(case: str) -> None:
    with pytest.raises(pickle.UnpicklingError):
        loads(PICKLES[case])


def test_a_shape_that_is_none() -> None:
    """A product of a text or a tuple with a number is a long one."""
    dtype = b"cnumpy\ndtype\n(U\x02u1K\x00K\x01tR(K\x03U\x01|NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb"
    start = b"\x80\x02}(U\x04datacnumpy.core.multiarray\n_reconstruct\n(cnumpy\nndarray\n(K\x00tU\x01btR(K\x01"
    for shape in (b"(U\x01aJ\xff\xff\xff\x7ft", b"((K\x01tJ\xff\xff\xff\x7ft", b"(J\xff\xff\xff\xfft"):
        with pytest.raises(pickle.UnpicklingError, match="without a proper shape"):
            loads(start + shape + dtype + b"\x89U\x01xtbu.")


def test_an_image_of_absurd_size(tmp_path: Path) -> None:
    def chunk(kind: bytes, content: bytes) -> bytes:
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    for name, side in (("a", 9000), ("b", 10**9)):
        rows = zlib.compress(bytes(9001), 9)
        head = chunk(b"IHDR", struct.pack(">IIBBBBB", side, side, 8, 0, 0, 0, 0))
        (tmp_path / name).mkdir()
        (tmp_path / name / "1.png").write_bytes(
            b"\x89PNG\r\n\x1a\n" + head + chunk(b"IDAT", rows) + chunk(b"IEND", b"")
        )
    with pytest.raises(CoterieError, match=r"1\.png cannot be read as a PNG or JPEG image"):
        read(tmp_path)


def test_many_images_of_a_possible_size(tmp_path: Path) -> None:
    from PIL import Image

    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        for number in range(50 if name == "a" else 1):
            target = tmp_path / name / f"{number}.png"
            if number:
                target.symlink_to(tmp_path / name / "0.png")
            else:
                Image.new("L", (5700, 5700)).save(target)
    with pytest.raises(CoterieError, match=r"51 images of 5700 x 5700.*give the option size"):
        read(tmp_path)
