"""Whoever names the folder above their runs, or misspells one, is told which to name."""

from pathlib import Path

import pytest

from coterie.errors import CoterieError
from coterie.report.folders import make_page
from coterie.results.folder_hints import inside
from coterie.results.run_folder import CONFIG, RunFolder


def test_runs_within_a_folder_are_named(tmp_path: Path) -> None:
    for name in ("a", "b", "c", "d"):
        (tmp_path / name).mkdir()
        (tmp_path / name / CONFIG).touch()
    named = f"name one of {tmp_path}/a, {tmp_path}/b, {tmp_path}/c, \\.\\.\\.$"
    with pytest.raises(CoterieError, match=named):
        RunFolder.open(tmp_path)
    with pytest.raises(CoterieError, match=named):
        make_page([tmp_path])
    assert not inside(tmp_path / "a", CONFIG)


def test_a_misspelt_run_is_suggested(tmp_path: Path) -> None:
    (tmp_path / "pacfl").mkdir()
    for ask in (RunFolder.open, lambda path: make_page([path])):
        with pytest.raises(CoterieError, match=r"did you mean 'pacfl'\?"):
            ask(tmp_path / "pacl")
