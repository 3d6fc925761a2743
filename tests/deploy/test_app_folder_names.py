"""What docs and templates tell people to type: names that exist, and that Flower does not take for others."""

import re
import shlex
from pathlib import Path

import pytest
import typer
from click.testing import CliRunner

from coterie.cli.deploy import deploy
from coterie.deploy.app_folder import connection, init

PAGE = (Path(__file__).parents[2] / "docs" / "deploy.md").read_text(encoding="utf-8")


@pytest.fixture
def written(tmp_path: Path) -> str:
    """All that is said about the app of the docs: on the page, and in its own files."""
    return "\n".join([PAGE, *(file.read_text() for file in init(tmp_path / "hospitals"))])


def commands(text: str, program: str) -> list[list[str]]:
    """The commands of a program that a text names, in blocks, quotes and comments, without what follows #."""
    text = text.replace("\\\n", " ")
    found = re.findall(rf"(?:^\$ |['`]|^#\s+)({program} [^\n'`]+)", text, re.MULTILINE)
    return [shlex.split(command, comments=True) for command in found]


def test_connections_are_one_and_not_the_folder(written: str) -> None:
    """Old docs called the connection as the folder: 'flwr supernode register' then took the folder for it."""
    [folder] = {words[3] for words in commands(written, "coterie deploy init")}
    expected = connection(Path(folder))
    assert expected != folder
    assert set(re.findall(r"\[superlink\.([\w-]+)\]", written)) == {expected}
    runs = [words[2:4] for words in commands(written, "flwr run") if len(words) > 3]
    assert len(runs) >= 3
    assert all(words == [folder, expected] for words in runs)
    registered = [words[-1] for words in commands(written, "flwr supernode register")]
    assert registered
    assert set(registered) == {expected}


def test_flower_takes_the_connection_beside_the_app_s_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("flwr", reason="needs the extra: pip install 'coterie[flower]'")
    from click import ClickException
    from flwr.cli.config_migration import migrate

    init(tmp_path / "hospitals")
    monkeypatch.chdir(tmp_path)
    migrate(connection(Path("hospitals")), args=[])
    with pytest.raises(ClickException):
        migrate("hospitals", args=[])  # which is what old docs said


def test_our_commands_have_the_flags_that_are_named(written: str) -> None:
    shown: dict[str, str] = {}
    found = commands(written, "coterie deploy")
    assert {words[2] for words in found} >= {"init", "check", "try", "join"}
    for _, _, name, *words in found:
        if name not in shown:
            help = CliRunner().invoke(typer.main.get_command(deploy), [name, "--help"], terminal_width=200)
            assert help.exit_code == 0, name
            shown[name] = help.output
        for flag in words:
            assert not flag.startswith("--") or re.search(rf"{flag}\b", shown[name]), (name, flag)
