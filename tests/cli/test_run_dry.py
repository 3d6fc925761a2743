"""`--dry-run` counts what the real run then does, and writes nothing."""

from __future__ import annotations

import re
import threading
from pathlib import Path
from typing import Any

import pytest
from command_line import SMALL, cli, outcome, refusal, tree

from coterie.run import building
from coterie.run.dry_run import estimate
from coterie.run.settings import settings_to_config
from coterie.training.torch_trainer import TorchTrainer

CASES = {
    "fedavg": [],
    "solo": ["--algorithm", "solo"],
    "solo for longer": ["--algorithm", "solo:epochs=7"],
    "uneven parts": [
        "--dataset",
        "digits",
        "--partition",
        "label-skew:rho=0.3",
        "--clients",
        "13",
        "--batch-size",
        "7",
    ],
    "with faults": ["--drop", "0.3", "--straggle", "0.2"],
}


class Counting(TorchTrainer):
    """The real trainer, with its jobs and steps counted."""

    def __init__(self) -> None:
        super().__init__()
        self.jobs, self.steps, self._lock = 0, 0, threading.Lock()

    def train(self, job: Any) -> Any:
        outcome = super().train(job)
        with self._lock:
            self.jobs += 1
            self.steps += outcome.steps
        return outcome


@pytest.mark.integration
@pytest.mark.parametrize("case", CASES)
def test_steps_and_bytes_are_those_of_the_real_run(case: str, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    flags = [*SMALL, *CASES[case]]
    (place / "run.toml").write_text(cli("run", *flags, "--print-config").out, encoding="utf-8")
    before = tree(place)
    answer = cli("run", *flags, "--dry-run", "--out", "x")
    said = estimate(settings_to_config(place / "run.toml", {}))
    assert (answer.code, answer.err) == (0, "")
    assert tree(place) == before

    trainer = Counting()
    monkeypatch.setattr(building, "make_trainer", lambda *given: trainer)
    assert cli("run", *flags, "--out", "x", "--quiet").code == 0
    traffic = outcome(place / "x")["result"]["traffic"]
    assert said.steps == trainer.steps
    assert said.down_bytes == traffic["down_bytes"]
    # A reply holds its mean loss in decimal digits, of which a rehearsal has fewer: 24 bytes at most, with padding.
    assert 0 <= traffic["up_bytes"] - said.up_bytes <= 24 * trainer.jobs
    assert f"{trainer.steps:,} local steps" in answer.out
    assert f"{said.down_bytes / 1e6:,.2f} MB down, {said.up_bytes / 1e6:,.2f} MB up" in answer.out


def test_it_says_what_would_run_and_what_it_would_take(place: Path) -> None:
    text = cli("run", *SMALL, "--dry-run").out
    assert re.search(r"fedavg on digits-rotated: 6 clients, 4 rounds, mlp with 1,210 parameters", text)
    for line in (r"time +about \d+ min \d+ s", r"memory +about [\d,]+ MB", r"disk +up to [\d,]+ MB"):
        assert re.search(line, text)
    assert list(place.iterdir()) == []


def test_the_folder_is_as_large_as_it_said_at_most(place: Path) -> None:
    flags = [*SMALL, "--fraction", "1"]
    said = estimate(settings_to_config(None, {
        "dataset": "digits-rotated", "clients": 6, "fraction": 1.0, "rounds": 4, "epochs": 1, "eval_every": 2,
        "model": "mlp", "model_options": {"hidden": 16},
    }))  # fmt: skip
    assert cli("run", *flags, "--out", "x", "--quiet").code == 0
    arrays = [path.stat().st_size for path in (place / "x").rglob("*.safetensors")]
    assert sum(arrays) <= said.disk + 3000 * len(arrays)  # headers and bookkeeping aside


def test_mistakes_are_found_as_in_a_real_run(place: Path) -> None:
    assert "fedavgg" in refusal(cli("run", "--algorithm", "fedavgg", "--dry-run"))
    assert "5000 clients" in refusal(cli("run", "--clients", "5000", "--dry-run"))
    assert list(place.iterdir()) == []
