"""Pages of comparisons and sweeps: what they say of whole ones."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from comparison_folders import LABELS, MAIN, SEEDS, SMALL, folder, grid, made, stored, titles, words
from scipy.stats import ttest_rel

import coterie
from coterie.report.folders import make_page
from coterie.report.page import render
from coterie.report.pages.comparison import comparison_page
from coterie.results.charts import Bars, Distribution, HeatMap, Lines, charts_of
from coterie.results.comparison_folder import ComparisonPlan
from coterie.results.comparison_table import make_table
from coterie.results.comparisons import StoredComparison
from coterie.results.protocols import COMPARED

__all__ = ["made"]  # a fixture


@pytest.fixture(scope="module")
def swept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("swept") / "s"
    coterie.sweep(algorithm="pacfl", vary={"grouping.threshold": [60, 1]}, seeds=SEEDS, out=place, **SMALL)
    return place


@pytest.mark.integration
def test_the_table_is_that_of_the_runs(made: Path) -> None:
    rows = grid(make_page([made]), MAIN)
    assert [row["method"] for row in rows] == list(LABELS)
    for row, label in zip(rows, LABELS, strict=True):
        results = stored(made, label)
        for protocol, name in COMPARED.items():
            numbers = [result["accuracy"][protocol] for result in results]
            if None in numbers:
                assert row.get(f"{name} (%)", "–") == "–"
            else:
                known = 100 * np.array(numbers)
                assert row[f"{name} (%)"] == f"{known.mean():.2f} ± {known.std(ddof=1):.2f}"
        worst = np.array([100 * min(result["per_client"]["L"]) for result in results])  # a tenth of 8, rounded up
        assert row["worst tenth, L (%)"] == f"{worst.mean():.2f} ± {worst.std(ddof=1):.2f}"
    assert [row["groups"] for row in rows] == ["–", "–", "4"]
    assert [row["rounds to L=0.1"] for row in grid(make_page([made]), "Rounds and megabytes to a target")]


@pytest.mark.integration
def test_bands_are_means_and_deviations_of_the_metrics(made: Path) -> None:
    found = titles(make_page([made]))
    for protocol, drawn in (("L", LABELS), ("C", ("fedavg", "pacfl:count=4")), ("G", ("fedavg",))):
        chart, traffic = found[f"Accuracy {protocol} over rounds"], found[f"Accuracy {protocol} against megabytes"]
        assert isinstance(chart, Lines)
        assert isinstance(traffic, Lines)
        assert tuple(series.name for series in chart.series) == drawn
        for series, beside in zip(chart.series, traffic.series, strict=True):
            rows = [
                [
                    json.loads(line)
                    for line in (made / folder(series.name, seed) / "metrics.jsonl").read_text().splitlines()
                ]
                for seed in SEEDS
            ]
            numbers = 100 * np.array([[row[protocol] for row in run] for run in rows])
            sent = np.array([[row["up_bytes"] + row["down_bytes"] for row in run] for run in rows]) / 1e6
            assert series.x == (1, 2, 3)
            assert list(series.y) == pytest.approx(numbers.mean(axis=0))
            assert list(series.high) == pytest.approx(numbers.mean(axis=0) + numbers.std(axis=0, ddof=1))
            assert list(series.low) == pytest.approx(numbers.mean(axis=0) - numbers.std(axis=0, ddof=1))
            assert list(beside.x) == pytest.approx(sent.mean(axis=0))
            assert beside.y == series.y
    marked = found["Accuracy L over rounds"]
    assert isinstance(marked, Lines)
    assert [(mark.at, mark.axis) for mark in marked.marks] == [(10, "y")]


def test_differences_have_the_intervals_of_the_paired_t_test(made: Path) -> None:
    chart = titles(make_page([made]))["L minus L of fedavg"]
    assert isinstance(chart, Bars)
    assert chart.categories == LABELS[1:]
    first = [100 * result["accuracy"]["L"] for result in stored(made, "fedavg")]
    for place, label in enumerate(LABELS[1:]):
        own = [100 * result["accuracy"]["L"] for result in stored(made, label)]
        interval = ttest_rel(own, first).confidence_interval(0.95)
        series = chart.series[0]
        assert series.y[place] == pytest.approx(np.mean(own) - np.mean(first))
        assert (series.low[place], series.high[place]) == pytest.approx((interval.low, interval.high))
    assert "C minus C of fedavg" in titles(make_page([made]))
    assert "Under G there are no differences" in words(make_page([made]))


def test_gains_are_paired_by_client_and_seed(made: Path) -> None:
    page = make_page([made])
    chart = titles(page)["C minus L of SOLO, client by client"]
    assert isinstance(chart, Distribution)
    assert [sample.name for sample in chart.samples] == ["fedavg", "pacfl:count=4"]
    for sample in chart.samples:
        expected = {
            f"client {client}, seed {seed}": 100 * (own - alone)
            for seed, ours, other in zip(SEEDS, stored(made, sample.name), stored(made, "solo"), strict=True)
            for client, (own, alone) in enumerate(zip(ours["per_client"]["C"], other["per_client"]["L"], strict=True))
        }
        assert dict(zip(sample.names, sample.values, strict=True)) == pytest.approx(expected)
        row = next(
            r for r in grid(page, "Clients that gain and lose") if (r["method"], r["protocol"]) == (sample.name, "C")
        )
        assert row["clients"] == 16
        assert row["gain (%)"] == pytest.approx(100 * np.mean([gain > 1e-9 for gain in expected.values()]))
        assert row["lose (%)"] == pytest.approx(100 * np.mean([gain < -1e-9 for gain in expected.values()]))
    each = titles(page)["Accuracy L of each client"]
    assert isinstance(each, Distribution)
    assert [len(sample.values) for sample in each.samples] == [16, 16, 16]


def test_groups_runs_versions_and_the_command(made: Path) -> None:
    page = make_page([made])
    groups = titles(page)["Groups found in each seed"]
    assert isinstance(groups, Bars)
    assert groups.categories == ("pacfl:count=4",)
    assert [series.y for series in groups.series] == [(4,), (4,)]
    runs = grid(page, "All runs")
    assert [(row["method"], row["seed"], row["state"]) for row in runs] == [
        (label, seed, "finished") for label in LABELS for seed in SEEDS
    ]
    assert runs[-1]["folder"] == "pacfl-count=4/seed-1"
    assert len(grid(page, "Versions")) == 1
    assert f"coterie compare {made}/comparison.toml" in render(page)
    assert "All 6 runs are finished." in page.summary[0]


def cells(**accuracies: list[float | None]) -> dict[str, dict[int, dict[str, Any]]]:
    """Results with nothing but L."""
    rest: dict[str, Any] = {
        "groups": None,
        "ari": None,
        "traffic": {"up_bytes": 1, "down_bytes": 1},
        "seconds": 1.0,
        "targets": [],
        "events": [],
        "per_client": {},
    }
    return {
        label: {k: {"accuracy": dict.fromkeys(COMPARED) | {"L": n}, **rest} for k, n in enumerate(numbers)}
        for label, numbers in accuracies.items()
    }


@pytest.mark.parametrize(
    ("accuracies", "said"),
    [
        (
            {"a": [0.9, 0.91, 0.92], "b": [0.5, 0.511, 0.519]},
            "a is significantly better than each of the others (paired t test, 3 seeds)",
        ),
        (
            {"a": [0.9, 0.5, 0.92], "b": [0.5, 0.51, 0.52]},
            "a has the highest mean; not significantly different from b (paired t test, 3 seeds).",
        ),
        (
            {"a": [0.9, 0.91, 0.92], "b": [0.89, 0.92, 0.9], "c": [0.5, 0.511, 0.519]},
            "a has the highest mean; not significantly different from b (paired t test, 3 seeds).",
        ),
        ({"a": [0.9, 0.8, 0.7], "b": [0.7, 0.8, 0.9]}, "a and b have the same mean."),
        (
            {"a": [0.5, 0.5], "b": [0.5, 0.5], "c": [0.5, 0.5]},
            "a, b and c have the same mean.",
        ),
        (
            {"a": [0.9, 0.8, 0.7], "b": [0.6, None, None], "c": [0.88, 0.79, None]},
            "a has the highest mean of those with every seed; not significantly different from c (paired t test, 2 "
            "seeds); no test against b (fewer than two common seeds, or all alike).",
        ),
        ({"a": [0.9], "b": [0.5]}, "With one seed nothing can be said about significance"),
        ({"a": [0.9, None], "b": [None, 0.5]}, "None has a number of every seed"),
        ({"a": [0.9, 0.8], "b": [None, None]}, "No other method has a number"),
    ],
)
def test_the_verdict_says_no_more_than_the_table_marks(accuracies: dict[str, list[float | None]], said: str) -> None:
    table = make_table(cells(**accuracies), range(len(accuracies["a"])), title="t")
    text = table.verdict("L")
    assert said in text
    assert ("significantly better" in text) == (table.best("L") is not None)
    assert table.verdict("G") == ""


@pytest.mark.integration
def test_settings_that_were_chosen(tmp_path: Path) -> None:
    settings = SMALL | {"rounds": 1, "lr": 0.05}
    coterie.compare(
        algorithms="fedavg,solo:lr=0.05", seeds=[0], tune={"lr": [0.001, 0.1]}, out=tmp_path / "t", **settings
    )
    page = make_page([tmp_path / "t"])
    assert "fedavg: training.lr = " in words(page)
    assert words(page).count("fedavg: training.lr = ") == 1
    assert "solo:lr=0.05: training.lr as set, not chosen." in words(page)
    assert [row["tried"] for row in grid(page, "All values tried")] == ["training.lr = 0.001", "training.lr = 0.1"]


@pytest.mark.integration
def test_one_varied_setting_is_a_line_over_bars(swept: Path) -> None:
    page = make_page([swept])
    assert page.title == "Sweep of grouping.threshold"
    chart = titles(page)["Accuracy C over grouping.threshold, and the number of groups"]
    assert isinstance(chart, Bars)
    assert chart.categories == ("1", "60")  # in order, though asked the other way round
    assert chart.series[0].y == (8, 1)
    assert chart.line is not None
    for place, value in enumerate((1, 60)):
        results = [
            json.loads((swept / f"threshold={value}" / f"seed-{seed}" / "result.json").read_text()) for seed in SEEDS
        ]
        numbers = np.array([100 * result["accuracy"]["C"] for result in results])
        assert chart.line.y[place] == pytest.approx(numbers.mean())
        assert chart.line.high[place] == pytest.approx(numbers.mean() + numbers.std(ddof=1))
    together = titles(page)["Accuracy over grouping.threshold, all protocols"]
    assert isinstance(together, Lines)
    assert together.log_x
    assert together.series[0].x == (1, 60)
    assert "coterie sweep " in render(page)
    assert "SOLO" not in [section.heading for section in page.sections]


def by_hand(settings: dict[str, dict[str, Any]], numbers: list[float | None]) -> StoredComparison:
    made = make_table(
        cells(**{label: [number] for label, number in zip(settings, numbers, strict=True)}),
        [0],
        title="t",
        noun="setting",
    )
    plan = ComparisonPlan(base={}, cells=settings, seeds=(0,), kind="sweep")
    return StoredComparison(Path("x"), plan, made, {label: {} for label in settings})


def test_two_varied_settings_are_a_map_with_gaps() -> None:
    settings: dict[str, dict[str, Any]] = {
        "a": {"x.t": 8, "x.r": "mean"}, "b": {"x.t": 2, "x.r": "mean"}, "c": {"x.t": 2, "x.r": True},
    }  # fmt: skip
    chart = titles(comparison_page(by_hand(settings, [0.5, 0.25, 0.75])))["Accuracy L by both settings"]
    assert isinstance(chart, HeatMap)
    assert (chart.row_label, chart.rows, chart.column_label, chart.columns) == (
        "x.t", ("2", "8"), "x.r", ("mean", "true"),
    )  # fmt: skip
    assert chart.values == ((25, 75), (50, None))


def test_more_varied_settings_are_a_table_only() -> None:
    settings: dict[str, dict[str, Any]] = {"a": {"x.a": 1, "x.b": 1, "x.c": 1}, "b": {"x.a": 2, "x.b": 2, "x.c": 2}}
    page = comparison_page(by_hand(settings, [0.5, 0.6]))
    assert "3 settings are varied: x.a, x.b, x.c. More than two are not drawn" in words(page)
    assert not [chart for _, chart in charts_of(page) if isinstance(chart, HeatMap)]
    assert len(grid(page, "One seed")) == 2


def test_a_sweep_without_groups_or_numbers() -> None:
    settings: dict[str, dict[str, Any]] = {"a": {"x.n": "one"}, "b": {"x.n": "two"}}
    chart = titles(comparison_page(by_hand(settings, [0.5, None])))["Accuracy L over x.n"]
    assert isinstance(chart, Bars)
    assert chart.line is None
    assert chart.series[0].y == (50, None)
    assert "No run is finished: there is nothing to draw." in words(comparison_page(by_hand(settings, [None, None])))


@pytest.mark.slow
def test_every_chart_can_be_written_to_a_file(made: Path, swept: Path, tmp_path: Path) -> None:
    from coterie.report.static import PAINTERS, save

    for place in (made, swept):
        page = make_page([place])
        drawn = [chart for _, chart in charts_of(page) if type(chart) in PAINTERS]
        assert len(save(page, tmp_path / place.name, ("png",))) == len(drawn) > 10
