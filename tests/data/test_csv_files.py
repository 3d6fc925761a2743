"""CSV files: what is read, against the csv module and pandas, and what is refused."""

import csv
import gzip
import io
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coterie.data import read, recognise
from coterie.data.tables.csv_files import MISSING, read_csv
from coterie.data.tables.table import DataTable, levels
from coterie.errors import CoterieError


def parsed(text: str) -> DataTable:
    return read_csv(lambda: nullcontext(io.BytesIO(text.encode())))


WORDS = st.text(st.characters(codec="utf-8", exclude_categories=["C", "Z"]), min_size=1, max_size=8).filter(
    lambda text: text not in MISSING and text.strip() == text
)


@given(
    st.lists(
        st.tuples(WORDS, st.floats(allow_nan=False, allow_infinity=False), st.integers(-(2**40), 2**40)), min_size=1
    )
)
@settings(max_examples=60, deadline=None)
def test_what_the_csv_module_writes_is_read_again(rows: list[tuple[str, float, int]]) -> None:
    content = io.StringIO()
    writer = csv.writer(content)
    writer.writerow(["word", "x", "k"])
    writer.writerows((f"w{word}", x, k) for word, x, k in rows)
    table = parsed(content.getvalue())
    assert table.rows == len(rows)
    codes, names = levels(table.columns["word"], "here")
    assert [names[code] for code in codes] == [f"w{word}" for word, _, _ in rows]
    assert table.columns["x"].values.tolist() == [x for _, x, _ in rows]
    assert table.columns["x"].fractions
    assert table.columns["k"].values.tolist() == [k for _, _, k in rows]
    assert not table.columns["k"].fractions


def test_numbers_are_those_of_pandas_and_missing_ones_too() -> None:
    pandas = pytest.importorskip("pandas")
    text = 'a,b,c\n1,2.5,x\n,nan,\n 3 ,NA,"y, z"\n4e2,-0.0,?\n'
    table, frame = parsed(text), pandas.read_csv(io.StringIO(text), na_values=["?"])
    for name in ("a", "b"):
        assert np.array_equal(table.columns[name].values, frame[name].to_numpy(float), equal_nan=True)
    assert [table.columns[name].missing for name in "abc"] == frame.isna().sum().tolist()
    assert levels(table.columns["c"], "here")[1] == ["x", "y, z"]


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
def test_the_delimiter_is_seen_in_the_first_line(delimiter: str) -> None:
    table = parsed(f"a{delimiter}b\n1{delimiter}2\n\n3{delimiter}4\r\n")
    assert {name: column.values.tolist() for name, column in table.columns.items()} == {"a": [1, 3], "b": [2, 4]}


def test_a_column_that_turns_to_texts_late_is_one_of_texts_from_its_start() -> None:
    late = 5000
    table = parsed("a,b\n" + "".join(f"0{k % 3},{k}\n" for k in range(late)) + "two,7\n")
    codes, names = levels(table.columns["a"], "here")
    assert names == ["00", "01", "02", "two"]
    assert codes.tolist() == [k % 3 for k in range(late)] + [3]
    assert "not 'two'" not in table.columns["b"].described


def test_python_numbers_with_underscores_are_texts() -> None:
    assert parsed("a,b\n1_000,1\n2,2\n").columns["a"].kind == "text"


def test_a_byte_order_mark_spaces_and_compression_do_not_matter(tmp_path: Path) -> None:
    content = "\ufeffage, label\n1, yes\n2, no \n3,yes\n4,no\n".encode()
    (tmp_path / "t.csv").write_bytes(content)
    (tmp_path / "t.csv.gz").write_bytes(gzip.compress(content))
    for name in ("t.csv", "t.csv.gz"):
        assert recognise(tmp_path / name).format == "table"
        data = read(tmp_path / name)
        assert (data.name, data.class_names, data.train.y.tolist()) == ("t", ("no", "yes"), [1, 0, 1, 0])


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "should name at least two columns"),
        ("a\n1\n", "should name at least two columns"),
        ("a,b\n", "no rows below the names"),
        ("1,2\n3,4\n", "its first line holds numbers"),
        ("a,a\n1,2\n", "two of its columns are called 'a'"),
        ("a,,c\n1,2,3\n", "its column 2 has no name"),
        ("a,b\n1,2\n\n1,2,3\n", "row 4 has 3 cells, but there are 2 columns"),
        ("a,b\n1\n", "row 2 has 1 cells"),
        ("a,b\n" + "x" * 2**20 + ",1\n", "letters or more"),
        ("a,b\n" + '"' + "x" * 140_000 + '",1\n', "field larger"),
    ],
)
def test_what_is_no_table_is_refused_in_a_sentence(tmp_path: Path, text: str, reason: str) -> None:
    (tmp_path / "t.csv").write_text(text)
    with pytest.raises(CoterieError, match=r"t\.csv cannot be read as a table \(CSV\)") as refusal:
        read(tmp_path / "t.csv")
    assert reason in str(refusal.value)


def test_bytes_that_are_no_text_are_refused(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_bytes(b"a,b\n\xff\xfe,1\n")
    with pytest.raises(CoterieError, match="cannot be read as a table"):
        read(tmp_path / "t.csv")


def test_a_bomb_is_refused(tmp_path: Path) -> None:
    (tmp_path / "t.csv.gz").write_bytes(gzip.compress(b"a,b\n" + (b"x" * 130_000 + b",1\n") * 600))
    with pytest.raises(CoterieError, match="200 times"):
        read(tmp_path / "t.csv.gz", label="b")
