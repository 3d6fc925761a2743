"""From rows to samples: roles of columns, classes, clients, test rows, missing values, inputs."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from coterie.data import Dataset, load, read
from coterie.data.readers.tables import read_table
from coterie.data.tables.encoding import TableEncoding
from coterie.errors import CoterieError

PEOPLE = "age,job,town,income\n" + "".join(
    f"{20 + k % 31},{('cook', 'nurse', 'clerk')[k % 3]},{('Oslo', 'Graz')[k % 2]},{('low', 'high')[k % 5 > 1]}\n"
    for k in range(120)
)
Write = Callable[..., Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def write(text: str = PEOPLE, name: str = "people.csv") -> Path:
        (tmp_path / name).write_text(text)
        return tmp_path / name

    return write


def refusal(path: Path, **options: Any) -> str:
    with pytest.raises(CoterieError) as raised:
        read(path, **options)
    return str(raised.value)


def test_inputs_are_those_of_scikit_learn(write: Write) -> None:
    pandas = pytest.importorskip("pandas")
    from sklearn.compose import make_column_transformer
    from sklearn.preprocessing import OneHotEncoder, StandardScaler

    frame = pandas.read_csv(write())
    data = read(write(), label="income")
    wanted = make_column_transformer(
        (StandardScaler(), ["age"]), (OneHotEncoder(sparse_output=False), ["job", "town"])
    ).fit_transform(frame)
    assert data.normalisation is not None
    assert np.allclose(data.normalisation(data.train.x), wanted, atol=1e-6)
    assert data.train.x[:, 0].tolist() == frame["age"].tolist()  # raw inputs stay in their units
    assert data.encoding is not None
    assert data.encoding.features == ("age", "job=clerk", "job=cook", "job=nurse", "town=Graz", "town=Oslo")
    assert data.class_names == ("high", "low")
    assert [data.class_names[y] for y in data.train.y] == frame["income"].tolist()
    assert any("job (3), town (2)" in note for note in data.notes)


def test_the_mean_is_that_of_training_rows_only(write: Write) -> None:
    data = read(write("x,part,label\n1,train,a\n3,train,b\n100,test,a\n"), test="part")
    assert data.test is not None
    assert (data.test.x.tolist(), data.test.y.tolist()) == ([[100]], [0])
    assert data.normalisation is not None
    assert data.normalisation(data.train.x).ravel().tolist() == [-1, 1]


@pytest.mark.parametrize(
    ("values", "names"),
    [
        (["10", "2", "2"], ("2", "10")),
        (["True", "False", "True"], ("False", "True")),
        (["b", "a", "b"], ("a", "b")),
        (["-1", "1", "-1"], ("-1", "1")),
        (["1.0", "0.0", "1.0"], ("0", "1")),
    ],
)
def test_classes_are_numbered_in_the_order_of_their_names(
    write: Write, values: list[str], names: tuple[str, ...]
) -> None:
    data = read(write("x,label\n" + "".join(f"{k},{value}\n" for k, value in enumerate(values))))
    assert data.class_names == names
    assert data.train.y.tolist() == [names.index(str(int(float(v))) if "." in v else v) for v in values]
    assert any("taken for classes" in note for note in data.notes) == (values[0] == "1.0")


def test_a_label_with_fractions_is_a_number_to_predict_and_no_class(write: Write) -> None:
    path = write("x,label\n1,0.5\n2,1.5\n")
    made = read(path)
    assert (made.train.y.tolist(), made.classes, made.class_names) == ([0.5, 1.5], 1, ())
    assert "a quantity and not a class" in refusal(path, class_names=["0.5", "1.5"])
    with pytest.raises(CoterieError, match="a quantity and not a class: to predict numbers write --metric mae"):
        load(str(path))


def test_the_label_goes_by_its_name_or_must_be_named(write: Write) -> None:
    assert "say which column is the label, label=NAME: there are age, job, town, income" in refusal(write())
    assert "did you mean 'income'" in refusal(write(), label="incone")
    assert read(write(), label="Income").classes == 2
    assert read(write(PEOPLE.replace("income", "Target"))).classes == 2


def test_a_client_column_makes_a_client_of_each_value(write: Write) -> None:
    path = write()
    data = load(str(path), {"label": "income", "client": "town"})
    assert data.clients == 2
    assert data.shape == (4,)  # neither label nor client is an input
    pooled = read(path, label="income", client="town")
    assert pooled.users is not None
    assert pooled.users.tolist() == [1, 0] * 60
    assert load(str(path), {"label": "income", "client": "town"}, ("dirichlet", {"alpha": 1.0}), 3).clients == 3


def test_all_clients_are_taken_however_many(write: Write) -> None:
    rows = "".join(f"{k},{'ab'[k // 130 % 2]},site{k % 130}\n" for k in range(130 * 20))
    data = load(str(write("x,label,site\n" + rows)), {"client": "site"})
    assert data.clients == 130


def test_a_group_column_serves_by_attribute(write: Write) -> None:
    partition = ("by-attribute", {"attributes": "Oslo+Graz"})
    data = load(str(write()), {"label": "income", "group": "town"}, partition, 4)
    assert data.true_groups is not None
    assert sorted(data.true_groups.tolist()) == [0, 0, 1, 1]
    assert data.encoding is not None
    assert data.encoding.features == ("age", "job=clerk", "job=cook", "job=nurse")


def test_columns_can_be_left_out_chosen_and_taken_for_categories(write: Write) -> None:
    path = write("zip,age,b,label\n10,1,2,x\n20,3,4,y\n10,5,6,x\n")

    def features(**options: Any) -> tuple[str, ...]:
        encoding = read(path, **options).encoding
        assert encoding is not None
        return encoding.features

    assert features(drop="zip+b") == ("age",)
    assert features(inputs=["b", "age"]) == ("b", "age")
    assert features(categories="zip", drop=["b"]) == ("zip=10", "zip=20", "age")
    assert "drop = 'ag' is not a column: did you mean 'age'?" in refusal(path, drop="ag")
    assert "no column to learn from" in refusal(path, drop="zip+age+b")
    assert "can't be something else" in refusal(path, client="label")


def test_missing_values_are_refused_with_columns_and_counts_unless_told(write: Write) -> None:
    path = write("x,job,label\n1,a,u\n,b,v\n3,,u\n8,b,v\n")
    said = refusal(path)
    assert "'x' (1), 'job' (1)" in said
    assert "missing=drop" in said
    assert "missing=fill" in said
    dropped = read(path, missing="drop")
    assert dropped.train.x[:, 0].tolist() == [1, 8]
    assert "2 of 4 train rows have missing values" in " ".join(dropped.notes)
    filled = read(path, missing="fill")
    assert filled.train.x.tolist() == [[1, 1, 0, 0], [3, 0, 1, 0], [3, 0, 0, 1], [8, 0, 1, 0]]
    assert filled.encoding is not None
    assert filled.encoding.features == ("x", "job=a", "job=b", "job=(missing)")


def test_a_text_that_only_test_or_new_rows_miss_counts_as_none(write: Write) -> None:
    path = write("x,job,part,label\n1,a,train,u\n2,b,train,v\n3,,test,u\n,c,test,v\n")
    data = read(path, test="part", missing="fill")
    assert data.test is not None
    assert data.test.x.tolist() == [[3, 0, 0], [1.5, 0, 0]]
    assert any("2 rows have values that no training row has ('(missing)', 'c'), and count" in n for n in data.notes)
    assert data.encoding is not None
    new, notes = data.encoding.encode(read_table(write("x,job\n5,\n6,a\n", "new.csv")), "new.csv")
    assert new.tolist() == [[5, 0, 0], [6, 1, 0]]
    assert "column 'job': 1 rows have values that no training row has ('(missing)')" in notes[0]
    assert "say what to do, missing=drop" in refusal(path, test="part")


def test_missing_labels_are_never_filled(write: Write) -> None:
    path = write("x,label\n1,u\n2,\n3,v\n")
    assert "can't be filled in: use missing=drop" in refusal(path, missing="fill")
    assert len(read(path, missing="drop").train) == 2


def test_missing_values_of_columns_that_are_left_out_do_not_matter(write: Write) -> None:
    assert len(read(write("x,z,label\n1,,u\n2,3,v\n"), drop="z").train) == 2


@pytest.mark.parametrize("test", [0.25, "more.csv", "part"])
def test_rows_to_test_on_are_a_share_a_file_or_those_of_a_column(write: Write, test: float | str) -> None:
    rows = [f"{k},{'ab'[k % 2]},{('train', 'train', 'train', 'Test')[k % 4]}" for k in range(40)]
    write("x,label,part\n7,b,train\n", "more.csv")
    data = read(write("x,label,part\n" + "\n".join(rows)), test=test, drop=None if test == "part" else "part")
    assert data.test is not None
    assert (len(data.train), len(data.test)) == {0.25: (30, 10), "more.csv": (40, 1), "part": (30, 10)}[test]
    if test == 0.25:
        assert sorted([*data.train.x.ravel(), *data.test.x.ravel()]) == list(range(40))
    if test == "part":
        assert data.test.x.ravel().tolist() == list(range(3, 40, 4))


def test_test_rows_need_the_label_and_the_inputs_only(write: Write) -> None:
    path = write()
    write("income,town,age,job\nlow,Oslo,30,cook\n", "more.csv")
    data = read(path, label="income", inputs="age+job", client="town", group="town", test="more.csv")
    write("income,age,job\nlow,30,cook\n", "fewer.csv")
    fewer = read(path, label="income", inputs="age+job", client="town", group="town", test="fewer.csv")
    assert data.test is not None
    assert fewer.test is not None
    assert np.array_equal(data.test.x, fewer.test.x)
    assert "there is no column 'town' in the test rows: there are: age, income, job" in refusal(
        path, label="income", test="fewer.csv"
    )
    write("age,job,town,incom\n30,cook,Oslo,low\n", "unlabelled.csv")
    assert "no column 'income' in the test rows: did you mean 'incom'?" in refusal(
        path, label="income", test="unlabelled.csv"
    )


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"test": 1.5}, "give a share between 0 and 1"),
        ({"test": "nowhere.csv"}, "neither a column nor a file beside it"),
        ({"test": "job"}, "should say train or test"),
    ],
)
def test_impossible_test_rows_are_refused(write: Write, options: dict[str, Any], reason: str) -> None:
    assert reason in refusal(write(), label="income", **options)


def test_validation_rows_are_left_out_where_there_are_test_rows(write: Write) -> None:
    text = "x,s,label\n1,train,a\n2,train,b\n3,test,a\n4,val,b\n"
    data = read(write(text), test="s")
    assert data.test is not None
    assert data.test.x.ravel().tolist() == [3]
    assert "1 rows of 's' for validation are left out" in data.notes
    alone = read(write(text.replace("test", "val")), test="s")
    assert alone.test is not None
    assert alone.test.x.ravel().tolist() == [3, 4]


def test_a_class_or_category_that_only_test_rows_have(write: Write) -> None:
    text = "job,part,label\ncook,train,a\nclerk,train,b\nmayor,test,a\n"
    data = read(write(text), test="part")
    assert data.test is not None
    assert data.test.x.tolist() == [[0, 0]]
    assert any("('mayor'), and count as none" in note for note in data.notes)
    assert "has the class 'c' in test rows, but no training row has it" in refusal(
        write(text.replace("mayor,test,a", "cook,test,c")), test="part"
    )


def test_texts_that_are_no_categories_are_refused_with_what_is_odd(write: Write) -> None:
    names = "".join(f"person {k},1,{'ab'[k % 2]}\n" for k in range(150))
    assert "'name' has 150 different texts" in refusal(write("name,x,label\n" + names))
    numbers = "".join(f"{k / 7},{'ab'[k % 2]}\n" for k in range(150)) + "unknown,a\n"
    assert "all but 1 are numbers, not 'unknown'" in refusal(write("x,label\n" + numbers))
    commas = "".join(f'"{k},5";{"ab"[k % 2]}\n' for k in range(150))
    assert "fractions are written with a point" in refusal(write("x;label\n" + commas))


def test_infinite_numbers_are_refused_by_column(write: Write) -> None:
    assert "column 'x' has infinite values" in refusal(write("x,label\ninf,a\n1,b\n"))


def test_the_index_that_pandas_writes_is_no_input(write: Write) -> None:
    for name in ("", "Unnamed: 0", "__index_level_0__"):
        for first in (0, 7):  # rows may have been shuffled or left out
            path = write(f"{name},x,label\n{first},5,a\n1,7,b\n2,5,a\n")
            data = read(path)
            assert data.shape == (1,)
            assert f"column '{name}', the index that pandas writes, is left out: inputs can name it" in data.notes
            assert read(path, inputs=[name, "x"]).shape == (2,)
    assert not any("index" in note for note in read(write(",x,label\n3,5,a\n1,7,b\n"), drop=[""]).notes)
    numbered = read(write("id,x,label\n1,5,a\n2,7,b\n3,5,a\n"))
    assert "column 'id' only numbers the rows: drop=id leaves it out" in numbered.notes


def test_whole_numbers_too_large_to_tell_apart_name_no_clients(write: Write) -> None:
    path = write(f"user,x,label\n{2**53},1,a\n{2**53 + 1},2,b\n")
    assert "too large to tell apart" in refusal(path, client="user")


def test_an_encoding_survives_being_stored() -> None:
    encoding = read_encoding()
    assert TableEncoding.from_json(encoding.to_json()) == encoding


def read_encoding() -> TableEncoding:
    from coterie.data.tables.encoding import EncodedColumn

    return TableEncoding("y", (EncodedColumn("a", fill=1.5), EncodedColumn("b", ("u", "v"))))


@pytest.mark.parametrize(
    "stored",
    [
        {"label": 3, "columns": [["a", [], None]]},
        {"label": "y", "columns": []},
        {"label": "y", "columns": [["a", [1], None]]},
        {"label": "y", "columns": [["a", [], "b"]]},
        {"label": "y", "columns": [[7, [], None]]},
    ],
)
def test_a_stored_encoding_that_was_made_up_is_refused(stored: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="table"):
        TableEncoding.from_json(stored)


def test_sites_must_name_their_columns_and_have_no_categories(write: Write) -> None:
    from coterie.data import read_share

    path = write("x,job,label\n1,a,u\n2,b,v\n")
    with pytest.raises(CoterieError, match="in one order: write options"):
        read_share(path, 3, ["u", "v", "w"], {"missing": "drop"})
    with pytest.raises(CoterieError, match="categories of 'job' in its own way"):
        read_share(path, 3, ["u", "v", "w"], {"inputs": ["x", "job"]})
    share: Dataset = read_share(path, 3, ["u", "v", "w"], {"inputs": ["x"]})
    assert (share.classes, share.train.y.tolist()) == (3, [0, 1])
    with pytest.raises(CoterieError, match="give the names of all"):
        read_share(path, 3, None, {"inputs": ["x"]})
