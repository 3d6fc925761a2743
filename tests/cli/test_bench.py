"""``coterie bench train``, and which networks ``coterie models`` says are compiled."""

import json
from dataclasses import fields
from pathlib import Path

import pytest
from command_line import cli, refusal

from coterie.cli import bench
from coterie.cli.bench import TRAINERS, Measurement, Workload, measure, plain_loop
from coterie.messages import ModelSpec
from coterie.models import MODELS, build
from coterie.native import available
from coterie.training.native_trainer import runs_natively

needs_native = pytest.mark.skipif(not available(), reason="the compiled trainer was not built here")


@pytest.mark.integration
@needs_native
def test_every_contestant_but_torch_compile_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench, "SECONDS", 0.05)
    trainers = [name for name in TRAINERS if name != "compile"]
    rows = list(measure([Workload("mclr", 64)], trainers, [2]))
    assert [(row.threads, row.trainer) for row in rows] == [(2, name) for name in trainers]
    assert all(row.steps_per_second > 0 and row.gflops > 0 for row in rows)
    for row in rows:
        loop = next(r for r in rows if r.trainer == "loop" and r.threads == row.threads)
        assert row.ratio_to_loop == row.steps_per_second / loop.steps_per_second


def test_help_says_who_takes_part() -> None:
    text = " ".join(cli("bench", "train", "--help").out.split())
    assert "native (our compiled trainer)" in text
    assert "\\[" not in text


@pytest.mark.integration
def test_steps_are_counted_not_epochs() -> None:
    assert plain_loop(Workload("mclr", 64))() == 2 * 10
    assert plain_loop(Workload("mclr", 10))() == 2 * 64


def test_flops_of_a_step_are_those_of_its_products() -> None:
    # one linear layer, first and last: forwards, and backwards for the weights
    assert Workload("mclr", 10).flops() == 10 * 2 * 2 * 784 * 10
    # the layer behind the first also passes gradients on
    assert Workload("mlp", 10).flops() == 10 * 2 * (2 * 784 * 128 + 3 * 128 * 10)
    lenet = 2 * (28 * 28 * 75 * 6) + 3 * (10 * 10 * 150 * 16 + 400 * 120 + 120 * 84 + 84 * 10)
    assert Workload("lenet5-3x32x32", 1).flops() == 2 * lenet


@pytest.mark.integration
@needs_native
def test_json_has_the_fields_that_scripts_rely_on(place: Path) -> None:
    answer = cli(
        "bench", "train", "--models", "mclr", "--trainers", "native", "--batches", "10", "--threads", "1", "--json"
    )
    printed = json.loads(answer.out)
    assert set(printed) == {"sgemm_gflops", "rows"}
    assert printed["sgemm_gflops"] > 0
    (row,) = printed["rows"]
    assert list(row) == [field.name for field in fields(Measurement)]
    assert row["ratio_to_loop"] is None  # nothing to compare with


@pytest.mark.parametrize(
    ("flag", "value", "named"),
    [
        ("--models", "mcrl", ["mcrl", "did you mean 'mclr'"]),
        ("--trainers", "loop,numpy", ["numpy", "compile, loop, native, torch"]),
        ("--batches", "10,none", ["--batches", "10,none"]),
        ("--batches", "641", ["1 to 640"]),
        ("--threads", "0", ["--threads", "'0'"]),
        ("--models", ",", ["no model"]),
    ],
)
def test_wrong_flags_are_refused_before_anything_runs(flag: str, value: str, named: list[str], place: Path) -> None:
    message = refusal(cli("bench", "train", flag, value))
    assert all(part in message for part in named)


@pytest.mark.integration
def test_the_list_marks_the_networks_that_run_compiled(place: Path) -> None:
    truth = set()
    for name in MODELS:
        spec = ModelSpec(name, (20, 8) if name == "lstm" else (3, 32, 32), 10)
        build(spec)
        truth |= {name} if runs_natively(spec) else set()
    assert truth
    lines = cli("models").out.splitlines()
    assert {line.split()[0] for line in lines if line.endswith("[compiled]")} == truth
    assert "runs compiled: sgd, adam and adamw, clipped gradients" in cli("models", "cnn").out
    assert "runs on PyTorch" in cli("models", "resnet9").out
