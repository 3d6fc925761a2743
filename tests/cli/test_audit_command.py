"""``coterie audit`` in a shell."""

import json
from pathlib import Path
from unittest import mock

import pytest
from command_line import cli, refusal

from coterie.audit.findings import Finding


def test_audit_prints_a_table_and_draws(finished: Path, place: Path) -> None:
    answer = cli("audit", finished, "--clients", "3", "--plot", "audit.svg", "--out", "found", "--quiet")
    assert (answer.code, answer.out, answer.err) == (0, "", "")
    found = json.loads((place / "found" / "audit.json").read_text(encoding="utf-8"))
    (run,) = found["runs"]
    assert len(run["clients"]) == 3
    assert (place / "found" / "audit.png").exists()
    assert "received models" in (place / "audit.svg").read_text(encoding="utf-8")


def test_a_claim_that_is_disproved_ends_with_a_code_of_its_own(finished: Path, place: Path) -> None:
    with (
        mock.patch.object(Finding, "broken", new=True),
        mock.patch("coterie.audit.findings.Audit.broken", ["too much"]),
    ):
        answer = cli("audit", finished, "--clients", "2", "--json", "--quiet")
    assert answer.code == 4
    assert answer.err.strip() == "coterie: too much"
    assert json.loads(answer.out)["broken"] == ["too much"]


@pytest.mark.parametrize("format", ["markdown", "latex", "csv"])
def test_formats(finished: Path, place: Path, format: str) -> None:
    answer = cli("audit", finished, "--clients", "2", "--format", format)
    start = {"markdown": "| run | attacked |", "latex": r"\begin{tabular}", "csv": "run,attacked,"}[format]
    assert answer.code == 0
    assert start in answer.out


def test_refusals() -> None:
    assert "is not a run folder" in refusal(cli("audit", "nowhere"))
    assert "does not say how to write the picture" in refusal(cli("audit", "nowhere", "--plot", "audit.gif"))
