"""What `import coterie` offers."""

from __future__ import annotations

import inspect
from pathlib import Path

import pytest

import coterie
from coterie.testing import small_run

FUNCTIONS = [
    "run", "compare", "sweep", "cluster", "inspect", "audit", "report", "reproduce", "predict", "export", "load",
    "resume",
]  # fmt: skip


def test_dir_shows_what_there_is_to_use() -> None:
    names = dir(coterie)
    assert set(FUNCTIONS) <= set(names)
    assert sorted(names) == sorted([*coterie.__all__, "__version__"])
    for name in coterie.__all__:
        assert getattr(coterie, name) is not None


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_say_what_each_argument_is(name: str) -> None:
    """Also when packages of the same names are loaded, they are functions."""
    import coterie.report.page
    import coterie.reproduce.reproducing
    import coterie.run.cluster
    import coterie.run.export

    function = getattr(coterie, name)
    assert inspect.isfunction(function)
    doc = inspect.getdoc(function) or ""
    own = inspect.unwrap(function).__kwdefaults__ or {}
    for parameter in inspect.signature(function).parameters.values():
        setting = parameter.kind is parameter.KEYWORD_ONLY and parameter.name not in own
        assert setting or f"{parameter.name}: " in doc, parameter.name


@pytest.mark.integration
def test_folders_are_loaded_as_what_they_hold(tmp_path: Path) -> None:
    result = small_run("fedavg", rounds=1, out=tmp_path / "run")
    assert coterie.load(tmp_path / "run") == result
    settings = {"dataset": "digits", "clients": 4, "rounds": 1, "epochs": 1, "out": tmp_path / "both"}
    made = coterie.compare(algorithms=["fedavg", "solo"], seeds=[0], jobs=1, **settings)
    read = coterie.load(str(tmp_path / "both"))
    assert isinstance(read, coterie.Comparison)
    assert repr(read) == repr(made)
    page = coterie.report(read)
    assert page == tmp_path / "both" / "report.html"
    assert "solo" in page.read_text(encoding="utf-8")
    other = made.results["solo"][0]
    assert "solo" in coterie.report(other, other.folder, out=tmp_path / "two.html").read_text(encoding="utf-8")
    with pytest.raises(coterie.CoterieError, match="needs a place"):
        coterie.report(result, result)
    with pytest.raises(coterie.CoterieError, match="does not exist: name a folder"):
        coterie.load(tmp_path / "rnu")
    with pytest.raises(coterie.CoterieError, match="give the run a folder"):
        coterie.report(small_run("fedavg", rounds=1))
