"""Pages of run folders: what they say, of whole, old, unfinished and damaged ones."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import coterie
from coterie.cli.main import app
from coterie.errors import CoterieError
from coterie.federation.events import Events
from coterie.messages import Failure
from coterie.report.folders import make_page
from coterie.report.page import render
from coterie.results.charts import (
    Bars,
    Chart,
    Dendrogram,
    Distribution,
    HeatMap,
    Lines,
    NumberCell,
    Page,
    Scatter,
    Table,
    charts_of,
)
from coterie.results.runs import read_run

SMALL = {"dataset": "digits-rotated", "clients": 8, "rounds": 3, "epochs": 1, "fraction": 0.5, "eval_every": 1}


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    place = tmp_path_factory.mktemp("runs")
    settings: dict[str, dict[str, Any]] = {
        "pacfl": {"algorithm": "pacfl", "target": ["L=0.01", "C=1.0"]},
        "solo": {"algorithm": "solo"},
        "other": {"algorithm": "solo", "seed": 1, "validation": 0.25, "target": ["C=0.5"]},
        "late": {"algorithm": "pacfl", "newcomers": 0.25, "join_at": 2, "drop": 0.3},
        "pruned": {"algorithm": "sub-fedavg-un", "curriculum": "", "client_curriculum": ""},
    }
    for name, chosen in settings.items():
        coterie.run(out=str(place / name), **SMALL, **chosen)
    return {name: place / name for name in settings}


@pytest.fixture
def copy(runs: dict[str, Path], tmp_path: Path) -> Path:
    """A run to be damaged."""
    return Path(shutil.copytree(runs["pacfl"], tmp_path / "pacfl"))


def test_what_is_not_defined_is_not_called_unmeasured(runs: dict[str, Path]) -> None:
    results, groups = (
        titles(make_page([runs["pacfl"], runs["solo"]]))[title] for title in ("Results", "Accuracy by true group (%)")
    )
    assert isinstance(results, Table)
    assert isinstance(groups, Table)
    solo = dict(zip(results.columns, results.rows[1], strict=True))
    assert {solo[name] for name in ("C (%)", "+ (%)", "groups", "ARI")} == {NumberCell("–", None)}
    assert None not in results.rows[0]
    assert {(row[0], row[1]) for row in groups.rows if row[0] == "solo"} == {
        ("solo", "L"),
        ("solo", "L, best round of the group"),
    }
    assert len(groups.rows) == 7  # five of pacfl's, in one table


def test_accuracies_by_label_are_on_the_page_and_below_the_table(tmp_path: Path) -> None:
    skewed = {**SMALL, "dataset": "digits", "partition": "label-skew:rho=0.3"}
    result = coterie.run(algorithm="fedavg:labels=served", **skewed, out=str(tmp_path / "run"))
    own, lacking = (100 * (result.accuracy[key] or 0) for key in ("C_own", "C_lacking"))
    told = " ".join(result.report().split())
    assert f"C with each label as often as a client has it {own:.2f}, on labels that it lacks {lacking:.2f}" in told
    assert max(map(len, result.report().splitlines()[:6])) <= 100
    page = make_page([tmp_path / "run"])
    assert {"accuracy C own", "accuracy C lacking"} <= {fact.name for fact in page.facts}
    table = titles(page)["Results"]
    assert isinstance(table, Table)
    assert table.rows[0][table.columns.index("C own (%)")] == pytest.approx(own)
    everyone = coterie.run(algorithm="fedavg", **{**skewed, "partition": "iid", "clients": 3})
    assert "on labels that it lacks" not in everyone.report(tmp_path / "picture.png")


def titles(page: Page) -> dict[str, Chart]:
    return {chart.title: chart for _, chart in charts_of(page)}


def words(page: Page) -> str:
    return " ".join([*page.summary, *(text for section in page.sections for text in section.text)])


@pytest.mark.integration
def test_numbers_are_those_of_the_run(runs: dict[str, Path]) -> None:
    page = make_page([runs["pacfl"]])
    result = json.loads((runs["pacfl"] / "result.json").read_text())
    rows = [json.loads(line) for line in (runs["pacfl"] / "metrics.jsonl").read_text().splitlines()]
    found = titles(page)
    for protocol in ("L", "C", "W"):
        chart = found[f"Accuracy {protocol} over rounds"]
        assert isinstance(chart, Lines)
        assert chart.y_label == f"accuracy {protocol} (%)"
        assert chart.series[0].x == (1.0, 2.0, 3.0)
        assert list(chart.series[0].y) == pytest.approx([100 * row[protocol] for row in rows])
    assert "Accuracy G over rounds" not in found  # several models have no G
    megabytes = found["Accuracy L against megabytes"]
    assert isinstance(megabytes, Lines)
    assert list(megabytes.series[0].x) == pytest.approx([(r["up_bytes"] + r["down_bytes"]) / 1e6 for r in rows])
    each = found["Accuracy C of each client"]
    assert isinstance(each, Distribution)
    assert list(each.samples[0].values) == pytest.approx([100 * v for v in result["per_client"]["C"]])
    table = found["Results"]
    assert isinstance(table, Table)
    cells = dict(zip(table.columns, table.rows[0], strict=True))
    assert cells["L (%)"] == pytest.approx(100 * result["accuracy"]["L"])
    assert cells["+ (%)"] == pytest.approx(100 * result["accuracy"]["plus"])
    assert "G (%)" not in cells  # which no run on the page has
    assert cells["groups"] == 4
    goals = found["Targets"]
    assert isinstance(goals, Table)
    assert [row[3] for row in goals.rows] == [1, "never"]


@pytest.mark.integration
def test_groups_in_the_order_of_the_tree(runs: dict[str, Path]) -> None:
    found = titles(make_page([runs["pacfl"]]))
    heat, tree = found["Proximity of clients"], found["Tree of merges"]
    assert isinstance(heat, HeatMap)
    assert isinstance(tree, Dendrogram)
    assert heat.rows == heat.columns == tree.names
    assert heat.groups == tree.leaf_groups
    changes = sum(a != b for a, b in zip(heat.groups, heat.groups[1:], strict=False))
    assert changes == len(set(heat.groups)) - 1  # every group stands together
    assert all(heat.values[i][i] == pytest.approx(0, abs=1e-6) for i in range(8))
    result = json.loads((runs["pacfl"] / "result.json").read_text())
    assert tree.cut == result["grouping"]["threshold"]
    profiles = found["Labels of each group"]
    assert isinstance(profiles, HeatMap)
    assert all(sum(v or 0 for v in row) == pytest.approx(100) for row in profiles.values)
    plane = found["Map of clients, true groups"]
    assert isinstance(plane, Scatter)
    assert {point.name: point.group for point in plane.points} == {
        str(c): g for c, g in enumerate(result["true_groups"])
    }


def test_who_gains_against_solo(runs: dict[str, Path]) -> None:
    page = make_page([runs["pacfl"], runs["solo"]])
    chart = titles(page)["pacfl against solo, client by client (C)"]
    assert isinstance(chart, Bars)
    ours, alone = (json.loads((runs[name] / "result.json").read_text())["per_client"] for name in ("pacfl", "solo"))
    expected = {str(c): 100 * (a - b) for c, (a, b) in enumerate(zip(ours["C"], alone["L"], strict=True))}
    for place, client in enumerate(chart.categories):
        known = [series.y[place] for series in chart.series if series.y[place] is not None]
        assert known == [pytest.approx(expected[client])]
    gain, lose = (sum(sign * v > 0 for v in expected.values()) for sign in (1, -1))
    assert f"under C {gain} of 8 clients gain, {lose} lose" in words(page)


def test_solo_of_another_seed_is_no_measure(runs: dict[str, Path]) -> None:
    page = make_page([runs["pacfl"], runs["other"]])
    assert not [title for title in titles(page) if "against solo" in title]
    assert "These runs differ in more than the method: in seed." in words(page)
    assert "Who gains and who loses against training alone is shown if" in words(page)


def test_newcomers_and_events(runs: dict[str, Path]) -> None:
    page = make_page([runs["late"]])
    result = json.loads((runs["late"] / "result.json").read_text())
    found = titles(page)
    table = found["Newcomers (pacfl)"]
    assert isinstance(table, Table)
    assert [row[0] for row in table.rows] == result["newcomers"]["clients"]
    events = found["Events"]
    assert isinstance(events, Table)
    assert [(row[1], row[2]) for row in events.rows] == [("not reached (dropped)", result["events"][0]["count"])]
    curve = found["Accuracy L over rounds"]
    assert isinstance(curve, Lines)
    assert [(mark.at, mark.text) for mark in curve.marks] == [(2, "newcomers")]


def test_events_name_clients_strikes_and_who_is_left_out(copy: Path) -> None:
    file = copy / "result.json"
    result = json.loads(file.read_text())
    events = Events()
    nan, wide = "train: 'w' holds a NaN or an infinity", "train: 'w' is float32 (4,), expected float32 (2,)"
    for client, when, kind, detail in (
        *(
            (5, 1, "invalid", nan),
            (5, 2, "invalid", wide),
            (5, 2, "left out", "2 invalid replies: it is asked no more"),
        ),
        *((6, 3, "invalid", nan), (1, 2, "late", ""), (-1, 3, "turned away", "a node calls itself 'a'")),
        *((3, 3, "odd", "of a kind that has no words"),),
    ):
        events.note(Failure(client, when, kind, detail))
    file.write_text(json.dumps(result | {"events": events.entries()}))
    config = (copy / "config.toml").read_text().replace("# max_strikes = ", "max_strikes = 2")
    (copy / "config.toml").write_text(config)
    (copy / "sites.json").write_text(json.dumps({"federation": "f", "sites": {"oslo": {"client": 5}}}))
    page = make_page([copy])
    table, chart = titles(page)["Events"], titles(page)["Events of each client (pacfl)"]
    assert isinstance(table, Table)
    assert isinstance(chart, Bars)
    assert [row[1:7] for row in table.rows] == [
        ("nonsense (invalid)", 3, 1, 3, "5 (oslo) × 2, 6", f"{nan} (× 2); {wide}"),
        ("left out", 1, 2, 2, "5 (oslo)", "2 invalid replies: it is asked no more"),
        ("late", 1, 2, 2, "1", "–"),
        ("turned away", 1, 3, 3, "–", "a node calls itself 'a'"),
        ("odd", 1, 3, 3, "3", "of a kind that has no words"),
    ]
    assert "2 clients sent nonsense; after 2 such replies a client is no longer asked" in words(page)
    assert "left out: 5 (oslo)." in words(page)
    assert "2 clients sent nonsense, 1 of them so often that it is no longer asked." in page.summary[1]
    assert chart.categories == ("1", "3", "5 (oslo)*", "6")
    assert {series.name: series.y for series in chart.series} == {
        "nonsense": (None, None, 2.0, 1.0),
        "late": (1.0, None, None, None),
        "odd": (None, 1.0, None, None),
    }


def test_events_of_older_results_have_an_example_only(copy: Path) -> None:
    file = copy / "result.json"
    old = {"kind": "late", "count": 2, "first_round": 1, "last_round": 2, "example": "client 4, round 1"}
    file.write_text(json.dumps(json.loads(file.read_text()) | {"events": [old]}))
    table = titles(make_page([copy]))["Events"]
    assert isinstance(table, Table)
    assert table.rows[0][1:7] == ("late", 2, 1, 2, "–", "client 4, round 1")


def test_pruning_and_curricula(runs: dict[str, Path]) -> None:
    page = make_page([runs["pruned"]])
    result = json.loads((runs["pruned"] / "result.json").read_text())
    found = titles(page)
    pruned = found["Pruned share and accuracy of clients (sub-fedavg-un)"]
    assert isinstance(pruned, Scatter)
    by_client = result["details"]["pruned_by_client"]
    assert {p.name: p.x for p in pruned.points} == {f"client {c}": pytest.approx(100 * s) for c, s in by_client.items()}
    assert [p.y for p in pruned.points] == pytest.approx([100 * result["per_client"]["L"][int(c)] for c in by_client])
    pool = found["The pool of clients over rounds"]
    assert isinstance(pool, Lines)
    assert pool.series[0].x == (1.0, 2.0, 3.0)
    assert "The pool of samples within a local training" in found
    assert "Groups" not in [section.heading for section in page.sections]


def test_the_command_that_reruns_it(runs: dict[str, Path], tmp_path: Path) -> None:
    command = titles(make_page([runs["solo"]]))["The command that reruns it (solo)"].text  # type: ignore[attr-defined]
    words = command.split()
    assert words[:2] == ["coterie", "run"]
    from coterie.results.formats import read_toml
    from coterie.run.runner import start
    from coterie.run.validation import make_config

    config = make_config(read_toml(Path(words[2])), words[2])
    config.run.out = str(tmp_path / "again")
    again, before = start(config).to_json(), json.loads((runs["solo"] / "result.json").read_text())
    assert {key: again[key] for key in ("accuracy", "per_client")} == {
        key: before[key] for key in ("accuracy", "per_client")
    }


def test_metrics_cut_in_the_middle(copy: Path) -> None:
    text = (copy / "metrics.jsonl").read_text()
    second = text.index("\n", text.index("\n") + 1)
    (copy / "metrics.jsonl").write_text(text[: second - 20])
    page = make_page([copy])
    curve = titles(page)["Accuracy L over rounds"]
    assert isinstance(curve, Lines)
    assert curve.series[0].x == (1.0,)
    (said,) = [text for text in page.summary if text.startswith("Line 2 of metrics.jsonl is cut short or damaged (")]
    assert said.endswith("): it is left out.")
    assert "metrics.jsonl ends with round 1, but the run had 3: curves are not complete." in page.summary


@pytest.mark.parametrize("line", ["[1]", '{"L": 1}', '{"round": 1, "L": 0.9}', '{"round": "x"}', "\udcff"])
def test_a_line_that_can_not_be_right_ends_the_curve(copy: Path, line: str) -> None:
    rows = (copy / "metrics.jsonl").read_bytes().splitlines()
    (copy / "metrics.jsonl").write_bytes(b"\n".join([rows[0], line.encode(errors="surrogateescape"), rows[2]]))
    run = read_run(copy)
    assert [row["round"] for row in run.history] == [1]
    (said,) = [text for text in run.warnings if text.startswith("Line 2 of metrics.jsonl is cut short or damaged (")]
    assert said.endswith("): it and all after it are left out.")


def test_accuracies_that_are_no_numbers(copy: Path) -> None:
    rows = [json.loads(line) for line in (copy / "metrics.jsonl").read_text().splitlines()]
    rows[1] |= {"L": float("nan"), "C": float("inf")}
    (copy / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    result = json.loads((copy / "result.json").read_text())
    result["accuracy"]["L"] = result["per_client"]["L"][0] = float("nan")
    (copy / "result.json").write_text(json.dumps(result))
    page = make_page([copy])
    curve = titles(page)["Accuracy L over rounds"]
    assert isinstance(curve, Lines)
    assert curve.series[0].y[1] is None
    assert curve.series[0].y[2] is not None
    assert "Accuracy L is no number in round 2: it is shown as not measured." in page.summary
    assert "Accuracy C is no number in round 2: it is shown as not measured." in page.summary
    assert "own model is right on" not in page.summary[1]
    assert "nan" not in render(page).lower().replace("namespace", "")


def test_unfinished_and_empty_runs(copy: Path) -> None:
    (copy / "result.json").unlink()
    page = make_page([copy])
    assert (
        f"This run is not finished: the last evaluation was in round 3 of 3. Go on with `coterie resume {copy}`."
        in page.summary
    )
    assert "At the last evaluation each client's own model" in page.summary[1]
    assert isinstance(titles(page)["Accuracy L over rounds"], Lines)
    for name in ("metrics.jsonl", "views.safetensors"):
        (copy / name).unlink()
    page = make_page([copy])
    assert "No accuracy was measured." in page.summary
    assert any("nothing was measured yet" in text for text in page.summary)
    assert "No accuracy was measured in any round." in words(page)
    render(page)


def test_an_old_folder_says_what_is_missing(copy: Path) -> None:
    (copy / "views.safetensors").unlink()
    page = make_page([copy])
    assert any("There is no views.safetensors" in text for text in page.summary)
    assert "No proximities of clients are known" in words(page)
    assert "Proximity of clients" not in titles(page)
    (copy / "views.safetensors").write_bytes(b"\1\2")
    assert any("views.safetensors is damaged" in text for text in make_page([copy]).summary)


@pytest.mark.parametrize(
    ("file", "content", "says"),
    [
        ("result.json", "{", "result.json' is damaged"),
        ("result.json", "[]", "is not the result of a run"),
        ("result.json", '{"accuracy": {}}', "it has no 'per_client'"),
        ("config.toml", "[", "config.toml' is damaged"),
    ],
)
def test_damaged_files_are_refused(copy: Path, file: str, content: str, says: str) -> None:
    (copy / file).write_text(content)
    with pytest.raises(CoterieError, match=says):
        make_page([copy])


def test_what_is_no_run(tmp_path: Path, runs: dict[str, Path]) -> None:
    (tmp_path / "file").write_text("")
    for path, says in (
        (tmp_path, "has no config.toml"),
        (tmp_path / "file", "is a file"),
        (tmp_path / "no", "not exist"),
    ):
        with pytest.raises(CoterieError, match=says):
            make_page([runs["solo"], path])
    with pytest.raises(CoterieError, match="say which folders"):
        make_page([])


def test_the_same_folder_twice_is_shown_once(runs: dict[str, Path]) -> None:
    page = make_page([runs["solo"], runs["solo"]])
    assert len(titles(page)["Results"].rows) == 1  # type: ignore[attr-defined]


def test_runs_of_one_method_have_names_of_their_own(runs: dict[str, Path]) -> None:
    page = make_page([runs["solo"], runs["other"]])
    assert [row[0] for row in titles(page)["Results"].rows] == ["solo (solo)", "solo (other)"]  # type: ignore[attr-defined]


@pytest.mark.integration
def test_the_command(runs: dict[str, Path], tmp_path: Path) -> None:
    arguments = ["report", str(runs["pacfl"]), "--out", str(tmp_path / "new" / "page.html")]
    done = CliRunner().invoke(app, [*arguments, "--figures", str(tmp_path / "figures"), "--formats", "svg"])
    assert done.exit_code == 0, done.output
    assert (tmp_path / "new" / "page.html").read_text(encoding="utf-8").startswith("<!doctype html>")
    drawn = [chart for _, chart in charts_of(make_page([runs["pacfl"]])) if not isinstance(chart, Table)]
    assert 10 < len(list((tmp_path / "figures").glob("*.svg"))) <= len(drawn)
    with pytest.raises(CoterieError, match="is a folder"):
        CliRunner().invoke(app, [*arguments[:2], "--out", str(tmp_path)], catch_exceptions=False)
    with pytest.raises(CoterieError, match="'gif'"):
        CliRunner().invoke(app, [*arguments, "--formats", "gif"], catch_exceptions=False)


def test_only_names_that_are_alike_get_longer(runs: dict[str, Path], tmp_path: Path) -> None:
    twin = Path(shutil.copytree(runs["solo"], tmp_path / "solo"))
    page = make_page([runs["pacfl"], runs["solo"], twin])
    names = [row[0] for row in titles(page)["Results"].rows]  # type: ignore[attr-defined]
    assert names == ["pacfl", f"solo ({runs['solo']})", f"solo ({twin})"]
    assert page.summary[0].startswith("pacfl, solo (")  # their settings are the same, and said once


def test_several_runs_are_ranked_by_protocol(runs: dict[str, Path]) -> None:
    page = make_page([runs["solo"], runs["pacfl"], runs["pruned"]])
    accuracy = {name: json.loads((runs[name] / "result.json").read_text())["accuracy"] for name in ("pacfl", "pruned")}
    best = sorted([("pacfl", accuracy["pacfl"]["C"]), ("sub-fedavg-un", accuracy["pruned"]["C"])], key=lambda p: -p[1])
    told = ", ".join(f"{name} {100 * number:.1f} %" for name, number in best)
    assert f"Under C: {told}." in words(page)  # SOLO has no C
    assert "Under +: " in words(page)


def test_what_was_not_tested_on_test_samples_says_so(runs: dict[str, Path]) -> None:
    told = "Test samples are here 25 % of each client's training samples"
    assert told in words(make_page([runs["other"]]))
    assert told in words(make_page([runs["solo"], runs["other"]]))
    assert told not in words(make_page([runs["solo"]]))


def test_a_target_is_reached_or_not_or_not_defined(runs: dict[str, Path]) -> None:
    rows = {name: titles(make_page([runs[name]]))["Targets"].rows for name in ("pacfl", "other")}  # type: ignore[attr-defined]
    assert [row[3] for row in rows["pacfl"]] == [1, "never"]
    assert [row[3] for row in rows["other"]] == ["not defined for the method"]
