"""Runs with private signatures: what they say of it, the limit of clients, and what is refused."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import coterie
from coterie.errors import CoterieError
from coterie.privacy import gaussian_epsilon, gaussian_sigma

SMALL: dict[str, Any] = {
    "algorithm": "pacfl", "dataset": "digits-rotated", "clients": 8, "rounds": 2, "fraction": 1.0, "epochs": 1,
    "workers": 1,
}  # fmt: skip
EIGHT = "epsilon=8,delta=1e-5"
TOLD = ["evaluate", "train", "numbers of samples"]


@pytest.fixture(scope="module")
def private_run(tmp_path_factory: pytest.TempPathFactory) -> coterie.Result:
    return coterie.run(**SMALL, dp_signature=EIGHT, out=tmp_path_factory.mktemp("private") / "run")


@pytest.mark.integration
def test_a_run_says_what_is_private_and_what_is_not(private_run: coterie.Result) -> None:
    (entry,) = private_run.privacy or []
    assert (entry["unit"], entry["delta"], entry["releases"], entry["simulated"]) == ("sample", 1e-5, 1, True)
    assert entry["epsilon"] == pytest.approx(8.0)
    assert entry["not_covered"] == TOLD
    assert private_run.ari == 1.0
    assert private_run.folder is not None
    assert json.loads((private_run.folder / "result.json").read_text())["privacy"] == [entry]
    assert "ε = 8, δ = 1e-05 for one sample" in " ".join(private_run.report().split())
    coterie.report(private_run.folder)
    page = (private_run.folder / "report.html").read_text()
    assert "Privacy of what clients tell" in page
    assert "Not covered: evaluate, train, numbers of samples." in page


@pytest.mark.integration
def test_noise_is_the_same_again_and_changes_the_signature(private_run: coterie.Result) -> None:
    again, plain = coterie.run(**SMALL, dp_signature=EIGHT), coterie.run(**SMALL)
    assert again.accuracy == private_run.accuracy
    assert plain.privacy is None
    assert (plain.grouping or {})["confidence"] != (again.grouping or {})["confidence"]


@pytest.mark.integration
def test_what_is_asked_again_is_added_up() -> None:
    """With redescribe clients describe themselves before training, and in each of two rounds."""
    result = coterie.run(**SMALL, dp_signature=EIGHT, algorithm_options={"redescribe": 1})
    (entry,) = result.privacy or []
    assert entry["releases"] == 3
    assert entry["epsilon"] == pytest.approx(gaussian_epsilon(gaussian_sigma(8.0, 1e-5) / np.sqrt(3), 1e-5))


@pytest.mark.integration
def test_beyond_the_limit_clients_withhold_and_the_run_goes_on(tmp_path: Path) -> None:
    """ε = 8 is within a limit of 9, once: when clients are asked again in round 1, they refuse."""
    limited = {**SMALL, "dp_signature": EIGHT, "privacy_limit": "epsilon=9,delta=1e-5"}
    options = {"redescribe": 1}
    result = coterie.run(
        **limited, unprotected=["train", "evaluate"], algorithm_options=options, out=tmp_path / "run", metric="accuracy"
    )
    withheld = next(event for event in result.events if event["kind"] == "withheld")
    assert withheld["count"] == 16
    assert all("beyond its limit of 9 at δ = 1e-05" in detail for detail in withheld["details"])
    assert result.ari == 1.0
    assert (result.accuracy["C"] or 0) > 0.1
    assert sorted(path.name for path in (tmp_path / "run" / "ledgers").iterdir()) == [str(k) for k in range(8)]
    (entry,) = result.privacy or []
    assert entry["not_covered"] == TOLD


@pytest.mark.integration
def test_with_a_limit_nothing_is_trained_unless_it_is_named() -> None:
    result = coterie.run(**SMALL, dp_signature=EIGHT, privacy_limit="epsilon=8")
    assert result.accuracy["L"] is None
    assert result.groups is not None
    assert result.ari == 1.0
    (entry,) = result.privacy or []
    assert entry["not_covered"] == []


def test_groups_without_training_say_it_too() -> None:
    groups = coterie.cluster(dataset="digits-rotated", clients=8, dp_signature=EIGHT)
    assert groups.ari == 1.0
    assert groups.privacy is not None
    assert groups.to_json()["privacy"] == groups.privacy
    assert groups.privacy[0]["not_covered"] == ["numbers of samples"]
    assert "Not covered: numbers of samples." in " ".join(groups.report().split())


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"algorithm": "fedavg"}, "it asks clients for no signature"),
        ({"algorithm": "kindred"}, "means of labels, which have no private form"),
        ({"algorithm": "flag"}, "first updates"),
        ({"algorithm": "fielding"}, "in every round"),
        ({"algorithm": "pacfl:inputs=normalised"}, "not public"),
        ({"algorithm": "pacfl:budget=5"}, "budget is of signatures without noise"),
        ({"algorithm": "pacfl", "dp_signature": "epsilon=0"}, "greater than 0"),
        ({"algorithm": "pacfl", "dp_signature": "epsilon=1,delta=2"}, "between 0 and 1"),
        ({"algorithm": "pacfl", "dp_signature": "delta=1e-5"}, "epsilon=1,delta=1e-5"),
        ({"algorithm": "pacfl", "privacy_limit": "1"}, "epsilon=1,delta=1e-5"),
        ({"algorithm": "pacfl", "unprotected": ["train"]}, "there is none: set limit"),
        ({"algorithm": "pacfl", "privacy_limit": "epsilon=1", "unprotected": ["all"]}, "there is no verb 'all'"),
    ],
)
def test_what_can_not_be_private_is_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(CoterieError, match=message):
        coterie.run(**{"dp_signature": "epsilon=1", **settings})


def test_an_inspection_asks_for_nothing_without_noise() -> None:
    from coterie.inspect.inspection import inspect
    from coterie.run.validation import make_config

    tables: dict[str, Any] = {
        "data": {"name": "digits-rotated", "clients": 8}, "algorithm": {"name": "pacfl"},
        "privacy": {"dp_signature": EIGHT, "limit": "epsilon=100"},
    }  # fmt: skip
    inspected = inspect(make_config(tables))
    (entry,) = inspected.view.groups.privacy or []
    assert entry["releases"] == 3  # to group, counts, and for measures of angles
    assert entry["not_covered"] == []
    assert inspected.advice.choice == "cluster"
    assert "--dp-signature epsilon=8,delta=1e-05" in inspected.advice.command
    assert not np.array_equal(inspected.view.counts, inspected.view.groups.counts)
    with pytest.raises(CoterieError, match="'emd' has no private form"):
        inspect(make_config(tables), measures="emd")
