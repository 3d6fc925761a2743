"""`coterie --help` in panels, and the help of a command in the sections of the configuration."""

from __future__ import annotations

import inspect
import pkgutil
import re
from importlib import import_module

import pytest
import typer
from command_line import cli, spawn

import coterie.cli
from coterie.cli.main import COMMANDS, PANELS
from coterie.run.config import keys


def sections(text: str) -> dict[str, list[str]]:
    """The lines of a help under each heading."""
    found: dict[str, list[str]] = {}
    for line in text.splitlines():
        if line.endswith(":") and not line.startswith(" "):
            found[line[:-1]] = []
        elif line and found:
            found[[*found][-1]].append(line)
    return found


def test_every_command_is_in_a_panel() -> None:
    modules = [import_module(f"coterie.cli.{m.name}") for m in pkgutil.iter_modules(coterie.cli.__path__)]
    own = {name: vars(m).get(name) for m in modules for name in [m.__name__.rpartition(".")[2]]}
    commands = {name for name, item in own.items() if inspect.isfunction(item) or isinstance(item, typer.Typer)}
    assert commands - {"main"} == set(COMMANDS)


def test_the_first_screen_has_a_line_for_each_command_under_its_panel(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    text = cli("--help").out
    shown = sections(text)
    assert [*shown] == [*PANELS, "Options"]
    for heading, panel in PANELS.items():
        assert [line.split(maxsplit=1) for line in shown[heading]] == [[*pair] for pair in panel.items()]
    assert max(map(len, text.splitlines())) <= 78
    assert len(text.splitlines()) < 55


@pytest.mark.parametrize(("command", "width"), [("run", 80), ("run", 100), ("compare", 80), ("inspect", 100)])
def test_flags_stand_under_the_section_of_their_key(command: str, width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    text = cli(command, "-h").out
    assert max(map(len, text.splitlines())) <= width
    shown = {re.sub(r"\]  .*", "]", heading): lines for heading, lines in sections(text).items()}
    missing = {"compare": {"--algorithm", "--seed"}, "sweep": {"--seed"}}.get(command, set())
    expected: dict[str, list[str]] = {}
    for key in keys():
        if key.flag not in missing:
            expected.setdefault(f"[{key.section}]", []).append(key.flag)
    assert [*shown] == ["Options", *expected]
    for heading, flags in expected.items():
        assert [line.split()[0] for line in shown[heading] if line.startswith("  -")] == flags


@pytest.mark.parametrize("command", ["bench", "data", "deploy"])
def test_no_summary_of_a_command_is_cut_off(command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert "..." not in cli(command, "-h").out.partition("Commands:")[2]


def test_no_name_and_no_command_to_copy_is_broken(monkeypatch: pytest.MonkeyPatch) -> None:
    for width in (60, 80, 91, 100):
        monkeypatch.setenv("COLUMNS", str(width))
        text = cli("run", "-h").out
        assert "lg-fedavg" in text
        assert "sub-fedavg-hy" in text
    monkeypatch.setenv("COLUMNS", "80")
    lines = {line.strip() for name in ("run", "compare", "completion") for line in cli(name, "-h").out.splitlines()}
    assert "Try:  coterie run --algorithm pacfl --dataset digits-rotated" in lines
    assert "Try:  coterie compare --algorithms fedavg,pacfl --dataset digits-rotated" in lines
    assert 'Zsh, in ~/.zshrc below compinit:  eval "$(coterie completion zsh)"' in lines


def test_columns_are_the_same_in_all_sections(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    text = cli("run", "-h").out
    starts = {match.end() for match in re.finditer(r"(?m)^  --[a-z-]+(?: [^ ]+)? {2,}", text)}
    columns = {end - text.rfind("\n", 0, end) - 1 for end in starts}
    assert len(columns) == 1


def test_the_version() -> None:
    answer = cli("--version")
    assert (answer.code, answer.out, answer.err) == (0, f"coterie {coterie.__version__}\n", "")
    assert cli("--version", "run", "--lr", "nonsense").out == answer.out


@pytest.mark.integration
def test_the_first_screen_imports_next_to_nothing() -> None:
    """So that it comes at once: NumPy and Pydantic alone take longer than all else."""
    answer = spawn("--help", env={"PYTHONPROFILEIMPORTTIME": "1"})
    imported = {line.rpartition("|")[2].strip() for line in answer.err.splitlines()}
    assert "typer" in imported
    assert not imported & {"numpy", "pydantic", "torch", "rich", "coterie.run.config", "coterie.cli.run"}
