"""Charts as data, pages as HTML text, and charts as files; without a browser."""

import base64
import hashlib
import json
import math
import re
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sample_page import EVIL, sample_page
from scipy.cluster.hierarchy import dendrogram, fcluster, linkage
from scipy.spatial.distance import pdist, squareform

from coterie.errors import CoterieError
from coterie.report.alternatives import as_table
from coterie.report.page import render
from coterie.report.static import PAINTERS, colour, figures, marker, save
from coterie.results.charts import (
    Bars,
    Distribution,
    HeatMap,
    Lines,
    Page,
    Sample,
    Section,
    Series,
    Table,
    charts_of,
    classical_mds,
    plain,
    tree_of,
    values,
    worst_of,
)

PNG, SVG, PDF = b"\x89PNG", b"<?xml", b"%PDF"


class Reader(HTMLParser):
    """What elements a page has, and the text of scripts."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.scripts: list[str] = []
        self.texts: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs

    def handle_data(self, data: str) -> None:
        (self.scripts if self.tags and self.tags[-1] == "script" else self.texts).append(data)


def page_of(name: str) -> Page:
    chart = Lines(title=name, x_label=name, y_label=name, series=(Series(name=name, x=(1.0,), y=(2.0,)),), note=name)
    table = Table(title=name, columns=(name,), rows=((name,),))
    return Page(title=name, summary=(name,), sections=(Section(heading=name, text=(name,), blocks=(chart, table)),))


HARMLESS = Reader(render(page_of("name")))


@pytest.mark.integration
@given(
    st.text(min_size=1)
    | st.sampled_from([EVIL, "<!--", "-->", "]]>", "&lt;", '" onload="x', "'", "\u2028", "`<b>`", "\\u003c"])
)
def test_no_name_changes_the_elements_of_a_page(name: str) -> None:
    name = name.replace("\r", "").replace("\0", "") or "name"  # which HTML itself replaces
    found = Reader(render(page_of(name)))
    without_code = [tag for tag in found.tags if tag != "code"]
    assert without_code == HARMLESS.tags
    assert {key for key, _ in found.attributes} == {key for key, _ in HARMLESS.attributes}
    charts = json.loads(next(text for text in found.scripts if text.startswith("[")))
    assert charts[0]["title"] == charts[0]["series"][0]["name"] == name


def test_the_data_in_a_page_are_the_charts() -> None:
    page = sample_page()
    text = render(page)
    found = json.loads(re.search(r'<script type="application/json" id="charts">(.*?)</script>', text, re.S)[1])  # type: ignore[index]
    assert found == [plain(chart) for _, chart in charts_of(page) if type(chart) in PAINTERS]
    assert {chart["kind"] for chart in found} == {"lines", "bars", "heatmap", "scatter", "dendrogram", "distribution"}


def test_a_page_asks_for_nothing_and_allows_only_its_own_script() -> None:
    text = render(sample_page())
    assert "http" not in re.sub(r'http-equiv|"http://www.w3.org/2000/svg"', "", text)  # a name space is no address
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', text)[1]  # type: ignore[index]
    assert policy.startswith("default-src &#x27;none&#x27;")
    for tag, content in re.findall(r"<(style|script)>(.*?)</\1>", text, re.S):
        digest = base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
        assert f"{tag}-src &#x27;sha256-{digest}&#x27;" in policy
    assert " style=" not in text  # which the policy would block
    assert not re.search(r" on[a-z]+=", text.replace(EVIL, ""))


def test_nan_is_nowhere() -> None:
    text = render(sample_page())
    data = re.search(r'id="charts">(.*?)</script>', text, re.S)[1]  # type: ignore[index]
    assert "NaN" not in data
    assert "Infinity" not in data
    assert "not measured" in text


def test_plain_is_json_and_keeps_integers() -> None:
    found = plain(Table(title="t", columns=("a",), rows=((np.int64(3),), (np.float32(0.5),), (math.inf,), (None,))))
    assert json.loads(json.dumps(found, allow_nan=False))["rows"] == [[3], [0.5], [None], [None]]


@pytest.mark.parametrize("method", ["single", "complete", "average", "weighted"])
def test_tree_of_agrees_with_scipy(method: str) -> None:
    rng = np.random.default_rng(1)
    tree = linkage(rng.normal(size=(17, 3)), method)
    labels = fcluster(tree, 4, "maxclust") - 1
    drawn = tree_of(tree, [str(i) for i in range(17)], labels.tolist(), title="", unit="u", cut=1.0)
    theirs = dendrogram(tree, no_plot=True)
    assert list(drawn.names) == theirs["ivl"]
    ours = {(m.left, m.right, m.left_height, m.height, m.right_height) for m in drawn.merges}
    expected = {
        ((x[0] - 5) / 10, (x[2] - 5) / 10, y[0], y[1], y[3])
        for x, y in zip(theirs["icoord"], theirs["dcoord"], strict=True)
    }
    assert np.array(sorted(ours)) == pytest.approx(np.array(sorted(expected)))
    inside = [merge for merge in drawn.merges if merge.group is not None]
    assert len(inside) == 17 - 4
    assert max(merge.height for merge in inside) <= min(m.height for m in drawn.merges if m.group is None)


def test_tree_of_one_client() -> None:
    drawn = tree_of(np.zeros((0, 4)), ["a"], [0], title="", unit="u")
    assert drawn.names == ("a",)
    assert drawn.merges == ()


def test_classical_mds_finds_the_plane() -> None:
    places = np.random.default_rng(0).normal(size=(12, 2))
    distances = squareform(pdist(places))
    assert squareform(pdist(classical_mds(distances))) == pytest.approx(distances)
    assert classical_mds([[0.0]]).tolist() == [[0, 0]]
    assert classical_mds(np.zeros((3, 3))).tolist() == [[0, 0]] * 3


@given(st.lists(st.none() | st.floats(-100, 100), max_size=40), st.sampled_from([0.1, 0.25, 1.0]))
def test_the_worst(numbers: list[float | None], share: float) -> None:
    places, mean = worst_of(tuple(numbers), share)
    known = sorted(number for number in numbers if number is not None)
    many = math.ceil(round(share * len(known), 6))
    assert sorted(numbers[place] for place in places) == known[:many]
    assert mean is None if not many else mean == pytest.approx(np.mean(known[:many]))


def test_tables_tell_what_charts_show() -> None:
    lines = Lines(
        title="",
        x_label="round",
        y_label="",
        series=(
            Series(name="a", x=(1.0, 3.0), y=(5.0, None)),
            Series(name="b", x=(2.0, 3.0), y=(6.0, 7.0), low=(5.5, 6.5), high=(6.5, 7.5)),
        ),
    )
    table = as_table(lines)
    assert table is not None
    assert table.columns == ("round", "a", "b", "b, from", "to")
    assert table.rows == ((1, 5.0, None, None, None), (2, None, 6.0, 5.5, 6.5), (3, None, 7.0, 6.5, 7.5))

    bars = Bars(
        title="",
        x_label="k",
        y_label="",
        categories=("x", "y"),
        series=(Series(name="n", y=(1.0, 2.0)),),
        line=Series(name="L", y=(None, 9.0)),
    )
    table = as_table(bars)
    assert table is not None
    assert table.rows == (("x", 1.0, None), ("y", 2.0, 9.0))

    numbers = np.random.default_rng(0).uniform(size=30)
    spread = as_table(Distribution(title="", x_label="", samples=(Sample(name="s", values=(*values(numbers), None)),)))
    assert spread is not None
    expected = [
        numbers.min(),
        *np.quantile(numbers, [0.25, 0.5, 0.75]),
        numbers.max(),
        numbers.mean(),
        np.sort(numbers)[:3].mean(),
    ]
    assert spread.rows[0][:2] == ("s", 30)
    assert list(spread.rows[0][2:]) == pytest.approx(expected)


def test_a_large_map_is_told_by_groups() -> None:
    n, groups = 60, tuple(i % 2 for i in range(60))
    numbers = np.random.default_rng(0).uniform(size=(n, n))
    names = tuple(map(str, range(n)))
    chart = HeatMap(
        title="", rows=names, columns=names, values=tuple(values(row) for row in numbers), unit="", groups=groups
    )
    table = as_table(chart)
    assert table is not None
    even = np.ix_(range(0, n, 2), range(0, n, 2))
    across = np.ix_(range(0, n, 2), range(1, n, 2))
    inside = numbers[even][~np.eye(n // 2, dtype=bool)].mean()
    assert table.rows[0] == ("group 0", pytest.approx(inside), pytest.approx(numbers[across].mean()))


def test_no_two_groups_look_alike() -> None:
    looks = [(colour(slot), marker(slot)) for slot in range(49)]
    assert len(set(looks)) == 49


@pytest.mark.integration
def test_every_chart_as_png_svg_and_pdf(tmp_path: Path) -> None:
    page = sample_page(9)
    drawn = [chart for _, chart in charts_of(page) if type(chart) in PAINTERS]
    assert len(save(page, tmp_path / "figures", ["svg"])) == len(drawn)
    assert {path.stem for path in (tmp_path / "figures").iterdir()} == set(figures(page))
    for path in save(page_of(EVIL), tmp_path / "one"):
        beginning = {".png": PNG, ".svg": SVG, ".pdf": PDF}[path.suffix]
        assert path.read_bytes().startswith(beginning)
        assert re.fullmatch(r"[a-z-]+\.[a-z]{3}", path.name)


def test_wrong_formats_and_places(tmp_path: Path) -> None:
    with pytest.raises(CoterieError, match=r"'gif': use png, svg, pdf"):
        save(sample_page(9), tmp_path, ["gif"])
    (tmp_path / "file").write_text("")
    with pytest.raises(CoterieError, match="is a file"):
        save(sample_page(9), tmp_path / "file", ["png"])
