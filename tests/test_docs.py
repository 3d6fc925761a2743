"""The documentation holds together: a page per method, names that exist, links that lead somewhere."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import pytest

from coterie.algorithms import ALGORITHMS

ROOT = Path(__file__).parents[1]
PAGES = sorted((ROOT / "docs").rglob("*.md"))
NAV = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")


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


@pytest.mark.slow
def test_the_site_is_built_without_a_warning(tmp_path: Path) -> None:
    """Needs the extra 'docs'."""
    pytest.importorskip("mkdocs")
    pytest.importorskip("material")
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
