"""``coterie inspect``, ``coterie pairs`` and ``coterie layers`` in a shell."""

import json
from pathlib import Path

import pytest
from command_line import cli, refusal

SMALL = ["--dataset", "digits-rotated", "--clients", "8"]
QUICK = ["--rounds", "1", "--epochs", "1", "--samples", "40", "--seeds", "1"]


@pytest.mark.integration
def test_inspect_prints_json_and_nothing_else(place: Path) -> None:
    answer = cli("inspect", *SMALL, "--json", "--quiet")
    found = json.loads(answer.out)
    assert answer.err == ""
    assert {"measures", "against", "grouping", "advice", "map", "classes", "labels", "clients"} <= set(found)
    assert found["advice"]["choice"] == "cluster"
    assert found["grouping"]["n_groups"] == found["advice"]["groups"] == 4
    assert list(found["measures"]) == ["angles", "sum_angles", "labels"]
    assert not list(place.iterdir())


@pytest.mark.integration
def test_inspect_takes_a_file_and_tells_what_it_wrote(place: Path) -> None:
    (place / "own.toml").write_text('[data]\nname = "digits"\nclients = 4\n', encoding="utf-8")
    answer = cli("inspect", "own.toml", "--measures", "labels", "--seed", "3", "--out", "out")
    assert answer.code == 0
    assert "digits, 4 clients, seed 3, iid" in answer.out
    assert "Advice: Train one model" in answer.out
    assert "out/inspection.html" in answer.out
    assert (place / "out" / "proximity-labels.png").exists()


@pytest.mark.integration
def test_pairs_prints_json(place: Path) -> None:
    answer = cli("pairs", "--dataset", "digits", "--c1", "8,9", "--c2", "8,9;0,1", *QUICK, "--json", "--quiet")
    found = json.loads(answer.out)
    assert found["c1"] == [8, 9]
    assert [row["labels"] for row in found["rows"]] == [[8, 9], [0, 1]]
    assert not list(place.iterdir())


def test_pairs_has_no_flags_for_what_it_sets_itself() -> None:
    answer = cli("pairs", "--c1", "8", "--c2", "9", "--partition", "iid")
    assert answer.code == 2
    assert "No such option" in answer.err


def test_layers_of_a_run(finished: Path) -> None:
    answer = cli("layers", finished, "--inputs", "20", "--json", "--quiet")
    found = json.loads(answer.out)
    assert found["runs"][0]["layers"] == ["fc1", "fc2"]
    assert len(found["runs"][0]["clients"]) >= 2


def test_refusals() -> None:
    assert "did you mean 'angles'?" in refusal(cli("inspect", "--measures", "angels"))
    assert "did you mean 'digits'?" in refusal(cli("inspect", "--dataset", "digit"))
    assert "--c1 has a set without labels" in refusal(cli("pairs", "--c2", "8"))
    assert "is not a run folder" in refusal(cli("layers", "nowhere"))
