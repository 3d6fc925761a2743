"""What a path is, told by what is there; and the order in which readers are asked."""

import pickle
from pathlib import Path
from typing import Annotated

import numpy as np
import pytest
from dataset_writers import pixels, write_idx_set

from coterie.data import FORMATS, Dataset, check, load, read, reader, recognise
from coterie.data.readers.arrays import dataset_from_arrays
from coterie.data.readers.files import Files, look
from coterie.errors import CoterieError


def write_npz(path: Path) -> Path:
    with path.open("wb") as file:
        np.savez(file, x_train=pixels(40, 4, 4), y_train=np.arange(40) % 2)
    return path


def test_every_format_describes_itself_and_its_options() -> None:
    known = {
        "cifar",
        "celeba",
        "idx",
        "images",
        "leaf",
        "npz",
        "plays",
        "roles",
        "stl10",
        "svhn",
        "usps-hdf5",
        "usps-libsvm",
    }
    assert known <= set(FORMATS)
    for name in FORMATS:
        assert FORMATS.summary(name).endswith(".")
        assert all(option.help.endswith(".") for option in FORMATS.options(name).values())


def test_an_npz_file_is_known_by_content_under_any_name(tmp_path: Path) -> None:
    assert recognise(write_npz(tmp_path / "samples.data")).format == "npz"
    assert len(read(tmp_path / "samples.data").train) == 40


@pytest.mark.parametrize(
    "content", [b"", b"text", b"\x1f\x8b", b"BZh9", b"PK\x03\x04", b"\x80\x04.", b"{}", b"\0" * 600]
)
def test_anything_else_is_not_known(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "file.xyz").write_bytes(content)
    for place in (tmp_path / "file.xyz", tmp_path):
        with pytest.raises(
            CoterieError, match=r"is not a data set that Coterie can read \(.*\): save your arrays with np\.savez"
        ):
            recognise(place)


def test_a_pickle_of_something_else_is_not_opened(tmp_path: Path) -> None:
    for name in ("train", "test"):
        (tmp_path / name).write_bytes(pickle.dumps({"a": 1}))
    assert recognise(tmp_path).format == "cifar"
    with pytest.raises(CoterieError, match=r"no array 'data'"):
        read(tmp_path)
    (tmp_path / "train").write_text("lines of text")
    with pytest.raises(CoterieError, match="is not a data set"):
        recognise(tmp_path)


def test_several_data_sets_in_a_folder_need_a_choice(tmp_path: Path) -> None:
    write_npz(tmp_path / "a.npz")
    assert recognise(tmp_path).files.place == tmp_path / "a.npz"
    write_npz(tmp_path / "b.npz")
    with pytest.raises(CoterieError, match=r"holds several data sets \(a\.npz, b\.npz\): give the path of one"):
        recognise(tmp_path)


def test_hidden_files_and_deep_folders_are_not_looked_at(tmp_path: Path) -> None:
    write_idx_set(tmp_path / ".hidden", {"x_train": pixels(3, 4, 4), "y_train": np.zeros(3, np.uint8)})
    write_idx_set(tmp_path / "a/b/c/d", {"x_train": pixels(3, 4, 4), "y_train": np.zeros(3, np.uint8)})
    assert look(tmp_path).names == ()


def test_paths_are_data_sets_with_options(tmp_path: Path) -> None:
    from PIL import Image

    for label in "ab":
        (tmp_path / "photos" / label).mkdir(parents=True)
        for number in range(20):
            Image.fromarray(pixels(9, 9, 3)).save(tmp_path / "photos" / label / f"{number}.png")
    path = str(tmp_path / "photos")
    data = load(path, {"size": 3, "grey": True}, ("label-skew", {"rho": 0.5}), 4, 0)
    assert (data.name, data.shape, data.classes) == ("photos", (1, 3, 3), 2)
    with pytest.raises(CoterieError, match=r"format 'images' has no option 'colour'"):
        check(path, {"colour": True})
    with pytest.raises(CoterieError, match=r"format 'images': size = 0 is not valid"):
        check(path, {"size": 0})


def test_a_users_own_reader_is_asked_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    list(FORMATS)
    monkeypatch.setattr(FORMATS, "_items", dict(FORMATS._items))

    @reader("rows", lambda files: files.place.suffix == ".rows")
    def rows_of_numbers(
        files: Files, name: str | None = None, *, column: Annotated[int, "Which has the labels."] = -1
    ) -> Dataset:
        """A table of numbers."""
        rows = np.loadtxt(files.place, delimiter=",")
        arrays = {"x_train": np.delete(rows, column, axis=1), "y_train": rows[:, column].astype(int)}
        return dataset_from_arrays(name or files.label, arrays, str(files.place))

    np.savetxt(
        tmp_path / "mine.rows",
        np.column_stack([np.arange(60) % 3, np.random.default_rng(0).random((60, 4))]),
        delimiter=",",
    )
    data = load(str(tmp_path / "mine.rows"), {"column": 0}, clients=3)
    assert (data.name, data.shape, data.classes) == ("mine", (4,), 3)


@pytest.mark.parametrize("kind", ["file", "folder"])
def test_what_may_not_be_read_says_so(tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "own.npz"
    path.write_bytes(b"not an archive, or zipfile would open it by itself")

    def forbidden(self: Path, *arguments: object, **options: object) -> None:
        raise PermissionError(13, "Permission denied", str(self))

    monkeypatch.setattr(Path, "open", forbidden)
    with pytest.raises(PermissionError):
        recognise(path if kind == "file" else tmp_path)
