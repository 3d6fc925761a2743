"""Every method takes label offsets, by the same two options."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from typer.main import get_command

import coterie
from coterie.algorithms import ALGORITHMS
from coterie.cli.main import app
from coterie.errors import CoterieError
from coterie.federation.loop import rounds
from coterie.messages import Train
from coterie.run.settings import settings_to_config
from coterie.testing import (
    BATTERY,
    RecordingEngine,
    learns,
    needs_nothing_but_messages,
    outcome,
    small_federation,
    small_run,
    small_settings,
)

SKEWED = {"dataset": "digits", "partition": "label-skew:rho=0.3"}
CHECKED = [check for check in BATTERY if check is not learns]


def with_labels(method: str, labels: str, **more: Any) -> dict[str, Any]:
    """Settings of a small run of clients that lack labels."""
    options = small_settings(method).get("algorithm_options", {})
    return {**SKEWED, "algorithm_options": {**options, "labels": labels, **more}}


@pytest.mark.parametrize("method", list(ALGORITHMS))
def test_every_method_has_the_options_and_shows_them(method: str) -> None:
    options = ALGORITHMS.options(method)
    assert options["labels"].default in ("none", "both")
    assert options["serving"].default == "lacking"
    shown = CliRunner().invoke(get_command(app), ["algorithms", method]).output
    assert "  labels = " in shown
    assert "  serving = 'lacking'" in shown


@pytest.mark.integration
@pytest.mark.parametrize("method", list(ALGORITHMS))
def test_all_local_trainings_of_a_method_have_the_offset(method: str) -> None:
    """Whatever plan it makes: warm-ups, trials, pre-training, walks, newcomers, fine-tuning."""
    late = {"newcomers": 0.34, "join_at": 2, "rounds": 3}
    with small_federation(method, **with_labels(method, "both"), **late) as (run, _):
        engine = run.fed.wrap_engine(RecordingEngine)
        for _ in rounds(run.fed, run.algorithm, run.evaluator, every=1):
            pass
        run.evaluator.fine_tune()
    verbs = [v for exchange in engine.exchanges for request in exchange.values() for v in request.verbs]
    offsets = {verb.plan.label_offset for verb in verbs if isinstance(verb, Train)}
    assert offsets == {"prior"}


@pytest.mark.integration
@pytest.mark.parametrize("check", CHECKED)
def test_the_battery_with_label_offsets(check: Callable[..., None], tmp_path: Path) -> None:
    check("scaffold", tmp_path, algorithm_options={"labels": "both"})


@pytest.mark.integration
@pytest.mark.parametrize("method", ["per-fedavg", "ifca", "lg-fedavg", "sub-fedavg-un"])
def test_messages_hold_all_that_offsets_need(method: str, tmp_path: Path) -> None:
    needs_nothing_but_messages(method, tmp_path, **with_labels(method, "both", serving="prior"))


@pytest.mark.integration
def test_offsets_serve_clients_that_lack_labels() -> None:
    settings = {**SKEWED, "rounds": 8, "epochs": 3}
    c = {
        labels: small_run("fedavg", **settings, algorithm_options={"labels": labels}).accuracy
        for labels in ("none", "served", "both")
    }
    assert c["served"]["C"] > c["none"]["C"] + 0.1  # type: ignore[operator]
    assert c["both"]["C"] > c["none"]["C"] + 0.1  # type: ignore[operator]
    assert c["served"]["C_lacking"] < c["none"]["C_lacking"]  # type: ignore[operator]
    assert c["served"]["G"] == c["none"]["G"]  # the server's model is the same


@pytest.mark.integration
def test_both_trainers_come_to_the_same_accuracies() -> None:
    settings = with_labels("fedavg", "both")
    native, torch = (small_run("fedavg", **settings, trainer=trainer).accuracy for trainer in ("native", "torch"))
    assert native == pytest.approx(torch, abs=0.03)


def test_none_is_as_if_there_were_no_such_option() -> None:
    assert outcome(small_run("fedavg")) == outcome(
        small_run("fedavg", algorithm_options={"labels": "none", "serving": "lacking"})
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("labels=all", "labels = 'all' is not valid: should be 'none', 'trained', 'served' or 'both'"),
        ("serving=mine,labels=both", "serving = 'mine' is not valid: should be 'lacking' or 'prior'"),
        (
            "serving=prior",
            "serving = 'prior' says which label offset is served, but labels = 'none' serves none",
        ),
        ("serving=prior,labels=trained", "labels = 'trained' serves none: write labels = served or both"),
    ],
)
def test_mistakes_are_told_in_a_sentence(options: str, message: str) -> None:
    with pytest.raises(CoterieError) as told:
        settings_to_config(None, {"algorithm": f"fedavg:{options}"})
    assert message in str(told.value)


def test_a_method_of_ones_own_has_them_too() -> None:
    """Whether it is a dataclass or not."""

    class Plain(coterie.Algorithm):
        begin = round = model_for = lambda self, *_: None

    assert Plain(labels="both").trained_offset == "prior"
    assert Plain(labels="both", serving="prior").served_offset == "prior"
    assert (Plain().trained_offset, Plain().served_offset) == (None, None)
