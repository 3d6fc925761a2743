"""`--plot` of `run`, `compare` and `report`, and the flags of the printed LaTeX table."""

from __future__ import annotations

from pathlib import Path

import pytest
from command_line import SMALL, cli, refusal


@pytest.mark.integration
def test_a_run_draws_where_it_is_told(place: Path) -> None:
    answer = cli("run", *SMALL, "--out", "run", "--plot", "figures/accuracy.pdf")
    assert answer.code == 0, answer.err
    assert "Plot: figures/accuracy.pdf\n" in answer.out
    assert (place / "figures" / "accuracy.pdf").read_bytes().startswith(b"%PDF")
    answer = cli("report", "run", "--out", "page.html", "--plot", "one.svg", "--figure", "accuracy-over-rounds-g")
    assert answer.code == 0, answer.err
    assert "Plot: one.svg (accuracy-over-rounds-g)" in answer.out
    assert "Accuracy G over rounds" in (place / "one.svg").read_text(encoding="utf-8")
    assert "did you mean 'accuracy-over-rounds-g'" in refusal(
        cli("report", "run", "--plot", "x.svg", "--figure", "accuracy-over-round-g", "--out", "p.html")
    )


@pytest.mark.integration
def test_a_comparison_draws_and_prints_for_a_paper(place: Path) -> None:
    command = ["compare", *SMALL, "--algorithms", "fedavg,solo", "--seeds", "0,1", "--jobs", "1", "--out", "both"]
    answer = cli(
        *command,
        "--plot",
        "l.png",
        "--format",
        "latex",
        "--columns",
        "L,mb",
        "--caption",
        "Digits.",
        "--label",
        "tab:d",
    )
    assert answer.code == 0, answer.err
    assert "Plot: l.png (accuracy-over-rounds-l)" in answer.err
    assert (place / "l.png").read_bytes().startswith(b"\x89PNG")
    assert "Plot" not in answer.out  # which can be a file of the paper
    assert "\\caption{Digits.}\n\\label{tab:d}\n" in answer.out
    assert "Method & L & MB \\\\" in answer.out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["run", "--plot", "x.gif"], "let its name end with .png, .svg, .pdf"),
        (["compare", "--algorithms", "fedavg,solo", "--plot", "x"], "let its name end with"),
        (["compare", "--algorithms", "fedavg,solo", "--columns", "L,grups"], "did you mean 'groups'"),
        (["sweep", "--vary", "lr=0.1,0.2", "--caption", "x"], "--caption is for LaTeX: add --format latex"),
        (["compare", "--algorithms", "fedavg,solo", "--format", "csv", "--columns", "L"], "--columns is not for CSV"),
        (["reproduce", "pacfl-table1", "--format", "latex", "--label", "a b"], "can't be a label"),
        (["report", "run", "--figure", "accuracy-over-rounds-l"], "add --plot accuracy-over-rounds-l.pdf"),
    ],
    ids=lambda value: value if isinstance(value, str) else " ".join(value),
)
def test_what_is_wrong_is_refused_before_anything_runs(arguments: list[str], said: str, place: Path) -> None:
    assert said in refusal(cli(*arguments))
    assert list(place.iterdir()) == []


@pytest.mark.integration
@pytest.mark.parametrize("kind", ["pdf", "svg", "png"])
def test_a_picture_of_ours_is_drawn_again_and_no_other_file_is_touched(kind: str, place: Path) -> None:
    for _ in range(2):
        assert cli("run", *SMALL, "--plot", f"a.{kind}").code == 0
    (place / f"mine.{kind}").write_text("mine")
    assert "not drawn by Coterie: choose another --plot" in refusal(cli("run", *SMALL, "--plot", f"mine.{kind}"))
    assert (place / f"mine.{kind}").read_text() == "mine"
