"""Runs with private training: what they cost, what they say, and what is refused."""

import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import coterie
from coterie.errors import CoterieError
from coterie.messages import ModelSpec
from coterie.privacy import Release, epsilon_of, gaussian_sigma
from coterie.run.privacy import private_training
from coterie.run.progress import Progress
from coterie.run.validation import make_config
from coterie.streams import stream

pytest.importorskip("dp_accounting", reason="needs the extra: pip install 'coterie[private]'")
WANTED = "epsilon=8,delta=1e-3,clip=2,min_group=2"
SPEC = ModelSpec("mlp", (64,), 10)
SMALL: dict[str, Any] = {
    "dataset": "digits-rotated", "clients": 40, "rounds": 3, "fraction": 0.5, "epochs": 1, "workers": 1, "lr": 0.05,
    "dp_training": WANTED, "eval_every": 0,
}  # fmt: skip


def tables(**privacy: Any) -> dict[str, Any]:
    return {
        "algorithm": {"name": "fedavg"}, "data": {"name": "digits", "clients": 40}, "privacy": privacy,
        "training": {"rounds": 30, "fraction": 0.2},
    }  # fmt: skip


def test_the_noise_is_the_least_that_is_enough_for_all_rounds() -> None:
    made = private_training(make_config(tables(dp_training="epsilon=3,delta=1e-4,clip=1")), SPEC)
    assert made is not None
    assert (made.clip, made.rate, made.min_group) == (1.0, 0.2, 10)
    costs = [epsilon_of([Release("models", made.noise * share, 30, 0.2)], 1e-4) for share in (1.0, 0.99)]
    assert costs[0] <= 3.0 < costs[1]


@pytest.mark.integration
@pytest.mark.parametrize("method", ["fedavg", "fedprox", "ifca:groups=4", "pacfl", "given-groups"])
def test_a_run_says_what_its_models_cost(method: str) -> None:
    result = coterie.run(algorithm=method, **SMALL)
    (entry,) = result.privacy or []
    assert (entry["what"], entry["unit"], entry["delta"], entry["releases"]) == ("models", "client", 1e-3, 3)
    assert 7.9 < entry["epsilon"] <= 8
    grouped = method in ("pacfl", "given-groups")  # whose groups do not follow from who took part
    assert ("who is in which group" in entry["not_covered"]) == grouped
    assert "how many took part" in entry["not_covered"]
    assert "by_client" not in result.traffic  # which would name them
    assert "δ = 0.001 for one client in 3 answers" in " ".join(result.report().split())


@pytest.mark.integration
def test_of_nobody_there_is_noise_and_the_same_again(tmp_path: Path) -> None:
    """Of 40 clients with coins of 0.02 often nobody comes: the model moves by noise alone, z S/(q n) in each number."""
    seed = next(seed for seed in range(100) if stream(seed, "coin", 1).random(40).min() >= 0.02)
    wanted = "epsilon=1,delta=1e-5,clip=2"
    settings = {**SMALL, "algorithm": "fedavg", "rounds": 1, "fraction": 0.02, "seed": seed, "dp_training": wanted}
    models = [coterie.run(**settings, out=tmp_path / name).model() for name in ("a", "b")]
    first, second = ({name: v.detach().numpy() for name, v in m.named_parameters()} for m in models)
    assert all(np.array_equal(first[name], second[name]) for name in first)
    rare = {**tables(dp_training=wanted), "training": {"rounds": 1, "fraction": 0.02}}
    made = private_training(make_config(rare), SPEC)
    assert made is not None
    expected = made.noise * made.clip / (0.02 * 40)
    spread = np.concatenate([value.ravel() for value in first.values()]).std()  # the start is small beside it
    assert spread == pytest.approx(expected, rel=0.05)


class Interrupt(Progress):
    """Ends a run after its first round."""

    def round(self, round: int, row: Any) -> None:
        if round == 1:
            raise KeyboardInterrupt


@pytest.mark.integration
@pytest.mark.parametrize("method", ["ifca:groups=2", "pacfl"])
def test_an_adaptive_clip_goes_on_where_it_was(method: str, tmp_path: Path) -> None:
    """A run that was interrupted ends in the same numbers, which those of its first clip are not."""
    wanted = {**SMALL, "algorithm": method, "dp_training": "epsilon=8,delta=1e-3,clip=adaptive,min_group=2"}
    whole = coterie.run(**wanted)
    with pytest.raises(KeyboardInterrupt):
        coterie.run(**wanted, out=tmp_path / "run", progress=Interrupt())
    again = coterie.resume(tmp_path / "run")
    assert (again.accuracy, again.privacy) == (whole.accuracy, whole.privacy)
    (entry,) = whole.privacy or []
    assert 7.9 < entry["epsilon"] <= 8
    reached = float(re.findall(r"from 0.1 to ([0-9.]+)", entry["mechanism"])[0])
    assert 0.1 < reached <= 0.1 * math.exp(3 * 0.2 * 0.5) * 1.01  # updates are longer, so that it grew in each round


@pytest.mark.integration
@pytest.mark.parametrize("method", ["fedprox", "pacfl"])
def test_local_noise_costs_all_rounds_and_is_in_what_clients_send(method: str, tmp_path: Path) -> None:
    wanted = {**SMALL, "algorithm": method, "dp_training": f"{WANTED},noise=local"}
    result = coterie.run(**wanted, out=tmp_path / "run")
    (entry,) = result.privacy or []
    assert entry["epsilon"] == pytest.approx(8.0, abs=0.01)
    noise = float(re.findall(r"noise of ([0-9.]+) times twice the clip 2", entry["mechanism"])[0])
    assert noise == pytest.approx(gaussian_sigma(8.0, 1e-3) * math.sqrt(3), rel=2e-3)
    assert {"evaluate", "who took part"} <= {*entry["not_covered"]}
    assert "train" not in entry["not_covered"]
    told = [row["loss"] for row in result.history]
    assert told == [None]


def test_what_went_wrong_does_not_name_who_took_part() -> None:
    """Where coins are to be secret; who has no samples is in no cohort."""
    lost = {**SMALL, "rounds": 1, "algorithm": "fedavg", "drop": 0.5}
    named, nameless = coterie.run(**{**lost, "fraction": 1.0}).events, coterie.run(**lost).events
    assert [event["kind"] for event in named] == [event["kind"] for event in nameless] == ["dropped"]
    assert named[0]["clients"]
    assert not nameless[0]["clients"]
    assert nameless[0]["count"] > 1
    assert "client " not in nameless[0]["example"]


@pytest.mark.parametrize("method", ["fedavg", "ifca:groups=2", "pacfl"])
def test_nothing_by_client_depends_on_who_took_part(method: str) -> None:
    """In one round of half the clients: neither groups that they chose nor models of their own are told."""
    result = coterie.run(**{**SMALL, "rounds": 1, "algorithm": method, "eval_every": 1})
    assert result.per_client["L"] == [None] * 40
    assert result.accuracy["L"] is not None
    assert None not in result.per_client["C"]
    assert (result.groups is None) == (method != "pacfl")
    assert result.groups is None or None not in result.groups
    all_came = coterie.run(**{**SMALL, "rounds": 1, "algorithm": method, "eval_every": 1, "fraction": 1.0})
    assert None not in all_came.per_client["L"]
    assert (all_came.groups is None) == (method == "fedavg")


def test_nor_does_anything_by_newcomer() -> None:
    """Who came in round 1 takes part in round 2 by a coin: models of their own are not told one by one."""
    late = {**SMALL, "rounds": 2, "algorithm": "fedavg", "newcomers": 0.2, "join_at": 1}
    came = coterie.run(**late).newcomers or {}
    assert came["per_client"]["L"] == [None] * 8
    assert None not in came["per_client"]["C"]
    assert came["accuracy"]["L"] is not None
    all_came = coterie.run(**{**late, "fraction": 1.0}).newcomers or {}
    assert None not in all_came["per_client"]["L"]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"algorithm": "scaffold"}, "'scaffold' looks at single updates"),
        ({"algorithm": "cfl"}, "use fedavg or fedprox or pacfl or ifca or given-groups"),
        ({"algorithm": "pacfl:diversity=2"}, "diversity looks at single clients"),
        ({"aggregation": "median"}, r"takes the place of \[aggregation\]"),
        ({"max_weight": 3.0}, r"takes the place of \[aggregation\]"),
        ({"fraction": None}, "set fraction"),
        ({"oversample": 0.2}, "by coins: leave out oversample"),
        ({"min_replies": 2}, "min_replies or max_strikes"),
        ({"curriculum": "score=E"}, "an expert that is trained on the samples of all"),
        ({"secure": True, "liars": 3}, "leave out drop, straggle, hostile, liars and min_samples"),
        ({"secure": True, "min_samples": 30}, "liars and min_samples"),
        ({"max_strikes": 2}, "min_replies or max_strikes"),
        ({"secure": True, "dp_training": "epsilon=1,delta=1e-5,clip=adaptive"}, "write a number for clip"),
        ({"secure": True, "dp_training": f"{WANTED},noise=local"}, "leave out secure"),
        ({"algorithm": "ifca", "dp_training": f"{WANTED},noise=local"}, "which group they choose"),
        ({"dp_training": "epsilon=1,delta=1e-5,clip=adaptive,noise=local"}, "write a number for clip"),
        ({"dp_training": "epsilon=1,delta=1e-5,clip=adaptive,quantile=1"}, "quantile one between 0 and 1"),
        ({"dp_training": "epsilon=1,delta=1e-5,clip=1,quantile=0.5"}, "or clip=adaptive and perhaps quantile"),
        ({"dp_training": "epsilon=1,delta=1e-5,clip=1,noise=none"}, "noise=local"),
        ({"dp_training": "epsilon=1,delta=1e-5"}, "epsilon=8,delta=1e-4,clip=1"),
        ({"dp_training": "epsilon=1,clip=1"}, "epsilon=8,delta=1e-4,clip=1"),
        ({"dp_training": "epsilon=1,delta=1e-5,clip=1,rounds=2"}, "noise for rounds=2, and the run has 3"),
        ({"dp_training": "epsilon=1,delta=1e-5,clip=1,rounds=0"}, "rounds whole ones from 1 on"),
        ({"dp_training": "epsilon=1,delta=1e-5,clip=0"}, "clip should be a number greater than 0"),
        (
            {"dataset": "digits", "dp_training": "epsilon=1,delta=1e-5,clip=1,min_group=50"},
            "fewer than min_group = 50 of dp_training: ask for fewer groups, or lower min_group",
        ),
    ],
)
def test_what_is_not_accounted_for_is_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(CoterieError, match=message):
        coterie.run(**{**SMALL, "algorithm": "fedavg", **settings})


@pytest.mark.integration
def test_more_rounds_would_cost_more(tmp_path: Path) -> None:
    coterie.run(**SMALL, algorithm="fedavg", out=tmp_path / "run")
    with pytest.raises(CoterieError, match="more would cost more than it says"):
        coterie.resume(tmp_path / "run", rounds=5)


@pytest.mark.integration
def test_noise_for_more_rounds_than_there_are_yet(tmp_path: Path) -> None:
    """A run that goes on ends as one that had them from the beginning; ε is that of what was run."""
    wanted = {**SMALL, "algorithm": "fedavg", "dp_training": f"{WANTED},rounds=5"}
    first = coterie.run(**wanted, out=tmp_path / "run")
    again = coterie.resume(tmp_path / "run", rounds=5)
    whole = coterie.run(**{**wanted, "rounds": 5})
    assert (again.accuracy, again.privacy) == (whole.accuracy, whole.privacy)
    assert first.privacy is not None
    assert again.privacy is not None
    assert first.privacy[0]["epsilon"] < 7.5 < again.privacy[0]["epsilon"] <= 8
    with pytest.raises(CoterieError, match="noise for rounds=5, and the run has 6"):
        coterie.resume(tmp_path / "run", rounds=6)
