"""Pages of runs with very many clients: summaries of all of them, pictures of some, and a page that stays small."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import coterie
from coterie.report.folders import make_page
from coterie.report.notebook import clients_chart, result_html
from coterie.report.page import render
from coterie.results.charts import Distribution, HeatMap, Lines, NumberCell, Table, charts_of
from coterie.results.run_folder import RunFolder
from coterie.testing import SMALL

pytestmark = pytest.mark.integration
N, GROUPS = 6000, 300


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    """A small run whose result was written again as that of 6,000 clients in 300 groups, half of them evaluated."""
    folder = tmp_path_factory.mktemp("many") / "run"
    made = coterie.run(**SMALL | {"algorithm": "pacfl", "rounds": 2, "eval_clients": 3, "out": str(folder)})
    rng = np.random.default_rng(0)
    fields = made.to_json()
    for key in fields["per_client"]:
        fields["per_client"][key] = [float(v) if client % 2 else None for client, v in enumerate(rng.random(N))]
    fields["groups"] = rng.integers(0, GROUPS, N).tolist()
    fields["true_groups"] = [client % 2 for client in range(N)]
    fields["traffic"]["by_client"] = {way: [5] * N for way in ("up", "down")}
    RunFolder(folder).write_result(fields)
    arrays, _ = RunFolder(folder).read_arrays()
    counts = rng.integers(0, 5, (N, 10))
    RunFolder(folder).write_arrays({**arrays, "label_counts": counts})
    return folder, fields


def test_a_page_of_many_clients_has_summaries_of_all_and_pictures_of_some(run: tuple[Path, dict[str, Any]]) -> None:
    folder, fields = run
    page = make_page([folder])
    assert len(render(page)) < 1_000_000  # where the columns and label counts alone would take more
    drawn = {chart.title: chart for _, chart in charts_of(page)}
    spread = drawn["How clients are distributed"]
    assert isinstance(spread, Table)
    row = dict(zip(spread.columns, spread.rows[0], strict=True))
    values = np.array([v for v in fields["per_client"]["L"] if v is not None])
    assert (row["evaluated"], row["clients"]) == (3000, N)
    assert row["10 %"] == pytest.approx(100 * np.quantile(values, 0.1))
    assert row["worst tenth"] == pytest.approx(100 * np.sort(values)[:300].mean())
    each = drawn["Accuracy L of each client"]
    assert isinstance(each, Distribution)
    (sample,) = each.samples
    assert len(sample.values) == len(set(sample.names)) == 1000
    assert "Of 3,000 clients 1,000 are drawn" in each.note
    client = int(sample.names[0].removeprefix("client "))
    assert sample.values[0] == pytest.approx(100 * fields["per_client"]["L"][client])
    labels = drawn["Labels of each client"]
    assert isinstance(labels, HeatMap)
    assert len(labels.columns) == 200
    groups = drawn["Groups"]
    assert isinstance(groups, Table)
    assert len(groups.rows) == 200
    assert "largest of 300 groups" in groups.note


def test_estimates_have_their_standard_errors_on_the_page(run: tuple[Path, dict[str, Any]]) -> None:
    folder, fields = run
    page = make_page([folder])
    error = f"± {100 * fields['measured']['L']['standard_error']:.2f}"
    assert any(fact.name == "accuracy L" and error in fact.value for fact in page.facts)
    assert any("estimates from 3 of 6 clients" in text for text in page.summary)
    drawn = {chart.title: chart for _, chart in charts_of(page)}
    results, curve = drawn["Results"], drawn["Accuracy L over rounds"]
    assert isinstance(results, Table)
    assert any(isinstance(cell, NumberCell) and error in cell.text for cell in results.rows[0])
    assert isinstance(curve, Lines)
    (line,) = curve.series
    row = [json.loads(text) for text in (folder / "metrics.jsonl").read_text().splitlines()][-1]
    assert line.low[-1] == pytest.approx(100 * (row["L"] - row["measured"]["L"]["standard_error"]))
    assert "standard error" in curve.note


def test_notebooks_show_some_of_many_clients(run: tuple[Path, dict[str, Any]]) -> None:
    result = coterie.load(run[0]).to_json()
    assert len(clients_chart(result, "").categories) == 200
    assert " ± " in result_html(result)
