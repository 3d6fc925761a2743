"""Clients and classes that the data name are called so: in groups, results, frames and pages."""

from pathlib import Path

import numpy as np
import pytest

import coterie
from coterie.report.folders import make_page
from coterie.report.page import render
from coterie.results.names import NO_NAMES, Names
from coterie.run.trained_models import find_model

HOSPITALS = ("Riverside", "St. Mary", "North", "Lakeside")
SETTINGS = {"partition": "by-user", "rounds": 1, "epochs": 1}


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> str:
    rng, lines = np.random.default_rng(0), ["age,pressure,hospital,outcome"]
    for row in range(240):
        age, pressure = rng.normal(50, 10), rng.normal(120, 9)
        lines.append(f"{age:.1f},{pressure:.1f},{HOSPITALS[row % 4]},{'stable' if age > 50 else 'critical'}")
    file = tmp_path_factory.mktemp("table") / "patients.csv"
    file.write_text("\n".join(lines))
    return f"{file}:label=outcome,client=hospital"


def test_groups_are_of_names(table: str) -> None:
    groups = coterie.cluster(dataset=table, partition="by-user", progress=False)
    names = sorted(HOSPITALS)
    assert groups.to_json()["client_names"] == names
    for text in (groups.report(), groups._repr_html_()):
        assert ", ".join(names) in text
        assert "stable: " in text
        assert "critical: " in text


@pytest.mark.integration
def test_results_frames_and_pages_have_them(table: str, tmp_path: Path) -> None:
    pytest.importorskip("pandas")
    coterie.run(algorithm="pacfl", dataset=table, out=tmp_path / "run", progress=False, **SETTINGS)  # type: ignore[arg-type]
    result = coterie.load(tmp_path / "run")
    assert isinstance(result, coterie.Result)
    assert result.client_names == sorted(HOSPITALS)
    assert result.class_names == ["critical", "stable"]
    assert [*result.to_frame("clients")["name"]] == result.client_names
    assert ", ".join(sorted(HOSPITALS)) in result._repr_html_()
    assert ", ".join(sorted(HOSPITALS)) in render(make_page([tmp_path / "run"]))
    number, inputs = sorted(HOSPITALS).index("North"), table.partition(":")[0]
    assert find_model(tmp_path / "run", "North").client == result.trained_model("North", None).client == number
    by_name, by_number = (coterie.predict(tmp_path / "run", inputs, client=who) for who in ("North", number))
    assert np.array_equal(by_name, by_number)
    with pytest.raises(coterie.CoterieError, match="no client 'Nort': did you mean 'North'"):
        coterie.export(result, tmp_path / "x.safetensors", client="Nort")


def test_a_name_stands_before_a_number() -> None:
    assert Names(("1", "0")).client_number("0") == 1
    assert Names(("1", "0")).client_number(0) == 0
    with pytest.raises(coterie.CoterieError, match="no client 'North': clients have no names here, only numbers"):
        NO_NAMES.client_number("North")


def test_data_without_names_have_none() -> None:
    groups = coterie.cluster(dataset="digits-rotated", clients=8, progress=False)
    assert {"client_names", "class_names"}.isdisjoint(groups.to_json())
    assert " 0 4 " in groups.report()
