"""``coterie audit`` in a shell."""

import json
from pathlib import Path
from unittest import mock

import pytest
from command_line import cli, refusal

from coterie.audit.findings import Finding


@pytest.mark.integration
def test_audit_draws_and_writes_numbers(finished: Path, place: Path) -> None:
    answer = cli("audit", finished, "--clients", "3", "--plot", "audit.svg", "--out", "found", "--quiet")
    assert (answer.code, answer.out, answer.err) == (0, "", "")
    found = json.loads((place / "found" / "audit.json").read_text(encoding="utf-8"))
    (run,) = found["runs"]
    assert len(run["clients"]) == 3
    assert (place / "found" / "audit.png").exists()
    assert "received models" in (place / "audit.svg").read_text(encoding="utf-8")


@pytest.mark.integration
def test_a_claim_that_is_disproved_ends_with_a_code_of_its_own(finished: Path, place: Path) -> None:
    with (
        mock.patch.object(Finding, "broken", new=True),
        mock.patch("coterie.audit.findings.Audit.broken", ["too much"]),
    ):
        answer = cli("audit", finished, "--clients", "2", "--json", "--quiet")
    assert answer.code == 4
    assert answer.err.strip() == "coterie: too much"
    assert json.loads(answer.out)["broken"] == ["too much"]


@pytest.mark.integration
def test_audit_prints_tables_as_other_commands_do(finished: Path, place: Path) -> None:
    answer = cli("audit", finished, "--clients", "2", "--format", "latex")
    assert answer.code == 0
    assert r"\begin{tabular}" in answer.out
    assert "received models" in answer.out


def test_refusals() -> None:
    assert "is not a run folder" in refusal(cli("audit", "nowhere"))
    assert "does not say how to write the picture" in refusal(cli("audit", "nowhere", "--plot", "audit.gif"))
