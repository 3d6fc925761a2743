"""Groups that the user gives: what is trained in them, where they are read from, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import coterie
from coterie.algorithms.given_groups import read_groups
from coterie.errors import CoterieError
from coterie.federation.loop import rounds
from coterie.testing import outcome, small_federation, small_run

RUN: dict[str, Any] = {"clients": 8, "rounds": 2, "eval_every": 0, "fraction": 0.5}


def models_after(method: str, **settings: Any) -> tuple[list[dict[str, Any]], dict[int, int]]:
    """The model that each client would receive after a run, and the groups."""
    with small_federation(method, **{**RUN, **settings}) as (run, data):
        list(rounds(run.fed, run.algorithm, run.evaluator, every=0))
        served = [run.algorithm.model_for(client) for client in range(data.clients)]
        return served, dict(run.algorithm.groups() or {})  # type: ignore[return-value]


def assert_same_models(a: list[dict[str, Any]], b: list[dict[str, Any]]) -> None:
    for one, other in zip(a, b, strict=True):
        assert all(np.array_equal(one[name], other[name]) for name in one)


@pytest.mark.integration
def test_the_groups_that_pacfl_finds_train_what_pacfl_trains() -> None:
    theirs, groups = models_after("pacfl", groups=3)
    listed = [groups[client] for client in range(8)]
    ours, same = models_after("given-groups", algorithm_options={"groups_of": listed})
    assert same == groups
    assert_same_models(ours, theirs)


@pytest.mark.integration
def test_one_group_is_fedavg() -> None:
    ours, groups = models_after("given-groups", algorithm_options={"groups_of": "one"})
    assert set(groups.values()) == {0}
    assert_same_models(ours, models_after("fedavg")[0])


@pytest.mark.integration
def test_groups_of_the_data_are_the_true_ones_before_and_after_a_drift() -> None:
    settings = {**RUN, "dataset_options": {"drift_at": 2}, "algorithm_options": {"groups_of": "data"}}
    with small_federation("given-groups", **settings) as (run, _):
        for t, _ in rounds(run.fed, run.algorithm, run.evaluator, every=0):
            assert run.algorithm.groups() == {client: (client + (t >= 2)) % 4 for client in range(8)}
        assert run.algorithm.details() == {"groups": ["0", "1", "2", "3"]}


@pytest.mark.integration
@pytest.mark.parametrize("name", ["groups.csv", "groups.json", "list.json"])
def test_a_file_says_what_a_setting_says(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    named = ["north", "south", "north", "south", "west", "west"]
    content = {
        "groups.csv": "client,group\n" + "".join(f"{client}, {group}\n" for client, group in enumerate(named)),
        "groups.json": json.dumps({str(client): group for client, group in enumerate(named)}),
        "list.json": json.dumps(named),
    }[name]
    (tmp_path / name).write_text(content)
    monkeypatch.chdir(tmp_path)
    small = {"rounds": 1, "eval_every": 0}
    by_file = coterie.run(
        algorithm="given-groups", algorithm_options={"file": name}, out="run", dataset="digits", clients=6, **small
    )
    by_setting = coterie.run(
        algorithm="given-groups:groups_of=" + "+".join(named), dataset="digits", clients=6, **small
    )
    assert by_file.groups == by_setting.groups == [0, 1, 0, 1, 2, 2]
    assert by_file.per_client == by_setting.per_client
    assert str(tmp_path / name) in Path("run/config.toml").read_text()  # so that it can be run from anywhere
    Path(name).unlink()
    assert coterie.resume("run", rounds=2).groups == by_file.groups  # what it said is kept with the run


@pytest.mark.integration
def test_a_newcomer_that_nobody_named_takes_the_best_model_and_is_told_of(tmp_path: Path) -> None:
    late = {"newcomers": 0.25, "newcomer_draw": "last", "join_at": 1, "clients": 8, "rounds": 2, "eval_every": 0}
    named = {"groups_of": [0, 1, 2, 3, 0, 1, 2]}  # client 7 is not named
    result = small_run("given-groups", **late, algorithm_options=named)
    assert result.groups is not None
    assert result.groups[6] == 2
    assert result.groups[7] in range(4)
    (event,) = result.events
    assert (event["kind"], event["count"], [*event["clients"]]) == ("no group", 1, ["7"])
    assert "does not name it" in event["example"]
    assert outcome(result) == outcome(small_run("given-groups", **late, algorithm_options=named))


@pytest.mark.integration
def test_a_column_of_the_data_says_the_groups(tmp_path: Path) -> None:
    """Users of two regions; attributes say where each sample is from."""
    rng = np.random.default_rng(0)
    users = np.repeat(np.arange(6), 40)
    south = np.isin(users, [1, 4, 5])
    np.savez(
        tmp_path / "regions.npz",
        x_train=rng.normal(size=(240, 5)).astype(np.float32) + 3.0 * south[:, None].astype(np.float32),
        y_train=rng.integers(0, 2, 240),
        user_train=users,
        attributes=np.stack([~south, south], axis=1).astype(np.int64),
        attribute_names=np.array(["north", "south"]),
    )
    settings = {"dataset": str(tmp_path / "regions.npz"), "model": "mclr", "rounds": 1, "eval_every": 0, "clients": 6}
    result = coterie.run(algorithm="given-groups", partition="by-user:group_by=north+south", **settings)
    assert result.groups == [0, 1, 0, 0, 1, 1]
    assert result.ari == 1.0
    with pytest.raises(CoterieError, match="has no attribute 'west'"):
        coterie.run(algorithm="given-groups", partition="by-user:group_by=north+west", **settings)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"groups_of": [0, 1, 0]}, "client 3 is in no group; .* names those of 3 clients, and there are 6: name a gr"),
        ({"groups_of": "dta"}, "it names no groups: write data, one, the groups of clients 0, 1"),
        ({"groups_of": "0++1"}, "it names no groups"),
        ({"groups_of": []}, "it names no groups"),
        ({"groups_of": "data"}, "no groups that are known: write given-groups:groups_of=0\\+0\\+1\\+1, .*file="),
        ({"groups_of": [0] * 6, "file": "x.csv"}, "file and groups_of both say"),
        ({"file": "nowhere.csv"}, "the groups in '.*nowhere.csv' can't be read: .*No such file"),
    ],
)
def test_what_is_refused(options: dict[str, Any], told: str) -> None:
    with pytest.raises(CoterieError, match=told):
        small_run("given-groups", dataset="digits", rounds=1, algorithm_options=options)


@pytest.mark.parametrize(
    ("name", "content", "told"),
    [
        ("a.csv", "0,north\n1\n", "a line has 1 columns in place of two"),
        ("a.csv", "0,north\nx,south\n", "says 'x,south' where a client's number"),
        ("a.csv", "0,north\n0,south\n", "names two groups for client 0"),
        ("a.csv", "client,group\n", "names no client"),
        ("a.csv", "0,\n", "says '0,'"),
        ("a.json", "{", "can't be read"),
        ("a.json", '{"0": [1]}', "it should be"),
        ("a.json", '"north"', "it should be"),
        ("a.json", '{"-1": "north"}', "says '-1,north'"),
    ],
)
def test_files_that_are_refused(name: str, content: str, told: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(content)
    with pytest.raises(CoterieError, match=told):
        read_groups(tmp_path / name)


@pytest.mark.parametrize(("name", "content"), [("a.csv", "client,group\n0,north\n"), ("a.json", '{"0": "north"}')])
def test_a_file_may_begin_with_the_mark_of_excel(name: str, content: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(content, "utf-8-sig")
    assert read_groups(tmp_path / name) == {0: "north"}
