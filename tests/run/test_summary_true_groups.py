"""Accuracies by true group: each group's own mean, and the mean over groups, in results and in every table."""

from typing import Any

import numpy as np
import pytest

import coterie
from coterie.report.folders import make_page
from coterie.report.tables import result_table
from coterie.reproduce.findings import measure
from coterie.results.charts import Table, charts_of
from coterie.run.result import Result

SIZES = [3, 3, 2, 2]
"""Clients of the four groups: the mean over groups is not that over clients."""


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> Result:
    out = tmp_path_factory.mktemp("run") / "per-fedavg"
    small: dict[str, Any] = {"clients": 10, "rounds": 3, "epochs": 1, "fraction": 0.5, "eval_every": 1}
    return coterie.run(dataset="digits-rotated", algorithm="per-fedavg", out=str(out), **small)


def means(values: list[float | None], truth: list[int]) -> list[float]:
    """Counted by NumPy."""
    return [float(np.mean(np.asarray(values, float)[np.asarray(truth) == group])) for group in range(4)]


@pytest.mark.integration
def test_groups_are_means_over_their_clients(result: Result) -> None:
    assert result.true_groups is not None
    assert np.bincount(result.true_groups).tolist() == SIZES
    by_group, over_groups = result.accuracy_by_true_group, result.accuracy_group_mean
    assert by_group is not None
    assert over_groups is not None
    for protocol in ("L", "C"):
        own = means(result.per_client[protocol], result.true_groups)
        assert by_group[protocol] == pytest.approx(own)
        assert over_groups[protocol] == pytest.approx(np.mean(own))
        assert np.average(own, weights=SIZES) == pytest.approx(result.accuracy[protocol])
        best = np.max([row["by_true_group"][protocol] for row in result.history], axis=0)
        assert by_group[f"{protocol}_max"] == pytest.approx(best.tolist())
        assert result.history[-1]["by_true_group"][protocol] == pytest.approx(own)
    assert result.unadapted is not None
    assert np.average(by_group["L_unadapted"], weights=SIZES) == pytest.approx(result.unadapted["L"])  # type: ignore[arg-type]
    assert np.average(by_group["plus"], weights=SIZES) == pytest.approx(result.accuracy["plus"])  # type: ignore[arg-type]


@pytest.mark.integration
def test_without_true_groups_there_are_none() -> None:
    alike = coterie.run(dataset="digits", clients=4, rounds=1, epochs=1)
    assert alike.accuracy_by_true_group is None
    assert alike.accuracy_group_mean is None
    assert "true groups" not in result_table([alike.to_json()])


@pytest.mark.integration
def test_quantities_of_reproductions(result: Result) -> None:
    over_groups, unadapted = result.accuracy_group_mean, result.unadapted
    assert over_groups is not None
    assert unadapted is not None
    for quantity, number in {
        "group mean C": over_groups["C"],
        "group mean +": over_groups["plus"],
        "group mean unadapted L": over_groups["L_unadapted"],
        "unadapted L": unadapted["L"],
        "L best": result.accuracy["L_best"],
    }.items():
        assert number is not None
        assert measure(result, quantity, {}) == pytest.approx(100 * number)


@pytest.mark.integration
def test_the_table_on_the_terminal(result: Result) -> None:
    text = result_table([result.to_json()])
    assert result.accuracy_group_mean is not None
    for protocol in ("L", "C", "plus"):
        assert f"{100 * (result.accuracy_group_mean[protocol] or 0):.2f}" in text
    assert "means over the true groups" in " ".join(text.split())
    assert result.unadapted is not None
    assert f"without it L {100 * (result.unadapted['L'] or 0):.2f}" in " ".join(text.split())


@pytest.mark.integration
def test_the_page_of_a_run(result: Result) -> None:
    assert result.folder is not None
    tables = {chart.title: chart for _, chart in charts_of(make_page([result.folder])) if isinstance(chart, Table)}
    row = dict(zip(tables["Results"].columns, tables["Results"].rows[0], strict=True))
    assert result.accuracy_group_mean is not None
    assert result.accuracy_by_true_group is not None
    assert row["C by group (%)"] == pytest.approx(100 * (result.accuracy_group_mean["C"] or 0))
    assert row["L best (%)"] == pytest.approx(100 * (result.accuracy["L_best"] or 0))
    assert "L unadapted (%)" in row
    groups = tables["Accuracy by true group (%)"]
    assert groups.columns[1] == "group 0 (3 clients)"
    rows = {line[0]: line[1:] for line in groups.rows}
    assert list(rows["C, best round of the group"][:4]) == pytest.approx(
        [100 * (number or 0) for number in result.accuracy_by_true_group["C_max"]]
    )
    assert rows["+"][4] == pytest.approx(100 * (result.accuracy_group_mean["plus"] or 0))
