"""CIFAR-10 and CIFAR-100 in both versions; and pickles that would run code, which must not."""

import contextlib
import pickle
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from dataset_writers import RunsCode, pixels, python2_pickle, python3_pickle, tar_gz, write_all
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from coterie.data import read, recognise
from coterie.data.readers.files import reading
from coterie.data.readers.unpickling import loads
from coterie.errors import CoterieError

Pickle = Callable[[np.ndarray, dict[str, list[int]]], bytes]

BATCHES = [*(f"data_batch_{number}" for number in range(1, 6)), "test_batch"]
IMAGES = {batch: pixels(4, 3072) for batch in BATCHES}
LABELS = {batch: [number, 1, 9, 0] for number, batch in enumerate(BATCHES)}


def cifar10(version: str) -> dict[str, bytes]:
    """The files of CIFAR-10, in one of three ways."""
    if version == "binary":
        rows = {b: np.column_stack([np.array(LABELS[b], np.uint8), IMAGES[b]]) for b in BATCHES}
        return {f"cifar-10-batches-bin/{batch}.bin": rows[batch].tobytes() for batch in BATCHES}
    write: Pickle = python2_pickle if version == "python 2" else python3_pickle
    return {f"cifar-10-batches-py/{batch}": write(IMAGES[batch], {"labels": LABELS[batch]}) for batch in BATCHES}


def assert_cifar10(path: Path) -> None:
    data = read(path)
    assert (data.name, data.classes, data.shape) == ("cifar10", 10, (3, 32, 32))
    assert np.array_equal(data.train.x.reshape(20, -1), np.concatenate([IMAGES[batch] for batch in BATCHES[:5]]))
    assert data.train.y.tolist() == [label for batch in BATCHES[:5] for label in LABELS[batch]]
    assert data.test is not None
    assert np.array_equal(data.test.x.reshape(4, -1), IMAGES["test_batch"])
    assert data.test.y.tolist() == LABELS["test_batch"]


@pytest.mark.parametrize("version", ["python 2", "python 3", "binary"])
def test_cifar10_in_a_folder_or_an_archive(tmp_path: Path, version: str) -> None:
    files = cifar10(version)
    folder = write_all(tmp_path / "unpacked", files)
    archive = tar_gz(tmp_path / "cifar-10.tar.gz", dict(reversed(files.items())))
    for place in (folder, folder / next(iter(files)), (folder / next(iter(files))).parent, archive):
        assert recognise(place).format == "cifar"
        assert_cifar10(place)


def test_the_archive_alone_in_a_folder_is_found(tmp_path: Path) -> None:
    (tmp_path / "cifar10").mkdir()
    tar_gz(tmp_path / "cifar10" / "cifar-10-python.tar.gz", cifar10("python 2"))
    assert_cifar10(tmp_path / "cifar10")


@pytest.mark.parametrize("binary", [False, True])
@pytest.mark.parametrize("packed", [False, True])
def test_cifar100_has_two_kinds_of_labels(tmp_path: Path, binary: bool, packed: bool) -> None:
    x, fine, coarse = pixels(5, 3072), [99, 0, 3, 7, 50], [19, 0, 1, 2, 3]
    files = {}
    for part in ("train", "test"):
        if binary:
            rows = np.column_stack([np.array(coarse, np.uint8), np.array(fine, np.uint8), x])
            files[f"cifar-100-binary/{part}.bin"] = rows.tobytes()
        else:
            files[f"cifar-100-python/{part}"] = python2_pickle(x, {"fine_labels": fine, "coarse_labels": coarse})
    place = tar_gz(tmp_path / "c.tar.gz", files) if packed else write_all(tmp_path, files)
    data = read(place)
    assert (data.name, data.classes, data.train.y.tolist()) == ("cifar100", 100, fine)
    assert np.array_equal(data.train.x, x.reshape(5, 3, 32, 32))
    data = read(place, labels="coarse")
    assert (data.classes, data.train.y.tolist()) == (20, coarse)
    with pytest.raises(CoterieError, match=r"labels = 'middle' is not valid"):
        read(place, labels="middle")


def batch(**changes: Any) -> bytes:
    content = {"data": pixels(4, 3072), "labels": [0, 1, 2, 3]} | changes
    return pickle.dumps({key: value for key, value in content.items() if value is not None}, protocol=4)


BROKEN = {
    "empty": (b"", "it ends before the pickle does"),
    "cut short": (python2_pickle(pixels(4, 3072), {"labels": [0] * 4})[:-900], "pickle"),
    "no pickle": (b"this is text", ""),
    "no dictionary": (pickle.dumps([1, 2, 3]), "it holds no dictionary"),
    "no images": (batch(data=None), "no array 'data' of bytes"),
    "images of another size": (batch(data=pixels(4, 784)), "no array 'data' of bytes"),
    "images of floats": (batch(data=np.zeros((4, 3072))), "no array 'data' of bytes"),
    "no labels": (batch(labels=None), "no list 'labels' of integers"),
    "labels of text": (batch(labels=["cat"] * 4), "no list 'labels' of integers"),
    "an array of objects": (batch(data=np.array([[None]])), "array of type 'O8': only numbers"),
    "a recursive list": (pickle.dumps((lambda a: a.append(a) or a)([])), "it holds no dictionary"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_broken_batches_are_refused(tmp_path: Path, case: str) -> None:
    content, reason = BROKEN[case]
    folder = write_all(tmp_path, cifar10("python 2") | {"cifar-10-batches-py/data_batch_3": content})
    with pytest.raises(CoterieError, match=rf"data_batch_3 cannot be read as CIFAR-10 files \(.*{reason}"):
        read(folder)


@pytest.mark.parametrize(
    ("labels", "message"),
    [([0, 1, 2], r"has 20 samples, but y_train has 19 labels"), ([0, 1, 2, 10], r"label 10, but there are 10 classes")],
)
def test_labels_that_do_not_fit_are_refused(tmp_path: Path, labels: list[int], message: str) -> None:
    with pytest.raises(CoterieError, match=message):
        read(write_all(tmp_path, cifar10("python 2") | {"cifar-10-batches-py/data_batch_5": batch(labels=labels)}))


def test_a_missing_batch_is_named(tmp_path: Path) -> None:
    files = cifar10("python 2")
    del files["cifar-10-batches-py/data_batch_4"]
    for place in (write_all(tmp_path / "folder", files), tar_gz(tmp_path / "a.tar.gz", files)):
        with pytest.raises(CoterieError, match=r"has no 'data_batch_4', which belongs to CIFAR-10 files"):
            read(place)


@pytest.mark.parametrize("content", [b"", bytes(3072), bytes(3073 * 2 - 1)])
def test_broken_binary_batches_are_refused(tmp_path: Path, content: bytes) -> None:
    folder = write_all(tmp_path, cifar10("binary") | {"cifar-10-batches-bin/test_batch.bin": content})
    with pytest.raises(CoterieError, match=r"test_batch\.bin cannot be read as CIFAR-10 files \(it has \d+ bytes"):
        read(folder)


@pytest.mark.parametrize("where", [0.0, 0.01, 0.5, 0.99])
def test_a_cut_archive_is_refused(tmp_path: Path, where: float) -> None:
    archive = tar_gz(tmp_path / "cifar-10-python.tar.gz", cifar10("python 2"))
    content = archive.read_bytes()
    archive.write_bytes(content[: int(where * len(content))])
    with pytest.raises(CoterieError, match=r"cifar-10-python\.tar\.gz"):
        read(archive)


def evil_pickles(proof: Path) -> dict[str, bytes]:
    """Pickles that make a file when they are loaded in the usual way, and others that try to get around a check."""
    command = f"touch {proof}".encode()
    return {
        "exec": pickle.dumps({b"data": RunsCode(proof), b"labels": [0]}),
        "exec in a list of labels": pickle.dumps({b"data": pixels(1, 3072), b"labels": [RunsCode(proof)]}, protocol=2),
        "os.system": b"cos\nsystem\n(X" + len(command).to_bytes(4, "little") + command + b"tR.",
        "posix.system, by a stack": b"\x80\x04\x8c\x05posix\x8c\x06system\x93\x8c" + bytes([len(command)]) + command
        + b"\x85R.",
        "an instance": b"(S'touch " + str(proof).encode() + b"'\nios\nsystem\n.",
        "a dotted name": b"\x80\x04\x8c\x05numpy\x8c\x13ndarray.__class__.x\x93.",
        "numpy's own loader": b"cnumpy\nload\n(X\x01\x00\x00\x00xtR.",
        "eval": b"c__builtin__\neval\n(X" + len(command).to_bytes(4, "little") + command + b"tR.",
    }  # fmt: skip


@pytest.mark.parametrize("case", evil_pickles(Path("proof")))
@pytest.mark.parametrize("packed", [False, True])
def test_a_pickle_that_would_run_code_is_refused_and_does_not(tmp_path: Path, case: str, packed: bool) -> None:
    proof = tmp_path / "proof"
    evil = evil_pickles(proof)[case]
    files = cifar10("python 2") | {"cifar-10-batches-py/data_batch_1": evil}
    place = tar_gz(tmp_path / "c.tar.gz", files) if packed else write_all(tmp_path / "c", files)
    with pytest.raises(
        CoterieError, match=r"data_batch_1 is refused as CIFAR-10 files: it wants to use .*nothing was run"
    ):
        read(place)
    assert not proof.exists()


def test_the_proof_would_be_there_if_the_code_had_run(tmp_path: Path) -> None:
    proof = tmp_path / "proof"
    pickle.loads(evil_pickles(proof)["exec"])
    assert proof.exists()


def test_a_pickle_cannot_change_what_stands_in_for_names() -> None:
    """BUILD sets attributes of whatever is on the stack, also of a function that a name was resolved to."""
    spoiled = b"\x80\x02cnumpy\ndtype\n(N}(X\x08\x00\x00\x00__name__X\x01\x00\x00\x00xutb."
    assert loads(spoiled).__name__ == "x"
    assert loads(spoiled[: spoiled.index(b"(")] + b".").__name__ != "x"
    assert loads(python2_pickle(pixels(1, 3), {}))[b"data"].shape == (1, 3)


def test_no_member_of_an_archive_is_written_anywhere(tmp_path: Path) -> None:
    inside = tmp_path / "inside"
    inside.mkdir()
    files = cifar10("python 2") | {"../escaped": b"x", "/tmp/coterie-escaped": b"x"}
    archive = tar_gz(inside / "cifar-10-python.tar.gz", files, links={"cifar-10-batches-py/link": "/etc/passwd"})
    before = sorted(tmp_path.rglob("*"))
    assert_cifar10(archive)
    assert sorted(tmp_path.rglob("*")) == before
    assert not Path("/tmp/coterie-escaped").exists()


def test_a_link_does_not_stand_in_for_a_batch(tmp_path: Path) -> None:
    files = cifar10("python 2")
    del files["cifar-10-batches-py/test_batch"]
    archive = tar_gz(tmp_path / "c.tar.gz", files, links={"cifar-10-batches-py/test_batch": "/etc/passwd"})
    with pytest.raises(CoterieError, match=r"has no 'test_batch'"):
        read(archive)


GOOD = python2_pickle(pixels(2, 6), {"labels": [1, 2]})


def test_a_memo_index_takes_no_memory() -> None:
    tracemalloc.start()
    loads(b"\x80\x02}r\xff\xff\xff\x7f.")  # LONG_BINPUT 2147483647
    assert tracemalloc.get_traced_memory()[1] < 1_000_000
    tracemalloc.stop()


@pytest.mark.integration
@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(changes=st.lists(st.tuples(st.integers(0, len(GOOD) - 1), st.integers(0, 255)), min_size=1, max_size=4))
def test_garbled_pickles_end_in_known_errors(changes: list[tuple[int, int]]) -> None:
    content = bytearray(GOOD)
    for where, value in changes:
        content[where] = value
    with contextlib.suppress(CoterieError), reading("it", "a pickle"):
        loads(content)
