"""Tables that a program has: data frames, Arrow's tables, Parquet files and Hugging Face's data sets say the same."""

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from coterie.data import Dataset, read, recognise
from coterie.data.in_memory import _parts_of, arrays_to_dataset, hold
from coterie.data.tables.arrow import inside
from coterie.data.tables.frames import tables_of
from coterie.errors import CoterieError

RNG = np.random.default_rng(0)
COLUMNS: dict[str, Any] = {
    "age": RNG.integers(18, 80, 60),
    "hours": RNG.normal(38, 5, 60).round(2),
    "job": RNG.choice(["cook", "clerk"], 60),
    "member": RNG.random(60) > 0.5,
    "label": RNG.choice(["yes", "no", "maybe"], 60),
}


def assert_alike(one: Dataset, other: Dataset) -> None:
    assert one.encoding is not None
    assert one.encoding == other.encoding
    assert one.class_names == other.class_names
    assert np.array_equal(one.train.x, other.train.x)
    assert np.array_equal(one.train.y, other.train.y)


def test_a_data_frame_is_what_its_csv_file_is(tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(COLUMNS)
    frame.to_csv(tmp_path / "t.csv", index=False)
    assert_alike(hold(frame).read(), read(tmp_path / "t.csv"))
    odd = frame.astype({"age": "Int64", "job": "category", "member": "boolean", "hours": "Float64"})
    assert_alike(hold(odd).read(), read(tmp_path / "t.csv"))


def test_a_function_may_return_a_data_frame_whose_label_is_called_so() -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(COLUMNS)
    assert_alike(arrays_to_dataset(frame, "mine"), hold(frame).read())
    both = arrays_to_dataset((frame[:40], frame[40:]), "mine")
    assert both.test is not None
    with pytest.raises(CoterieError, match="mine returned a table without one column that is called label: rename"):
        arrays_to_dataset(frame.rename(columns={"label": "answer"}), "mine")


def test_missing_values_of_a_data_frame_are_those_of_its_csv_file(tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(COLUMNS)
    frame.loc[3:5, "age"] = None
    frame.loc[7, "job"] = None
    frame.to_csv(tmp_path / "t.csv", index=False)
    assert_alike(hold(frame).read(missing="fill"), read(tmp_path / "t.csv", missing="fill"))
    with pytest.raises(CoterieError, match=r"'age' \(3\), 'job' \(1\)"):
        hold(frame).read()


def test_columns_that_are_no_inputs_are_named() -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(COLUMNS).assign(when=pandas.Timestamp("2026-01-01"), more=[[1]] * 60)
    with pytest.raises(CoterieError, match=r"'when' holds values of type datetime64.*drop=when"):
        hold(frame).read(drop="more")
    with pytest.raises(CoterieError, match="'more' holds values of type object"):
        hold(frame).read(drop="when")
    with pytest.raises(CoterieError, match="two columns of the data frame have one name"):
        tables_of(pandas.concat([frame, frame], axis=1))


def test_a_pair_of_data_frames_is_to_train_and_test_on() -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(COLUMNS)
    held = hold((frame[:40], frame[40:]))
    data = held.read()
    assert data.test is not None
    assert (len(data.train), len(data.test)) == (40, 20)
    assert held.name != hold(frame).name


def test_test_rows_of_a_data_frame_are_never_left_out_silently() -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(COLUMNS).assign(Part=["train", "train", "test"] * 20)
    data = hold(frame).read(test="part")  # letters as for the label
    assert data.test is not None
    assert (len(data.train), len(data.test), data.shape) == (40, 20, hold(frame).read(drop="Part").shape)
    with pytest.raises(CoterieError, match=r"test = 'prat' is not a column: did you mean 'Part'\?"):
        hold(frame).read(test="prat")
    with pytest.raises(CoterieError, match=r"test = 0\.2, but it has test rows of its own: leave test out"):
        hold((frame[:40], frame[40:])).read(test=0.2)


def test_names_follow_from_the_content() -> None:
    pandas = pytest.importorskip("pandas")
    one, same = (hold(pandas.DataFrame(COLUMNS)) for _ in range(2))
    assert one is same
    other = hold(pandas.DataFrame({**COLUMNS, "job": COLUMNS["job"][::-1]}))
    renamed = hold(pandas.DataFrame(COLUMNS).rename(columns={"age": "years"}))
    assert len({one.name, other.name, renamed.name}) == 3


def test_the_name_of_long_texts_takes_no_room_beyond_them() -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"text": ["x" * 10**5, "0", "1", "2"], "label": ["a", "b"] * 2})
    tables = tables_of(frame)
    assert tables is not None
    assert sum(array.nbytes for array in _parts_of(tables).values()) < 1000
    assert hold(frame).name != hold(frame.assign(text=["x" * 10**5 + "0", "", "1", "2"])).name


def test_a_parquet_file_is_what_the_csv_file_is(tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow", reason="Parquet needs pyarrow")
    frame = pandas.DataFrame(COLUMNS)
    frame.to_csv(tmp_path / "t.csv", index=False)
    frame.to_parquet(tmp_path / "t.parquet")
    assert recognise(tmp_path / "t.parquet").format == "table"
    assert_alike(read(tmp_path / "t.parquet"), read(tmp_path / "t.csv"))
    damaged = (tmp_path / "t.parquet").read_bytes()
    (tmp_path / "cut.parquet").write_bytes(damaged[: len(damaged) // 2])
    with pytest.raises(CoterieError, match=r"cut\.parquet cannot be read as a Parquet file"):
        read(tmp_path / "cut.parquet")


def test_parquet_without_pyarrow_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "pyarrow", None)
    (tmp_path / "t.parquet").write_bytes(b"PAR1")
    with pytest.raises(CoterieError, match=r"pip install 'coterie\[parquet\]'"):
        read(tmp_path / "t.parquet")


def test_a_saved_data_set_without_the_package_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "datasets", None)
    (tmp_path / "state.json").write_text("{}")
    (tmp_path / "dataset_info.json").write_text("{}")
    with pytest.raises(CoterieError, match=r"pip install 'coterie\[huggingface\]'"):
        read(tmp_path)


def test_a_hugging_face_data_set_loaded_or_saved_is_what_the_csv_file_is(tmp_path: Path) -> None:
    datasets = pytest.importorskip("datasets", reason="needs Hugging Face's datasets")
    pandas = pytest.importorskip("pandas")
    pandas.DataFrame(COLUMNS).to_csv(tmp_path / "t.csv", index=False)
    loaded = datasets.Dataset.from_dict({name: values.tolist() for name, values in COLUMNS.items()})
    loaded.save_to_disk(tmp_path / "saved")
    wanted = read(tmp_path / "t.csv")
    assert_alike(hold(loaded).read(), wanted)
    assert_alike(read(tmp_path / "saved"), wanted)
    chosen = hold(loaded.select(range(59, -1, -1))).read()
    assert np.array_equal(chosen.train.x, wanted.train.x[::-1])


def test_labels_of_hugging_face_keep_their_names_and_splits_their_parts(tmp_path: Path) -> None:
    datasets = pytest.importorskip("datasets", reason="needs Hugging Face's datasets")
    features = datasets.Features(
        {
            "x": datasets.Array2D((4, 4), "uint8"),
            "who": datasets.Value("string"),
            "label": datasets.ClassLabel(names=["dog", "cat"]),
        }
    )
    x = RNG.integers(0, 256, (24, 4, 4), dtype=np.uint8)
    rows = {"x": x.tolist(), "who": ["a", "b", "c"] * 8, "label": [0, 1] * 12}
    whole = datasets.Dataset.from_dict(rows, features=features)
    both = datasets.DatasetDict({"train": whole.select(range(20)), "test": whole.select(range(20, 24))})
    both.save_to_disk(tmp_path / "both")
    for data in (hold(both).read(client="who"), read(tmp_path / "both", client="who")):
        assert data.class_names == ("cat", "dog")
        assert data.train.y.tolist() == [1, 0] * 10
        assert np.array_equal(data.train.x[:, 0], x[:20])
        assert data.train.x.dtype == np.uint8
        assert data.test is not None
        assert np.array_equal(data.test.x[:, 0], x[20:])
        assert data.users is not None
        assert data.users.tolist() == ([0, 1, 2] * 8)[:20]
    with pytest.raises(CoterieError, match=r"choose one, inputs=x"):
        hold(both).read()


def test_images_of_hugging_face_are_read_from_memory() -> None:
    datasets = pytest.importorskip("datasets", reason="needs Hugging Face's datasets")
    image = pytest.importorskip("PIL.Image")
    pictures, packed = RNG.integers(0, 256, (6, 5, 5), dtype=np.uint8), []
    for picture in pictures:
        content = io.BytesIO()
        image.fromarray(picture).save(content, "PNG")
        packed.append({"bytes": content.getvalue(), "path": None})
    features = datasets.Features({"image": datasets.Image(), "label": datasets.Value("int64")})
    given = datasets.Dataset.from_dict({"image": packed, "label": [0, 1] * 3}, features=features)
    assert np.array_equal(hold(given).read().train.x[:, 0], pictures)
    assert hold(given).read(size=3).shape == (1, 3, 3)


@pytest.mark.parametrize("filename", ["../../elsewhere.arrow", "/etc/passwd"])
def test_a_saved_folder_that_leads_elsewhere_is_refused(tmp_path: Path, filename: str) -> None:
    datasets = pytest.importorskip("datasets", reason="needs Hugging Face's datasets")
    datasets.Dataset.from_dict({"x": [1, 2], "label": [0, 1]}).save_to_disk(tmp_path / "saved")
    state = tmp_path / "saved" / "state.json"
    state.write_text(state.read_text().replace("data-00000-of-00001.arrow", filename))
    with pytest.raises(CoterieError, match="it names a file outside of it"):
        read(tmp_path / "saved")


@pytest.mark.parametrize("content", ["null", "[]", '{"_data_files": 3}', '{"_data_files": ["a"]}'])
def test_a_saved_folder_that_was_made_up_is_refused(tmp_path: Path, content: str) -> None:
    pytest.importorskip("datasets", reason="needs Hugging Face's datasets")
    (tmp_path / "state.json").write_text(content)
    (tmp_path / "dataset_info.json").write_text("{}")
    with pytest.raises(CoterieError, match="cannot be read as a data set of Hugging Face"):
        read(tmp_path)


def test_a_file_of_others_names_images_in_its_own_folder_only(tmp_path: Path) -> None:
    assert inside("a/b.png", tmp_path) == tmp_path / "a" / "b.png"
    assert inside("/elsewhere/b.png", None) == Path("/elsewhere/b.png")  # what a program has is its own
    for path in ("/etc/passwd", "../b.png", "a/../../b.png"):
        with pytest.raises(ValueError, match="names an image outside of its folder"):
            inside(path, tmp_path)


def test_images_of_a_parquet_file_are_bytes_or_files_beside_it(tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow", reason="Parquet needs pyarrow")
    parquet, image = pytest.importorskip("pyarrow.parquet"), pytest.importorskip("PIL.Image")
    image.fromarray(np.zeros((3, 3), np.uint8)).save(tmp_path / "a.png")

    def reads(cell: dict[str, Any]) -> Dataset:
        parquet.write_table(pyarrow.table({"image": [cell] * 4, "label": [0, 1] * 2}), tmp_path / "t.parquet")
        return read(tmp_path / "t.parquet")

    assert reads({"bytes": None, "path": "a.png"}).shape == (1, 3, 3)
    assert reads({"bytes": (tmp_path / "a.png").read_bytes(), "path": None}).shape == (1, 3, 3)
    with pytest.raises(CoterieError, match="outside of its folder"):
        reads({"bytes": None, "path": str(tmp_path.parent / "a.png")})
    with pytest.raises(CoterieError, match="'image' holds values of type struct"):
        reads({"bytes": 7, "path": "a.png"})
