"""Where commands write, and that they leave what is not theirs."""

import shutil
from pathlib import Path

import numpy as np
import pytest
from command_line import cli, refusal, tree


@pytest.fixture
def run(place: Path, finished_runs: dict[str, Path]) -> Path:
    shutil.copytree(finished_runs["fedavg"], place / "run")
    return place / "run"


def test_a_page_lies_in_the_folder_that_it_shows(place: Path, run: Path) -> None:
    for _ in range(2):  # it is made again from what is there
        assert cli("report", "run").out == "Page: run/report.html\n"
    assert not (place / "report.html").exists()
    (run / "report.html").write_text("<html>mine</html>")
    assert "'run/report.html' is there already" in refusal(cli("report", "run"))
    assert (run / "report.html").read_text() == "<html>mine</html>"
    assert cli("report", "run", "--overwrite").code == 0
    assert "Made by Coterie" in (run / "report.html").read_text(encoding="utf-8")


def test_a_page_of_several_folders_needs_a_place(place: Path, run: Path) -> None:
    shutil.copytree(run, place / "other")
    before = tree(place)
    assert "--out all.html" in refusal(cli("report", "run", "other"))
    assert tree(place) == before
    assert cli("report", "run", "other", "--out", "all.html").out == "Page: all.html\n"


def test_a_new_run_in_the_folder_takes_the_old_page_away(run: Path) -> None:
    assert cli("report", "run").code == 0
    assert cli("run", str(run / "config.toml"), "--out", "run", "--rounds", "1", "--overwrite", "--quiet").code == 0
    assert not (run / "report.html").exists()


COMMANDS = {
    "report": ["report", "run", "--out", "mine"],
    "figures": ["report", "run", "--figures", "mine.folder", "--formats", "svg"],
    "predict": ["predict", "run", "inputs.npz", "--out", "mine"],
    "export": ["export", "run", "--out", "mine"],
    "export to its own place": ["export", "run"],
    "cluster": ["cluster", "--dataset", "digits-rotated", "--clients", "4", "--out", "mine.folder"],
    "coreset": ["coreset", "graph.txt", "-k", "1", "--out", "mine"],
}


@pytest.mark.integration
@pytest.mark.parametrize("command", COMMANDS.values(), ids=COMMANDS)
def test_a_file_of_somebody_else_stays(place: Path, run: Path, command: list[str]) -> None:
    (place / "mine").write_text("mine")
    (place / "mine.folder").mkdir()
    for name in ("dendrogram.svg", "01-accuracy-over-rounds-own-model.svg"):
        (place / "mine.folder" / name).write_text("mine")
    (run / "model.safetensors").write_text("mine")
    (place / "graph.txt").write_text("a,b\nb,c\n")
    np.savez(place / "inputs.npz", x=np.zeros((2, 8, 8), np.uint8))
    if command[:3] == ["report", "run", "--figures"]:
        assert cli("report", "run", "--figures", "names", "--formats", "svg").code == 0
        first = min(path.name for path in (place / "names").iterdir())
        (place / "mine.folder" / first).write_text("mine")
    before = {
        name: content for name, content in tree(place).items() if "mine" in name or name.endswith("model.safetensors")
    }
    assert "is there already" in refusal(cli(*command))
    after = tree(place)
    assert {name: after.get(name) for name in before} == before
    assert cli(*command, "--overwrite").code == 0
