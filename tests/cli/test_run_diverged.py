"""A run in which training diverged at most clients ends with exit code 3, and its last line says so."""

from pathlib import Path

import pytest
from command_line import SMALL, cli

FAST = [*SMALL, "--lr", "1000", "--rounds", "2"]
SAID = (
    "coterie: training diverged at 6 of 6 clients, so accuracies say nothing about the method: most often --lr is too "
    "high"
)


@pytest.mark.integration
def test_a_run_that_diverged_ends_with_code_3(tmp_path: Path) -> None:
    run = cli("run", "--algorithm", "fedavg", *FAST, "--out", tmp_path / "r")
    assert (run.code, run.lines[-1]) == (3, SAID)
    assert "what went wrong: diverged" in run.out
    quiet = cli("run", "--algorithm", "fedavg", *FAST, "--out", tmp_path / "q", "--quiet")
    assert (quiet.code, quiet.out, quiet.lines) == (3, "", [SAID])
    assert cli("resume", tmp_path / "r").code == 0  # there is nothing to do


@pytest.mark.integration
def test_a_comparison_ends_with_code_3_only_if_all_of_it_diverged(tmp_path: Path) -> None:
    flags = [*FAST, "--seeds", "0", "--jobs", "1"]
    all_of_it = cli("compare", "--algorithms", "fedavg,fedprox", *flags, "--out", tmp_path / "all")
    assert all_of_it.code == 3
    assert (
        all_of_it.lines[-1] == "coterie: training diverged at most clients in all 2 runs: most often --lr is too high"
    )
    some = cli("compare", "--algorithms", "fedavg:lr=0.05,fedprox", *flags, "--out", tmp_path / "some")
    assert some.code == 0
    assert "fedprox: training diverged at most clients with seed 0, so its accuracies" in some.out
