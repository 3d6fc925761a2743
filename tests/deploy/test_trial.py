"""``coterie deploy try``: what it writes, what it refuses, and once the whole of it on real processes."""

import tomllib
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

pytest.importorskip("flwr", reason="needs the extra: pip install 'coterie[flower]'")

import typer

import coterie
from coterie.cli.deploy import deploy
from coterie.deploy.app_folder import init
from coterie.deploy.programs import MARK
from coterie.deploy.terms import read_terms
from coterie.deploy.trial import try_out, with_settings
from coterie.errors import CoterieError


def tried(app: Path, *sites: Path, count: int = 3, out: Path | None = None) -> coterie.Result:
    return try_out(app, out, sites, count=count, rounds=1, minutes=1, say=lambda line: None)


def test_settings_are_changed_and_all_else_stays(tmp_path: Path) -> None:
    init(tmp_path / "app")
    text = (tmp_path / "app" / "federation.toml").read_text()
    changes = {"run": {"out": 'a "b"'}, "training": {"rounds": 3}, "server": {"certificate": "/c"}, "new": {"x": [1]}}
    before, after = tomllib.loads(text), tomllib.loads(with_settings(text, changes))
    assert after == {**{name: table | changes.get(name, {}) for name, table in before.items()}, "new": {"x": [1]}}


def test_a_folder_that_is_there_is_left_alone(tmp_path: Path) -> None:
    init(tmp_path / "app")
    (tmp_path / "app-trial").mkdir()
    with pytest.raises(CoterieError, match=r"app-trial' is there already: remove it, or name another with --out"):
        tried(tmp_path / "app")


@pytest.mark.parametrize("count", [0, 9, 10**6])
def test_there_are_a_few_sites(tmp_path: Path, count: int) -> None:
    with pytest.raises(CoterieError, match=f"a trial on one machine has 1 to 8 sites, not {count}"):
        tried(tmp_path / "app", count=count)


def test_data_that_the_app_is_not_for(tmp_path: Path) -> None:
    init(tmp_path / "app")
    file = tmp_path / "app" / "federation.toml"
    file.write_text(file.read_text().replace("[1, 8, 8]", "[3, 32, 32]"))
    with pytest.raises(CoterieError, match=r"uint8 samples of shape \[3, 32, 32\].*--site site-1/site.toml"):
        tried(tmp_path / "app")
    assert not (tmp_path / "app-trial" / "app").exists()


def test_sites_have_names_of_their_own(tmp_path: Path) -> None:
    init(tmp_path / "app")
    with pytest.raises(CoterieError, match="two of these sites have one name"):
        tried(tmp_path / "app", *[tmp_path / "app" / "site.toml"] * 2)


@pytest.mark.parametrize("name", ["run", "keys", "site-2"])
def test_no_two_things_of_a_trial_have_one_folder(tmp_path: Path, name: str) -> None:
    """The app is copied under its own name, beside the run, the keys and the sites."""
    init(tmp_path / name)
    with pytest.raises(CoterieError, match=f"two folders '{name}': give the app, or the site, another name"):
        tried(tmp_path / name)
    assert not (tmp_path / f"{name}-trial").exists()


@pytest.mark.slow
def test_a_trial_in_a_fresh_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """SuperLink, keys, registration, sites, a run, its result; and then no process is left."""
    monkeypatch.chdir(tmp_path)
    arguments = ["try", "hospitals", "--sites", "2", "--rounds", "1", "--minutes", "30"]
    told = CliRunner().invoke(typer.main.get_command(deploy), arguments, catch_exceptions=False)
    assert told.exit_code == 0, told.output
    run = tmp_path / "hospitals-trial" / "run"
    result = coterie.Result.load(run)
    assert (result.rounds, len(result.groups or [])) == (1, 2)
    lines = told.output.splitlines()
    assert "$ flwr supernode register keys/site-1.pub hospitals-server" in lines
    assert "$ flwr run hospitals hospitals-server --stream" in lines
    assert any(line.startswith("what clients measured of their inputs, together: mean") for line in lines)
    assert any("every group has one client" in line for line in lines)  # as the two see other digits
    assert f"Run folder: {run}" in told.output
    assert not started_in(tmp_path)
    assert not (tmp_path / "hospitals-run").exists()  # the real run has not begun
    assert read_terms(tmp_path / "hospitals").config.training.rounds == 20
    with np.load(tmp_path / "hospitals-trial" / "site-1" / "data.npz") as arrays:
        assert arrays["x_train"].shape[1:] == (1, 8, 8)


def started_in(folder: Path) -> list[str]:
    """The processes of a trial that know of a folder; others may be at work here too."""
    found = []
    for place in Path("/proc").glob("[0-9]*"):
        try:
            environment = (place / "environ").read_bytes()
            if str(folder).encode() in environment and f"{MARK}=".encode() in environment:
                found.append((place / "cmdline").read_text())
        except OSError:
            continue
    return [command for command in found if "pytest" not in command]
