"""Folders that somebody sent name plugins: looking imports none, and using a folder only what is named here too."""

import json
import shutil
from pathlib import Path

import pytest
from command_line import SMALL, Answer, cli, refusal

import coterie
from coterie.compare.comparison import Comparison
from coterie.errors import CoterieError
from coterie.federation.checkpoint import load_checkpoint, save_checkpoint
from coterie.run.export import predict
from coterie.run.plugins import Permission
from coterie.studies.layers import study

PLUGIN = "from pathlib import Path\nPath(__file__).with_name('it ran').write_text('')\n"


@pytest.fixture(scope="module")
def sent(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run, one that was interrupted, a comparison and an input: nothing names a plugin yet."""
    folder = tmp_path_factory.mktemp("sent")
    assert cli("run", *SMALL, "--fraction", "1", "--out", folder / "run", "--quiet").code == 0
    shutil.copytree(folder / "run", folder / "begun")
    (folder / "begun" / "result.json").unlink()
    (folder / "begun" / "checkpoint.safetensors").unlink()
    compared = ["compare", "--algorithms", "fedavg,solo", "--seeds", "0", *SMALL, "--rounds", "1", "--jobs", "1"]
    assert cli(*compared, "--out", folder / "compared", "--quiet").code == 0
    return folder


@pytest.fixture
def folder(sent: Path, tmp_path: Path) -> Path:
    """The same, with a plugin named wherever there is a place for it: also inside the checkpoint."""
    shutil.copytree(sent, tmp_path, dirs_exist_ok=True)
    plugin = tmp_path / "theirs.py"
    plugin.write_text(PLUGIN)
    line = f"plugins = {json.dumps([str(plugin)])}"
    for config in tmp_path.rglob("config.toml"):
        config.write_text(config.read_text().replace("plugins = []", line))
        assert line in config.read_text()
    for checkpoint in tmp_path.rglob("checkpoint.safetensors"):
        state = load_checkpoint(checkpoint)
        state["config"] = state["config"].replace('"plugins":[]', f'"plugins":{json.dumps([str(plugin)])}')
        save_checkpoint(checkpoint, state)
    plan = tmp_path / "compared" / "comparison.toml"
    plan.write_text(plan.read_text().replace("[base.training]", f"[base.run]\n{line}\n\n[base.training]"))
    assert line in plan.read_text()
    return tmp_path


def ran(folder: Path) -> bool:
    return (folder / "it ran").exists()


def refused(answer: Answer, folder: Path) -> str:
    """Return the sentence that says which plugin was not imported, and how to allow it."""
    message = refusal(answer)
    plugin = folder / "theirs.py"
    assert f"names a plugin, '{plugin}', whose code would run: nothing was imported" in message
    assert f"--plugin {plugin}" in message
    assert "--trust" in message
    assert not ran(folder)
    return message


EXPERT = [
    "run", *SMALL, "--rounds", "1", "--curriculum", "score=E", "--quiet", "--expert",
]  # fmt: skip


@pytest.mark.parametrize("what", ["run", "begun", "compared"])
def test_a_report_imports_nothing(folder: Path, what: str) -> None:
    assert cli("report", folder / what, "--out", folder / "page.html").code == 0
    assert not ran(folder)


def test_a_comparison_that_is_read_in_python_imports_nothing(folder: Path) -> None:
    assert "solo" in Comparison.load(folder / "compared").report()
    assert not ran(folder)


COMMANDS = {
    "predict": ["predict", "run", "x.npz", "--client", "0"],
    "export": ["export", "run", "--client", "0", "--out", "model.safetensors"],
    "layers": ["layers", "run", "--inputs", "20"],
    "resume": ["resume", "begun", "--quiet"],
    "resume a comparison": ["resume", "compared", "--quiet"],
    "expert": [*EXPERT, "run", "--out", "new"],
    "compare": [
        "compare", "--algorithms", "fedavg,solo", "--seeds", "0", *SMALL, "--rounds", "1", "--jobs", "1", "--quiet",
        "--out", "compared",
    ],
}  # fmt: skip


@pytest.mark.parametrize("name", COMMANDS)
def test_nothing_is_imported_that_is_not_named(folder: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    inputs(folder)
    refused(cli(*COMMANDS[name]), folder)
    if name == "expert":
        assert not (folder / "new").exists()


@pytest.mark.parametrize("name", COMMANDS)
@pytest.mark.parametrize("how", ["--plugin", "--trust"])
def test_what_is_named_is_imported(folder: Path, name: str, how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    inputs(folder)
    allowed = ["--plugin", folder / "theirs.py"] if how == "--plugin" else ["--trust"]
    answer = cli(*COMMANDS[name], *allowed)
    assert answer.code == 0, answer.err
    assert ran(folder)


def test_a_module_is_refused_too_and_one_that_is_imported_runs_nothing(folder: Path) -> None:
    config = folder / "begun" / "config.toml"
    config.write_text(config.read_text().replace(str(folder / "theirs.py"), "antigravity"))
    assert "names a plugin, 'antigravity', whose code would run" in refusal(cli("resume", folder / "begun", "--quiet"))
    config.write_text(config.read_text().replace("antigravity", "json"))
    assert cli("resume", folder / "begun", "--quiet").code == 0
    assert not ran(folder)


def test_a_file_of_mine_stands_for_one_of_the_same_name(folder: Path, tmp_path: Path) -> None:
    mine = folder / "elsewhere" / "theirs.py"
    mine.parent.mkdir()
    mine.write_text(PLUGIN)
    assert cli("resume", folder / "begun", "--quiet", "--plugin", mine).code == 0
    assert (mine.parent / "it ran").exists()
    assert not ran(folder)


def test_cells_of_a_comparison_cannot_bring_plugins(folder: Path) -> None:
    plan = folder / "compared" / "comparison.toml"
    text = plan.read_text().partition("[base.run]")
    rest = text[2].partition("[base.training]")
    theirs = json.dumps([str(folder / "theirs.py")])
    plan.write_text(
        f"{text[0]}[base.training]{rest[2]}".replace('[cells."solo"]', f'[cells."solo"]\n"run.plugins" = {theirs}')
    )
    assert "cells can't change keys of [run]" in refusal(cli("resume", folder / "compared", "--quiet"))
    assert cli("report", folder / "compared", "--out", folder / "page.html").code == 0
    assert not ran(folder)


def test_in_python_it_is_a_keyword(folder: Path) -> None:
    inputs(folder)
    for call in (
        lambda **allowed: coterie.resume(folder / "begun", **allowed),
        lambda **allowed: predict(folder / "run", folder / "x.npz", 0, **allowed),
        lambda **allowed: study([folder / "run"], inputs=20, **allowed),
    ):
        with pytest.raises(CoterieError, match="nothing was imported"):
            call()
        assert not ran(folder)
    coterie.resume(folder / "begun", trust=True)
    assert ran(folder)


def test_what_is_permitted_is_what_is_imported(tmp_path: Path) -> None:
    one, two = (str(tmp_path / name) for name in ("one.py", "two.py"))
    assert Permission((one,)).granted([one], "a folder") == [one]
    assert Permission((one,)).granted([], "a folder") == [one]
    assert Permission(trust=True).granted([one, two], "a folder") == [one, two]
    with pytest.raises(CoterieError, match=r"'a folder' names a plugin, '\S+two.py', whose"):
        Permission((one,)).granted([one, two], "a folder")


def inputs(folder: Path) -> None:
    import numpy as np

    np.savez(folder / "x.npz", x=np.zeros((2, 1, 8, 8), np.uint8))
