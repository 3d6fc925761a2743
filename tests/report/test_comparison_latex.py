"""Comparisons as tables for papers: names, columns, captions, and what is bold."""

from __future__ import annotations

import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from scipy import stats

from coterie.algorithms import ALGORITHMS
from coterie.errors import CoterieError
from coterie.registry import is_own
from coterie.results.comparison_table import ComparisonTable, make_table
from coterie.results.display_names import DISPLAY_NAMES, display_name
from coterie.results.formats import TableOptions
from coterie.results.reproductions import NumberPair, Reproduction
from coterie.results.statistics import Spread

ROOT = Path(__file__).parents[2]
SEEDS = (0, 1, 2, 3)
LOW, HIGH, NEAR = (0.50, 0.52, 0.51, 0.53), (0.90, 0.93, 0.91, 0.92), (0.92, 0.90, 0.92, 0.90)


def run(L: float, **more: Any) -> dict[str, Any]:
    return {
        "accuracy": {"L": L, "C": L - 0.1, "G": None, "plus": None}, "groups": [0, 1, 1], "ari": 0.5, "seconds": 1.0,
        "traffic": {"up_bytes": 1_000_000, "down_bytes": 500_000}, "targets": [], "events": [],
        "per_client": {"L": [L] * 3, "C": [L - 0.1] * 3},
    } | more  # fmt: skip


def compared(methods: dict[str, tuple[float, ...]], **more: Any) -> ComparisonTable:
    runs = {label: {seed: run(L) for seed, L in enumerate(values)} for label, values in methods.items()}
    seeds = tuple(range(max(map(len, methods.values()))))
    return make_table(runs, seeds, title="digits & more, 20 clients, 10 % noise", **more)


def rows(text: str) -> list[list[str]]:
    """The cells of the first table of a LaTeX text, its head first."""
    body = text.partition(r"\toprule")[2].partition(r"\bottomrule")[0].replace(r"\midrule", "")
    return [[cell.strip() for cell in re.split(r"(?<!\\)&", line)] for line in body.split(r"\\") if line.strip()]


def bold(text: str) -> set[str]:
    """Who has a bold number in the first column."""
    return {row[0] for row in rows(text) if row[1].startswith(r"\textbf")}


def well_formed(text: str) -> None:
    """Environments close in order, braces and dollars too, and every line has as many cells as columns."""
    lines = [line for line in text.splitlines() if not line.startswith("%")]
    open_ones = []
    for kind, name in re.findall(r"\\(begin|end){(\w+)}", "\n".join(lines)):
        assert kind == "begin" or open_ones.pop() == name
        open_ones += [name] * (kind == "begin")
    assert open_ones == []
    bare = re.sub(r"\\.", "", "\n".join(lines))
    assert bare.count("{") == bare.count("}")
    assert bare.count("$") % 2 == 0
    assert not set(re.sub(r"\$[^$]*\$", "", bare)) & set("%#~^_")
    for part in re.findall(r"(?s)\\begin{tabular}.*?\\end{tabular}", "\n".join(lines)):
        columns = len(part.partition("}{")[2].partition("}")[0])
        assert {len(row) for row in rows(part)} == {columns}


def test_every_method_is_called_as_in_the_site() -> None:
    assert set(DISPLAY_NAMES) == {name for name in ALGORITHMS if is_own(ALGORITHMS[name])}
    pages = dict(re.findall(r"- (.+): methods/(.+)\.md", (ROOT / "mkdocs.yml").read_text(encoding="utf-8")))
    assert {page: title for title, page in pages.items()} == DISPLAY_NAMES
    made = compared({"flis-dc": HIGH, "ifca:groups=4,lr=0.05": LOW, "own_one": LOW})
    assert [row[0] for row in rows(made.report("latex"))] == [
        "Method",
        "FLIS (DC)",
        "IFCA, groups = 4, lr = 0.05",
        r"own\_one",
    ]
    assert rows(compared({"p=4": HIGH, "p=5": LOW}, noun="setting").report("latex"))[1][0] == "p=4"
    assert display_name("pacfl") == "PACFL"


def test_bold_are_the_best_and_those_not_significantly_different() -> None:
    assert stats.ttest_rel(HIGH, NEAR).pvalue > 0.05 / 2 > stats.ttest_rel(HIGH, LOW).pvalue
    text = compared({"fedavg": LOW, "pacfl": HIGH, "kindred": NEAR}).report("latex")
    assert bold(text) == {"PACFL", "Kindred"}
    assert "not significantly different from it (paired t test" in text
    well_formed(text)


def test_nothing_is_bold_where_nothing_is_significant() -> None:
    equal = compared({"pacfl": HIGH, "kindred": NEAR}).report("latex")
    one_seed = compared({"fedavg": LOW[:1], "pacfl": HIGH[:1]}).report("latex", TableOptions(p_values=True))
    for text in (equal, one_seed):
        assert bold(text) == set()
        assert r"\textbf" not in text
        assert "Bold:" not in text
        well_formed(text)
    assert "$p$" not in rows(one_seed)[0]
    assert "of one seed (0)" in one_seed


def test_a_method_that_misses_a_seed_is_not_bold() -> None:
    text = compared({"fedavg": LOW, "pacfl": HIGH, "kindred": NEAR[:1], "ifca": NEAR}).report("latex")
    assert bold(text) == {"PACFL", "IFCA"}


def test_p_values_are_scipys_and_stand_beside_their_column() -> None:
    made = compared({"fedavg": LOW, "pacfl": HIGH, "kindred": NEAR})
    text = made.report("latex", TableOptions(columns=("groups", "L"), p_values=True))
    table = rows(text)
    assert table[0] == ["Method", "Groups", "L", "$p$"]
    assert [row[3] for row in table[1:]] == ["$<$0.001", "", f"{stats.ttest_rel(HIGH, NEAR).pvalue:.3f}"]
    assert [row[2].startswith(r"\textbf") for row in table[1:]] == [False, True, True]
    assert "two-sided paired t test" in text
    well_formed(text)


def test_chosen_columns_make_one_table_in_their_order() -> None:
    made = compared({"fedavg": LOW, "pacfl": HIGH})
    text = made.report("latex", TableOptions(("MB", "c", "ari"), r"On $\rho = 20\,\%$ of labels.", "tab:digits"))
    assert rows(text)[0] == ["Method", "MB", "C", "ARI"]
    assert text.count(r"\begin{table}") == 1
    assert "\\caption{On $\\rho = 20\\,\\%$ of labels.}\n\\label{tab:digits}\n" in text
    assert made.report("markdown", TableOptions(("C", "L"))).splitlines()[2] == "| method | C | L |"
    with pytest.raises(CoterieError, match="no column 'grups': did you mean 'groups'"):
        made.report("text", TableOptions(("grups",)))


def test_our_own_caption_takes_any_title_and_further_tables_have_labels_of_their_own() -> None:
    text = compared({"fedavg": LOW, "pacfl": HIGH}).report("latex")
    assert r"\caption{Digits \& more, 20 clients, 10 \% noise. Accuracy in \%, mean $\pm$" in text
    assert re.findall(r"\\label{(.*)}", text) == ["tab:comparison", "tab:comparison-2"]
    assert "Differences to FedAvg" in text
    by_file = replace(compared({"fedavg": LOW, "pacfl": HIGH}), title="visits.csv, 12 clients")
    assert r"\caption{visits.csv, 12 clients. " in by_file.report("latex")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"caption": "20 % of labels"}, r"write \\% instead of %"),
        ({"caption": "{open"}, "each { needs its }"),
        ({"caption": "costs $5"}, "each \\$ another"),
        ({"label": "tab:{x}"}, "can't be a label"),
    ],
)
def test_what_latex_would_stumble_over_is_refused(options: dict[str, str], said: str) -> None:
    with pytest.raises(CoterieError, match=said):
        TableOptions(**options)


def reproduction() -> Reproduction:
    line = NumberPair("10 % & more", "PACFL", "L", published="90.1", paper=90.1, paper_spread=None, ours=None)
    return Reproduction(
        name="our-table", title="Label skew, 20 % ≥ ρ, α–ω, Σ μ · 5 °", source="A & B", version="1", kind="trained",
        unit="", seeds=(0,), lines=(line,),
    )  # fmt: skip


def test_a_reproduction_has_caption_and_label_too() -> None:
    text = reproduction().report("latex", TableOptions(("ours", "paper")))
    well_formed(text)
    assert rows(text) == [["Method", "Ours", "Paper"], ["PACFL", "--", "90.1"]]
    assert r"\label{tab:our-table}" in text
    with pytest.raises(CoterieError, match="no column 'papr': did you mean 'paper'"):
        reproduction().report("text", TableOptions(("papr",)))


def noted() -> Reproduction:
    """With notes, other protocols, and one table that is too wide for a page."""
    beside = {"L": Spread(3, 81.5, 0.25), "C": Spread(3, 80.5, 0.5)}
    lines = [
        NumberPair(column, "PACFL", "L", "90.1", 90.1, None, Spread(3, 81.5, 0.25), beside, notes=notes, digits=2)
        for column, notes in (("MNIST", ("of another study, 20 %",)), ("SVHN", ("a leak", "of another study, 20 %")))
    ]
    return replace(reproduction(), lines=tuple(lines), shortened=("0.1 of the published rounds",))


def test_a_reproduction_is_narrow_and_its_notes_stand_below_it() -> None:
    text = noted().report("latex")
    well_formed(text)
    assert rows(text)[0] == ["Method", "Measured", "Paper", "Ours", "Difference", "Grade", "Notes"]
    first, second = text[text.index(r"\begin{table}") :].split(r"\end{table}")[:2]
    assert r"[1] of another study, 20 \%." in first
    assert "[2] a leak." not in first
    assert second.index("[1] of another study") < second.index("[2] a leak.")
    assert "Shortened: 0.1 of the published rounds" in first[first.index(r"\caption") :]
    assert rows(noted().report("latex", TableOptions(("C",))))[0] == ["Method", "C"]  # if asked for
    assert "resizebox" not in text
    wide = replace(noted(), wide=True, lines=tuple(replace(noted().lines[0], column=str(n)) for n in range(9)))
    assert "\n\\resizebox{\\linewidth}{!}{%\n\\begin{tabular}" in wide.report("latex")
    assert "booktabs,graphicx" in wide.report("latex")


@pytest.mark.integration
def test_latex_compiles_it(tmp_path: Path) -> None:
    if shutil.which("pdflatex") is None:
        pytest.skip("there is no pdflatex")
    made = compared({"fedavg": LOW, "50%_&#{}~^\\$": HIGH, "kindred": NEAR})
    texts = [
        made.report("latex"),
        reproduction().report("latex"),
        noted().report("latex", TableOptions(label="tab:noted")),
        replace(noted(), wide=True).report("latex", TableOptions(label="tab:wide")),
        made.report("latex", TableOptions(("L", "C"), label="tab:b", p_values=True)),
    ]
    document = "\n".join(
        [r"\documentclass{article}\usepackage{booktabs,graphicx}\begin{document}", *texts, r"\end{document}"]
    )
    (tmp_path / "paper.tex").write_text(document, encoding="utf-8")
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "paper.tex"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-2000:]
    assert (tmp_path / "paper.pdf").stat().st_size > 10_000
