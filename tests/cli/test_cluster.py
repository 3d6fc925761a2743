"""``coterie cluster``, and the flags of [grouping]."""

import json
from pathlib import Path

import numpy as np
import pytest
from command_line import SMALL, cli, refusal

ROTATED = ["--dataset", "digits-rotated"]


@pytest.mark.integration
def test_json_has_the_fields_that_scripts_rely_on(place: Path) -> None:
    answer = cli("cluster", *ROTATED, "--json")
    found = json.loads(answer.out)
    assert set(found) == {
        "groups", "n_groups", "rule", "threshold", "unit", "reason", "confidence", "heights", "true_groups", "ari",
    }  # fmt: skip
    assert (found["n_groups"], found["ari"], found["rule"], found["unit"]) == (4, 1.0, "auto", "times noise")
    assert found["groups"] == found["true_groups"]
    assert len(found["heights"]) == 19
    assert not list(place.iterdir())


def test_the_table_shows_groups_with_their_labels(place: Path) -> None:
    out = cli(
        "cluster", "--dataset", "digits", "--partition", "label-skew:rho=0.2", "--clients", "12", "--groups", "3"
    ).out
    assert "3 groups by rule 'count'" in out
    assert "labels of their samples" in out
    assert "%" in out


@pytest.mark.integration
def test_pictures_are_written_where_out_says(place: Path) -> None:
    answer = cli("cluster", *ROTATED, "--clients", "8", "--out", "pictures")
    assert answer.code == 0
    names = {f"{name}.{kind}" for name in ("proximity", "dendrogram", "thresholds") for kind in ("png", "svg")}
    assert {path.name for path in (place / "pictures").iterdir()} == names
    assert "pictures/proximity.png" in answer.out


@pytest.mark.parametrize(
    ("flags", "rule", "unit"),
    [
        (["--threshold", "8"], "degrees", "degrees"),
        (["--groups", "4"], "count", "degrees"),
        (["--granularity", "1.4"], "auto", "times noise"),
        (["--rule", "gap"], "gap", "degrees"),
        (["--rule", "silhouette"], "silhouette", "degrees"),
        (["--rule", "demo"], "demo", "degrees"),
        (["--set", "grouping.groups=2", "--linkage", "complete"], "count", "degrees"),
    ],
)
def test_every_rule_can_be_asked_for(flags: list[str], rule: str, unit: str, place: Path) -> None:
    found = json.loads(cli("cluster", *ROTATED, "--clients", "8", *flags, "--json").out)
    assert (found["rule"], found["unit"]) == (rule, unit)
    assert found["n_groups"] == max(found["groups"]) + 1


@pytest.mark.integration
def test_degrees_are_the_papers_way_unless_told(place: Path) -> None:
    """A threshold brings signatures per label and min_entry with it; both may be set."""
    heights = [
        json.loads(cli("cluster", *ROTATED, "--clients", "6", "--threshold", "5", *more, "--json").out)["heights"]
        for more in ([], ["--set", "algorithm.signature=per-label", "--set", "algorithm.measure=min_entry"],
                     ["--set", "algorithm.signature=whole"], ["--linkage", "single"])
    ]  # fmt: skip
    assert heights[0] == heights[1]
    assert heights[0] != heights[2]
    assert heights[0] != heights[3]


def test_one_client_and_two(place: Path) -> None:
    for clients in (1, 2):
        found = json.loads(cli("cluster", "--dataset", "digits", "--clients", clients, "--json").out)
        assert found["groups"] == [0] * clients
    assert cli("cluster", "--dataset", "digits", "--clients", "1", "--out", "p").code == 0


def test_clients_without_an_answer_are_named(place: Path) -> None:
    answer = cli("cluster", *ROTATED, "--clients", "8", "--drop", "0.5", "--json")
    found = json.loads(answer.out)
    missing = [client for client, group in enumerate(found["groups"]) if group is None]
    assert missing
    assert all(f"client {client} did not answer" in answer.err for client in missing)
    assert "nothing to group" in refusal(cli("cluster", *ROTATED, "--clients", "4", "--drop", "1"))


@pytest.mark.integration
def test_kindred_names_clients_that_cannot_be_compared_and_their_group(place: Path) -> None:
    """Two clients have one sample of each label, one has a label that nobody else has enough of."""
    rng, common = np.random.default_rng(0), np.arange(60) % 6
    labels = [np.full(20, 6), *[common] * 5, np.arange(20), np.arange(20)]
    users = np.repeat(np.arange(8), [len(own) for own in labels])
    x = rng.random((len(users), 6, 6), np.float32)
    np.savez(place / "few.npz", x_train=x, y_train=np.concatenate(labels), user_train=users)
    flags = ["--algorithm", "kindred", "--dataset", "few.npz", "--partition", "by-user"]
    answer = cli("cluster", *flags, "--json")
    found = json.loads(answer.out)
    assert answer.err.count("too few samples of each label to be compared") == 2, answer.err
    assert "it joins the largest group, 0" in answer.err
    assert "it is in no group" not in answer.err
    assert found["groups"] == [0] * 8
    assert found["n_groups"] == 1
    assert "1 client that shared a group with nobody joined" in found["reason"]
    shown = cli("cluster", *flags)
    assert shown.err == answer.err
    assert "1 group by rule 'concepts'" in shown.out


@pytest.mark.integration
def test_kindred_says_that_nobody_can_be_compared(place: Path) -> None:
    rng = np.random.default_rng(0)
    np.savez(place / "few.npz", x_train=rng.random((24, 6, 6), np.float32), y_train=np.arange(24) % 8)
    flags = ["--algorithm", "kindred", "--dataset", "few.npz", "--clients", "8"]
    assert "no client has enough samples of a label to be compared" in refusal(cli("cluster", *flags))


@pytest.mark.parametrize(
    ("flags", "named"),
    [
        (["--threshold", "5", "--groups", "4"], ["threshold and groups exclude each other"]),
        (["--rule", "gap", "--threshold", "5"], ["belongs to rule 'degrees'"]),
        (["--rule", "degrees"], ["needs the option 'threshold'"]),
        (["--rule", "best"], ["unknown rule 'best'", "auto"]),
        (["--groups", "0"], ["grouping.groups", "greater than or equal to 1"]),
        (["--granularity", "-1"], ["grouping.granularity"]),
        (["--linkage", "averge"], ["grouping.linkage"]),
        (["--algorithm", "fedavg"], ["'fedavg' forms no groups", "pacfl"]),
        (["--set", "algorithm.measure=theta2"], ["measure", "theta1"]),
        (["--set", "algorithm.p=0"], ["p", "1"]),
    ],
)
def test_wrong_wishes_are_refused_before_data_are_read(flags: list[str], named: list[str], place: Path) -> None:
    message = refusal(cli("cluster", *ROTATED, *flags))
    assert all(part in message for part in named), message


def test_a_method_without_groups_takes_no_wish_for_them(place: Path) -> None:
    message = refusal(cli("run", *SMALL, "--algorithm", "fedavg", "--groups", "4"))
    assert "'fedavg' takes no options for groups" in message
    assert "set by --groups" in message


@pytest.mark.integration
def test_groups_of_a_run_are_those_of_cluster(place: Path) -> None:
    assert cli("run", *SMALL, "--algorithm", "pacfl", "--out", "r").code == 0
    result = json.loads((place / "r" / "result.json").read_text())
    found = json.loads(cli("cluster", *SMALL, "--json").out)
    assert result["groups"] == found["groups"]
    assert result["grouping"] == {key: found[key] for key in ("rule", "threshold", "unit", "reason", "confidence")}


HARD = {
    "black": np.zeros((40, 6, 6)),
    "identical": np.tile(np.arange(36.0).reshape(6, 6), (40, 1, 1)),
    "one black client": np.concatenate([np.zeros((10, 6, 6)), np.random.default_rng(0).random((30, 6, 6))]),
}


@pytest.mark.parametrize("name", HARD)
@pytest.mark.parametrize("flags", [[], ["--threshold", "5"], ["--rule", "gap"], ["--rule", "silhouette"]], ids=str)
def test_hard_data_give_groups_and_no_nan(name: str, flags: list[str], place: Path) -> None:
    np.savez(place / "hard.npz", x_train=HARD[name].astype(np.float32), y_train=np.arange(40) % 2)
    found = json.loads(cli("cluster", "--dataset", "hard.npz", "--clients", "4", *flags, "--json").out)
    assert len(found["groups"]) == 4
    assert np.isfinite(found["heights"]).all()
    if name != "one black client":
        assert found["n_groups"] == 1


def test_clients_with_two_samples_borrow_the_noise_of_others(place: Path) -> None:
    rng = np.random.default_rng(1)
    np.savez(place / "few.npz", x_train=rng.random((26, 6, 6), np.float32), y_train=np.arange(26) % 2)
    found = json.loads(cli("cluster", "--dataset", "few.npz", "--clients", "8", "--json").out)
    assert len(found["groups"]) == 8
    assert np.isfinite(found["heights"]).all()
