"""A site's share of the classes that a federation agreed on: labels and names mean the same at every site."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from dataset_writers import idx as idx_bytes
from dataset_writers import pixels
from PIL import Image

from coterie.data import read, read_share
from coterie.errors import CoterieError

NAMES = ["cat", "dog", "fox"]


def save_npz(folder: Path, y: list[int], y_test: list[int] | None) -> Path:
    arrays = {"x_train": np.zeros((len(y), 4, 4), np.uint8), "y_train": np.array(y)}
    if y_test is not None:
        arrays |= {"x_test": np.zeros((len(y_test), 4, 4), np.uint8), "y_test": np.array(y_test)}
    np.savez(folder / "mine.npz", **arrays)
    return folder / "mine.npz"


def save_idx(folder: Path, y: list[int], y_test: list[int] | None) -> Path:
    for part, labels in (("train", y), ("t10k", y_test)):
        if labels is not None:
            images = np.zeros((len(labels), 4, 4), np.uint8)
            (folder / f"{part}-images-idx3-ubyte").write_bytes(idx_bytes(images))
            (folder / f"{part}-labels-idx1-ubyte").write_bytes(idx_bytes(np.array(labels, np.uint8)))
    return folder


def save_leaf(folder: Path, y: list[int], y_test: list[int] | None) -> Path:
    labels = y + (y_test or [])  # its test part is pooled with the rest
    users = {
        "users": ["a"],
        "num_samples": [len(labels)],
        "user_data": {"a": {"x": [[0.5, 1.5]] * len(labels), "y": labels}},
    }
    (folder / "mine.json").write_text(json.dumps(users))
    return folder / "mine.json"


FILES = pytest.mark.parametrize("save", [save_npz, save_idx, save_leaf])


@FILES
@pytest.mark.parametrize(
    ("y", "y_test"),
    [([3, 4, 3, 4], None), ([7] * 5, None), ([0, 9], None), ([0, 1, 2], [5]), ([99, 0], [40]), ([2, 3], [0])],
)
def test_any_of_the_classes_may_be_missing(
    tmp_path: Path, save: Callable[[Path, list[int], list[int] | None], Path], y: list[int], y_test: list[int] | None
) -> None:
    data = read_share(save(tmp_path, y, y_test), 100)
    assert data.classes == 100
    assert [*data.train.y, *(data.test.y if data.test else ())] == y + (y_test or [])


@FILES
def test_no_other_label_may_be_there(tmp_path: Path, save: Callable[[Path, list[int], list[int] | None], Path]) -> None:
    with pytest.raises(CoterieError, match=r"y_train holds the label 10, but there are 10 classes, 0 to 9"):
        read_share(save(tmp_path, [3, 10], None), 10)
    with pytest.raises(CoterieError, match=r"y_(test|train) holds the label 12, but there are 10 classes, 0 to 9"):
        read_share(save(tmp_path, [3, 4], [12]), 10)


@FILES
def test_pooled_files_are_checked_as_ever(
    tmp_path: Path, save: Callable[[Path, list[int], list[int] | None], Path]
) -> None:
    with pytest.raises(CoterieError, match=r"start at 3, but must start at 0: subtract 3"):
        read(save(tmp_path, [3, 4], None))


def save_images(folder: Path, *classes: str) -> Path:
    for number, name in enumerate(classes):
        for copy in range(2):
            path = folder / name / f"{copy}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            Image.fromarray(np.full((4, 4), 10 * number + copy, np.uint8)).save(path)
    return folder


@pytest.mark.parametrize(
    ("folders", "labels"), [(("cat", "dog"), [0, 0, 1, 1]), (("dog", "fox"), [1, 1, 2, 2]), (("dog",), [1, 1])]
)
def test_a_folder_of_images_has_the_number_that_its_name_has(
    tmp_path: Path, folders: tuple[str, ...], labels: list[int]
) -> None:
    data = read_share(save_images(tmp_path, *folders), 3, NAMES)
    assert (data.train.y.tolist(), data.classes) == (labels, 3)


def test_the_order_of_the_names_counts(tmp_path: Path) -> None:
    data = read_share(save_images(tmp_path, "cat", "dog"), 3, ["fox", "dog", "cat"])
    assert data.train.y.tolist() == [2, 2, 1, 1]
    assert data.train.x[:, 0, 0, 0].tolist() == [0, 1, 10, 11]


def test_a_class_may_be_in_the_test_part_only(tmp_path: Path) -> None:
    save_images(tmp_path / "train", "dog")
    save_images(tmp_path / "test", "fox", "dog")
    data = read_share(tmp_path, 3, NAMES)
    assert data.test is not None
    assert (data.train.y.tolist(), data.test.y.tolist()) == ([1, 1], [1, 1, 2, 2])
    with pytest.raises(CoterieError, match="is in the test part only"):
        read(tmp_path)


@pytest.mark.parametrize("part", ["", "train", "test"])
def test_an_unknown_folder_is_refused(tmp_path: Path, part: str) -> None:
    save_images(tmp_path / "train" if part else tmp_path, "dog")
    save_images(tmp_path / part, "foxes")
    with pytest.raises(CoterieError, match=r"no class 'foxes': rename .* class_names; did you mean 'fox'\?"):
        read_share(tmp_path, 3, NAMES)


@pytest.mark.parametrize("folders", [("cat", "dog"), ("dog",)])
def test_folders_of_images_need_the_names(tmp_path: Path, folders: tuple[str, ...]) -> None:
    save_images(tmp_path, *folders)
    (tmp_path / "dog" / "notes.txt").write_text("not an image")
    with pytest.raises(CoterieError) as error:
        read_share(tmp_path, 3)
    wanted = ", ".join(f'"{name}"' for name in folders)
    assert f"add class_names = [{wanted}, ...], the names of all 3 classes, to [samples]" in str(error.value)
    assert read_share(tmp_path, 3, NAMES).classes == 3


def test_other_formats_need_no_names(tmp_path: Path) -> None:
    assert read_share(save_npz(tmp_path, [1, 2], None), 3, NAMES).train.y.tolist() == [1, 2]
    Image.fromarray(pixels(4, 4)).save(tmp_path / "figure.png")  # beside a data set, pictures are no class
    (tmp_path / "figures").mkdir()
    Image.fromarray(pixels(4, 4)).save(tmp_path / "figures" / "a.png")
    assert read_share(tmp_path, 3, NAMES).train.y.tolist() == [1, 2]
    (tmp_path / "other.npz").write_bytes((tmp_path / "mine.npz").read_bytes())
    with pytest.raises(CoterieError, match="holds several data sets"):
        read_share(tmp_path, 3, NAMES)


def test_what_is_nothing_stays_nothing(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("nothing")
    with pytest.raises(CoterieError, match="is not a data set that Coterie can read"):
        read_share(tmp_path, 3, NAMES)
    with pytest.raises(CoterieError, match="there is no file or folder"):
        read_share(tmp_path / "none", 3)


def test_a_table_of_a_site_says_what_to_write_into_its_file(tmp_path: Path) -> None:
    rows = "".join(f"{n},{n % 2},{'ab'[n % 2]}\n" for n in range(40))
    (tmp_path / "visits.csv").write_text(f"age,pulse,state\n{rows}")
    with pytest.raises(CoterieError, match=r'inputs = \[\.\.\.\]\} into site\.toml.*"age", "pulse", "state"'):
        read_share(tmp_path / "visits.csv", 2, ["a", "b"])
    options = {"label": "state", "inputs": ["pulse", "age"]}
    made = read_share(tmp_path / "visits.csv", 2, ["a", "b"], options)
    assert made.train.x[3].tolist() == [1.0, 3.0]
