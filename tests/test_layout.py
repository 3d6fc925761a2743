"""tests/ mirrors src: a test file lies in the folder of its package, and is named after it or one of its modules."""

from pathlib import Path

import pytest

TESTS = Path(__file__).parent
SOURCE = TESTS.parent / "src" / "coterie"
ABOUT_ALL = {"docs", "imports", "layout", "packaging"}
"""What the files beside this one look at that is no module."""
FILES = sorted(TESTS.rglob("test_*.py"))


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(TESTS)))
def test_a_test_file_is_named_after_what_it_tests(file: Path) -> None:
    """As ``test_<module>.py``, or with more behind it where a module has several."""
    package = SOURCE / file.parent.relative_to(TESTS)
    modules = package.glob("*.py") if package == SOURCE else package.rglob("*.py")
    subpackages = {path.parent.name for path in package.rglob("__init__.py")}
    names = {path.stem for path in modules} | {package.name} | (ABOUT_ALL if package == SOURCE else subpackages)
    stem = file.stem.removeprefix("test_")
    assert any(stem == name or stem.startswith(f"{name}_") for name in names), (
        f"'{file.relative_to(TESTS)}' should begin with test_ and one of {', '.join(sorted(names))}"
    )


def test_no_two_test_files_have_one_name() -> None:
    """Else pytest, which imports them by their names, would take one for the other."""
    names = [file.name for file in TESTS.rglob("*.py") if file.name != "conftest.py"]
    assert sorted(set(names)) == sorted(names)
