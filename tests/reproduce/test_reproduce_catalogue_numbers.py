"""The numbers of the catalogue are those of the papers, and every table and figure of them has a name."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from coterie.reproduce.catalogue import Cell, catalogue
from coterie.results.reproductions import run_path

REFERENCE = Path(__file__).resolve().parents[3] / "shared" / "reference" / "PAPER_TABLES.md"


@pytest.fixture(scope="module")
def reference() -> str:
    if not REFERENCE.is_file():
        pytest.skip("PAPER_TABLES.md is not here")
    return REFERENCE.read_text(encoding="utf-8")


def tables(text: str) -> Iterator[list[list[str]]]:
    """All tables of a Markdown text, as rows of cells, the rule left out."""
    rows: list[list[str]] = []
    for line in [*text.splitlines(), ""]:
        if line.startswith("|"):
            rows.append([cell.strip() for cell in line.strip("|").split("|")])
        elif rows:
            yield [rows[0], *rows[2:]]
            rows = []


def numbers(text: str) -> list[float]:
    """The numbers of a cell, in order; an empty list where nothing was reached."""
    return [] if text.startswith("--") else [float(number) for number in re.findall(r"\d+(?:\.\d+)?", text)]


def section(reference: str, heading: str) -> str:
    start = reference.index(f"### {heading}")
    end = re.search(r"\n(?:###? |---\n)", reference[start + 4 :])
    return reference[start : start + 4 + end.start()] if end else reference[start:]


LABELLED = {
    "pacfl-table1": "PACFL-T1", "pacfl-table2": "PACFL-T2", "pacfl-table4": "PACFL-T4", "pacfl-table5": "PACFL-T5",
    "pacfl-table6": "PACFL-T6", "pacfl-table7": "PACFL-T7", "pacfl-table8": "PACFL-T8", "pacfl-table9": "PACFL-T9",
    "pacfl-table10": "PACFL-T10", "flag-table2": "FLAG-T2", "flag-table3": "FLAG-T3", "flag-table5": "FLAG-T5",
    "fedgroup-table1": "FG-T1",
}  # fmt: skip
"""Tables whose rows and columns are headed as in the reference."""


@pytest.mark.parametrize("name", LABELLED)
def test_numbers_are_those_of_the_reference(name: str, reference: str) -> None:
    head, *body = next(tables(section(reference, LABELLED[name])))
    cells = {(_squeezed(cell.label), _squeezed(cell.column)): cell for cell in catalogue()[name].cells()}
    compared = 0
    for row in body:
        for column, text in zip(head[1:], row[1:], strict=True):
            cell = cells.get((_squeezed(row[0]), _squeezed(column)))
            if cell is None:
                assert column.startswith(("src", "grade")), (row[0], column)
                continue
            assert cell.published is not None
            assert numbers(cell.published.text) == numbers(text), (row[0], column)
            compared += 1
    assert compared == len(cells)


def _squeezed(text: str) -> str:
    return text.replace(" ", "").replace("IFCA(2)", "IFCA")


def find(name: str, row: str, column: str) -> Cell:
    return next(c for c in catalogue()[name].cells() if (c.row, _squeezed(c.column)) == (row, _squeezed(column)))


def test_numbers_of_the_tables_that_are_turned(reference: str) -> None:
    """FedGroup III, FLAG 4 and 6 to 8, FLIS I and IV, chapter 2, chapter 4, tables 5.4 and the class angles."""

    def check(cell: Cell, text: str) -> None:
        assert cell.published is not None
        assert numbers(cell.published.text) == numbers(text), cell

    head, *body = next(tables(section(reference, "FG-T3")))
    for data, *row in body:
        for method, text in zip(head[1:], row, strict=True):
            check(find("fedgroup-table3", method.lower(), data), text)
    for skew, data, *row in next(tables(section(reference, "FLAG-T4")))[1:]:
        for method, text in zip(("fedavg", "flag-g", "flag-d", "flag"), row, strict=True):
            check(find("flag-table4", method, f"{skew[:2]} % {data}"), text)
    for name, heading in (("flag-table6", "FLAG-T6"), ("flag-table7", "FLAG-T7"), ("flag-table8", "FLAG-T8")):
        columns = [column.label for column in catalogue()[name].columns()]
        for value, *row in next(tables(section(reference, heading)))[1:]:
            for column, text in zip(columns, row, strict=True):
                check(find(name, value, column), text)
    for skew, method, *row in next(tables(section(reference, "FLIS-TI")))[1:]:
        for data, text in zip(("FMNIST", "CIFAR-10", "CIFAR-100", "SVHN"), row, strict=False):
            check(find("flis-table1", "flis-dc" if "DC" in method else "flis-hc", f"{skew}, {data}"), text)
    for _, base, beta, *row in next(tables(section(reference, "Ch. 2")))[1:]:
        number = {"FedAvg": "2.2", "FedProx": "2.3", "FedNova": "2.4", "SCAFFOLD": "2.5"}[base]
        for order, text in zip(("curriculum", "anti", "random", "vanilla"), row, strict=True):
            check(find(f"dissertation-table{number}", order, f"Dir({beta})"), text)
    pruned = {"50": "50", "73": "70", "71": "70", "70": "70", "92": "90", "90": "90", "88": "90"}
    keys = {"Standalone": "solo", "FedAvg": "fedavg", "MTL": "mtl", "FedProx": "fedprox", "LG-FedAvg": "lg-fedavg"}
    for data, method, accuracy, channels, share, cost in next(tables(section(reference, "Ch. 4")))[1:]:
        key = keys.get(method) or (f"un{share}" if method == "Un" else f"hy{pruned[channels]}")
        check(find("dissertation-table4.1", key, data), accuracy)
        if method in ("Un", "Hy"):
            check(find("sub-fedavg-pruned", key, data), share)
        named = f"{method}, {key[2:]} %" if method in ("Un", "Hy") else method
        if method != "Standalone":
            unit = "GB" if data.startswith("CIFAR") else "MB"
            assert cost.endswith(unit)
            check(find("sub-fedavg-costs", named, f"{data}, {unit}"), cost)
    of_chapter_5 = {table[0][0] + table[0][1]: table for table in tables(section(reference, "Ch. 5"))}
    head, *body = of_chapter_5["datasetalgorithm"]
    rows = {"SOLO": "solo", "LG": "lg", "Per-FedAvg": "per-fedavg", "IFCA": "ifca"}
    for data, method, *row in body:
        for column, text in zip(head[2:], row, strict=True):
            check(
                find("dissertation-table5.4", rows.get(method, method.lower().rstrip("+")), f"{data}, {column}"), text
            )
    for label, *row in of_chapter_5["class0"][1:]:
        for place, text in enumerate(row):
            check(find("cifar10-class-angles", label, str(place)), text)
    for measure, *row in of_chapter_5["measureIID"][1:]:
        for column, text in zip(("IID", "C-NIID(2)", "SC-NIID(2)"), row, strict=True):
            check(find("dissertation-table5.3", measure, column), text)
    for number, _, accuracy in of_chapter_5["rowC2 labels"][1:]:
        assert numbers(list(catalogue()["dissertation-table5.5"].cells())[int(number) - 1].published.text) == numbers(  # type: ignore[union-attr]
            accuracy
        )


def test_every_heading_is_covered(reference: str) -> None:
    covered = {text for item in catalogue().values() for text in item.entry.covers}
    for heading in re.findall(r"^### ([A-Z]+-[^\s:]+)", reference, re.MULTILINE):
        assert heading in covered, heading
    for number in re.findall(r"Table (\d\.\d)", section(reference, "Ch. 2") + section(reference, "Ch. 5")):
        names = [f"dissertation-table{number}"]
        assert any(name in catalogue() for name in names), number
    figures = {"PACFL": "PACFL figures", "FLIS": "FLIS figures", "FedGroup": "FedGroup figures"}
    for source, heading in figures.items():
        for row in next(tables(section(reference, heading)))[1:]:
            name = row[0].partition(" (")[0]
            assert any(text.startswith(f"{source} {name}") for text in covered), (source, name)


@pytest.mark.parametrize(
    "number",
    [f"{chapter}.{n}" for chapter, last in ((2, 5), (3, 20), (4, 3), (5, 7)) for n in range(1, last + 1)],
)
def test_every_table_of_the_dissertation_has_a_name(number: str) -> None:
    assert f"dissertation-table{number}" in catalogue()


@pytest.mark.parametrize(
    "number",
    [f"{chapter}.{n}" for chapter, last in ((2, 12), (3, 17), (4, 3), (5, 8), (6, 4)) for n in range(1, last + 1)],
)
def test_every_figure_of_the_dissertation_has_a_name(number: str) -> None:
    assert f"dissertation-figure{number}" in catalogue()


@pytest.mark.parametrize(
    "name",
    [
        f"{source}{n}"
        for source, last in {
            "pacfl-table": 10, "pacfl-figure": 7, "flis-table": 4, "flis-figure": 5, "fedgroup-table": 3,
            "fedgroup-figure": 5, "flag-table": 8, "flag-figure": 2,
        }.items()
        for n in range(1, last + 1)
    ],
)  # fmt: skip
def test_every_table_and_figure_of_the_papers_has_a_name(name: str) -> None:
    assert name in catalogue()


def test_flag_table1_has_its_own_cells_only(reference: str) -> None:
    item = catalogue().resolved("flag-table1")
    assert item.name == "flag-table1"
    heading = section(reference, "FLAG-T1").splitlines()[0]
    cells = list(item.cells())
    assert len(cells) == 8
    for method in ("PACFL", "CFL", "IFCA", "FLAG"):
        printed = re.search(rf"\b{method} (\d[\d.]*) / (\d[\d.]*)", heading)
        assert printed is not None
        assert [c.published.text for c in cells if c.label == method and c.published] == list(printed.groups())
    shared = {run_path(Path(), c.settings, 0) for c in catalogue()["flag-table2"].cells()}
    assert {run_path(Path(), c.settings, 0) for c in cells} < shared
