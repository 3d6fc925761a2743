"""The documentation holds together: a page per method, names that exist, links that lead somewhere."""

from __future__ import annotations

import importlib
import json
import re
import runpy
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import typer
from click.testing import CliRunner

from coterie.algorithms import ALGORITHMS
from coterie.cli.main import COMMANDS, app
from coterie.clustering import RULES
from coterie.data import PARTITIONS
from coterie.models import MODELS
from coterie.registry import Registry
from coterie.reproduce.catalogue import catalogue
from coterie.run.plugins import run_file
from coterie.run.values import parse_choice

ROOT = Path(__file__).parents[1]
PAGES = sorted((ROOT / "docs").rglob("*.md"))
NOTEBOOKS = sorted((ROOT / "docs" / "notebooks").glob("*.ipynb"))
NAV = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")


def _chapters(last: dict[int, int]) -> list[str]:
    """Numbers such as 2.1, by chapter up to its last one."""
    return [f"{chapter}.{n}" for chapter, most in last.items() for n in range(1, most + 1)]


def resolved(dotted: str) -> object:
    """What a dotted name stands for; the longest importable part is the module."""
    parts = dotted.split(".")
    for length in range(len(parts), 0, -1):
        try:
            found: object = importlib.import_module(".".join(parts[:length]))
        except ModuleNotFoundError:
            continue
        for name in parts[length:]:
            found = getattr(found, name)
        return found
    raise ModuleNotFoundError(dotted)


def test_each_method_has_a_page() -> None:
    own = {name for name in ALGORITHMS if ALGORITHMS[name].__module__.startswith("coterie.")}
    assert own == {page.stem for page in (ROOT / "docs" / "methods").glob("*.md")}


@pytest.mark.parametrize("page", sorted((ROOT / "docs" / "methods").glob("*.md")), ids=lambda page: page.stem)
def test_the_code_that_a_methods_page_names_exists(page: Path) -> None:
    names = re.findall(r"`(coterie\.[\w.]+)`", page.read_text(encoding="utf-8"))
    assert names
    for name in names:
        resolved(name)


@pytest.mark.parametrize("page", [*PAGES, ROOT / "README.md", ROOT / "CONTRIBUTING.md"], ids=lambda page: page.name)
def test_links_lead_to_files_and_headings(page: Path) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text(encoding="utf-8")):
        if target.startswith(("http://", "https://", "mailto:")):
            continue
        path, _, heading = target.partition("#")
        file = (page.parent / path).resolve() if path else page
        assert file.exists(), f"{page.name} links to {target}"
        if heading and file.suffix == ".md":
            assert heading in headings(file), f"{page.name} links to {target}"


def headings(page: Path) -> set[str]:
    """The anchors that GitHub and MkDocs both make of a page's headings."""
    lines = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"\s+", "-", re.sub(r"[^\w\s-]", "", line.lower()).strip()) for line in lines}


def test_each_page_is_in_the_site() -> None:
    listed = re.findall(r": ([\w/-]+\.md)$", NAV, re.MULTILINE)
    assert sorted(listed) == sorted(page.relative_to(ROOT / "docs").as_posix() for page in PAGES)


# ------------------------------------------------------------------------------------------------------ notebooks


@cache
def execute() -> Any:
    """The script that runs notebooks."""
    return run_file("execute_notebooks", ROOT / "docs" / "notebooks" / "execute.py")


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebooks_hold_their_outputs_and_no_place_of_a_machine(notebook: Path) -> None:
    text = notebook.read_text(encoding="utf-8")
    cells = [cell for cell in json.loads(text)["cells"] if cell["cell_type"] == "code"]
    assert [cell["execution_count"] for cell in cells] == [*range(1, len(cells) + 1)]
    kinds = [output["output_type"] for cell in cells for output in cell["outputs"]]
    assert "error" not in kinds
    assert {"execute_result", "display_data"} & set(kinds)
    assert not execute().places_in(text)
    assert len(text) < 400_000
    assert f"notebooks/{notebook.name}\n" in NAV
    for link in re.findall(r"\]\(([^)#:]+)[)#]", text):
        assert (notebook.parent / link).exists(), link


@pytest.mark.slow
@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebooks_run(notebook: Path) -> None:
    """Needs the extra 'notebook' and nbclient."""
    pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    execute().executed(notebook)


# ------------------------------------------------------------------------------------------------------- coverage

COVERAGE = ROOT / "docs" / "coverage.md"
ROMAN = ("I", "II", "III", "IV")
NUMBERED = {
    "PACFL": {"Algorithm": range(1, 4), "Eq.": range(1, 12), "Table": range(1, 15), "Figure": range(1, 8)},
    "FLIS": {"Algorithm": range(1, 4), "Table": ROMAN, "Figure": range(1, 6)},
    "FedGroup": {"Algorithm": range(1, 4), "Eq.": range(1, 10), "Table": ROMAN[:3], "Figure": range(1, 6)},
    "FLAG": {"Algorithm": range(1, 4), "Eq.": range(1, 9), "Table": range(1, 9), "Figure": range(1, 3)},
    "The dissertation": {
        "Algorithm": range(1, 13),
        "Eq.": [*_chapters({2: 4, 3: 6, 5: 2, 6: 9}), "B.1", "B.2", "B.3"],
        "Table": _chapters({2: 5, 3: 20, 4: 3, 5: 7}),
        "Figure": _chapters({2: 12, 3: 17, 4: 3, 5: 8, 6: 4}),
    },
}
"""What the five texts number."""


def covered() -> dict[str, list[list[str]]]:
    """The lines of the page's tables by text: what, its meaning, where it is."""
    lines: dict[str, list[list[str]]] = {}
    for part in re.split(r"^## ", COVERAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]:
        cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in re.findall(r"^\|.*\|$", part, re.M)]
        lines[part.splitlines()[0].partition(" (")[0]] = [
            row for row in cells if row[0] != "in the text" and set(row[0]) != {"-"}
        ]
    return lines


def test_every_number_of_the_five_texts_is_covered_once() -> None:
    assert covered().keys() == NUMBERED.keys()
    for text, lines in covered().items():
        expected = {f"{kind} {number}" for kind, numbers in NUMBERED[text].items() for number in numbers}
        named = [line[0] for line in lines]
        assert len(named) == len(set(named)), text
        assert expected <= set(named), expected - set(named)
        assert not [name for name in set(named) - expected if name.partition(" ")[0] in NUMBERED[text]], text
        for line in lines:
            assert len(line) == 3, line
            assert all(line), line


def test_the_table_of_all_methods_has_every_method_with_the_numbers_of_its_kept_runs() -> None:
    page = (ROOT / "docs" / "results.md").read_text(encoding="utf-8").partition("## All methods, two kinds of skew")[2]
    rows = re.findall(r"^\| `([^`]+)` \| (.+) \|$", page.partition("\n## ")[0], re.MULTILINE)
    own = {name for name in ALGORITHMS if ALGORITHMS[name].__module__.startswith("coterie.")}
    assert own - {"given-groups"} == {name.partition(":")[0] for name, _ in rows}  # it has no groups here to be given
    for name, cells in rows:
        told = [cell.strip() for cell in cells.split("|")]
        for partition, columns in (("label-skew", told[:5]), ("dirichlet", told[6:11])):
            run = ROOT / "reproductions" / "all-methods" / partition / name.replace(":", "-") / "seed-0"
            accuracy = json.loads((run / "result.json").read_text(encoding="utf-8"))["accuracy"]
            kept = [accuracy[protocol] for protocol in ("L", "C", "plus", "C_own", "C_lacking")]
            assert columns == ["–" if value is None else f"{100 * value:.2f}" for value in kept], (name, partition)


def test_the_tables_without_settings_are_those_of_the_kept_runs_and_so_are_the_claims() -> None:
    page = (ROOT / "docs" / "no-settings.md").read_text(encoding="utf-8")
    tables = runpy.run_path(str(ROOT / "reproductions" / "no_settings.py"))
    place = ROOT / "reproductions" / "no-settings"
    one_seed, seeds, last = (tables["read"](f"no-settings{part}", place) for part in ("", "-seeds", "-last"))
    written = [tables["of_all_methods"](runs) for runs in (one_seed, seeds, last)]
    of_kindred = tables["of_one_method"](one_seed, "kindred")
    rows = [line for table in written for line in table.splitlines()[2:]]
    assert len(rows) == 20 + 5 + 2
    for row in rows:
        assert row.split(" | ", 1)[1] in page, row
    for row in of_kindred.splitlines()[2:]:
        cells = row.strip("| ").split(" | ")[1:-1]  # bytes are told in words
        assert f"| {' | '.join(cell or '–' for cell in cells)} |" in page, row
    assert tables["verdicts"](one_seed, seeds) == [
        f"{claim}: 19 of 19 rows, fails on none"
        for claim in (
            "C within 1 point of the best as published",
            "C within 1 point of the best with labels = both",
            "L within 1 point of FedAvg's",
            "+ within 1 point of FedAvg's",
        )
    ]


def test_every_entry_of_the_catalogue_is_on_the_page_of_coverage() -> None:
    page = set(re.findall(r"`([^`]+)`", COVERAGE.read_text(encoding="utf-8")))
    for name, item in catalogue().items():
        assert page & {name, *item.entry.also}, name


@pytest.mark.integration
def test_what_the_page_of_coverage_names_exists() -> None:
    for name in dict.fromkeys(re.findall(r"`([^`]+)`", COVERAGE.read_text(encoding="utf-8"))):
        if name.startswith("--"):
            assert name in flags("run"), name
        elif name.startswith("coterie."):
            resolved(name)
        elif name.startswith("coterie "):
            check_command(name)
        elif name.startswith(("src/", "tests/", "docs/", "examples/")):
            assert (ROOT / name).exists(), name
        elif name.startswith(("partition ", "rule ")):
            kind, _, choice = name.partition(" ")
            check_choice({"partition": PARTITIONS, "rule": RULES}[kind], choice)
        elif ":" in name:
            check_choice(ALGORITHMS, name)
        else:
            assert name in catalogue(), name


def check_choice(registry: Registry[Any], text: str) -> None:
    """A name with options, as flags take it, is in a registry, and the options are its own."""
    chosen = parse_choice(text)
    name = chosen.pop("name")
    assert name in registry, text
    registry.validate(name, chosen)


def check_command(text: str) -> None:
    """A command exists, with the flags, and the registered names behind them."""
    _, command, *words = text.split()
    assert command in COMMANDS, text
    for flag in words:
        assert not flag.startswith("-") or flag in flags(command), text
    values = dict(pairwise(words))
    for flag, registry in {"--algorithm": ALGORITHMS, "--partition": PARTITIONS, "--model": MODELS}.items():
        if flag in values:
            check_choice(registry, values[flag])
    if command in ("reproduce", "models"):
        assert words[0] in {"reproduce": catalogue(), "models": MODELS}[command], text


@cache
def flags(command: str) -> set[str]:
    """The flags of a command."""
    shown = CliRunner().invoke(typer.main.get_command(app), [command, "--help"], terminal_width=200)
    assert shown.exit_code == 0
    return set(re.findall(r"(?<![\w-])(--?[a-z][\w-]*)", shown.output))


@pytest.mark.slow
def test_the_site_is_built_without_a_warning(tmp_path: Path) -> None:
    """Needs the extra 'docs'."""
    pytest.importorskip("mkdocs")
    pytest.importorskip("material")
    pytest.importorskip("mkdocstrings")
    import os
    import subprocess
    import sys

    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path / "site")]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=300, env={**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    )
    assert done.returncode == 0, done.stderr
    for page in (tmp_path / "site").rglob("*.html"):
        fetched = re.findall(
            r'<(?:script|link|img)\b[^>]*(?:src|href)="((?:https?:)?//[^"]*)"', page.read_text("utf-8")
        )
        assert not fetched, f"{page.name} fetches {fetched}"
