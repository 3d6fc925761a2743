"""A user's own method, model, partition and data set, from a file named on the command line."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from command_line import SMALL, cli, outcome, refusal, spawn, tree
from plugin_sources import ALL, FUTURE, HEAD, METHOD, MODEL

from coterie.run.plugins import import_plugins
from coterie.testing import BATTERY

MINE = ["--algorithm", "median", "--model", "narrow:width=5", "--partition", "stripes:offset=1",
        "--dataset", "blobs:samples=90", "--clients", "4", "--fraction", "0.5", "--rounds", "4", "--epochs", "1",
        "--eval-every", "2"]  # fmt: skip


@pytest.fixture(autouse=True)
def _put_back(registries_put_back: None) -> None:
    """Whatever is registered here."""


@pytest.mark.integration
def test_one_file_brings_all_four(place: Path) -> None:
    """As a process of its own, since nothing may depend on what was imported before."""
    (place / "mine.py").write_text(ALL)
    answer = spawn("run", "--plugin", "mine.py", *MINE, "--out", "run")
    assert answer.code == 0, answer.err
    result = outcome(place / "run")["result"]
    assert (result["algorithm"], result["data"], result["model"]) == ("median", "blobs", "narrow")
    assert result["partition"] == "stripes:offset=1"
    assert len(result["per_client"]["L"]) == 4
    assert "median" in answer.out

    (place / "run" / "result.json").unlink()  # what is stored names the file, wherever it is resumed from
    (place / "elsewhere").mkdir()
    named = ["--plugin", place / "mine.py"]
    assert spawn("resume", place / "run", *named, "--quiet", cwd=place / "elsewhere").code == 0
    assert outcome(place / "run")["result"] == result


def test_a_plugin_may_postpone_its_annotations(place: Path) -> None:
    """As every method of ours does, which users copy."""
    (place / "mine.py").write_text(FUTURE + ALL)
    assert cli("run", "--plugin", "mine.py", *MINE, "--out", "run", "--quiet").code == 0


def test_a_copy_of_our_own_method_under_another_name_runs(place: Path) -> None:
    import coterie.algorithms.fedavg as original

    source = Path(str(original.__file__)).read_text(encoding="utf-8")
    (place / "mine.py").write_text(source.replace('"fedavg"', '"my-average"'), encoding="utf-8")
    answer = cli("run", *SMALL, "--plugin", "mine.py", "--algorithm", "my-average", "--out", "run", "--quiet")
    assert (answer.code, answer.err) == (0, "")


def test_a_method_may_extend_one_of_ours(place: Path) -> None:
    (place / "mine.py").write_text(
        "import coterie\nfrom coterie.algorithms.solo import Solo\n\n"
        '@coterie.algorithm("my-solo")\nclass MySolo(Solo):\n    """Alone, my way."""\n'
    )
    answer = cli("run", *SMALL, "--plugin", "mine.py", "--algorithm", "my-solo:epochs=2", "--out", "run", "--quiet")
    assert (answer.code, answer.err) == (0, "")


@pytest.mark.parametrize("name", ["json.py", "statistics.py"])
def test_a_file_may_be_called_like_a_module_of_pythons(name: str, place: Path) -> None:
    (place / "own").mkdir()
    (place / "own" / name).write_text(FUTURE + HEAD + MODEL)
    answer = cli("run", *SMALL, "--plugin", f"own/{name}", "--model", "narrow:width=5", "--out", "run", "--quiet")
    assert (answer.code, answer.err) == (0, "")
    assert json.dumps({}) == "{}"


OPTIONS = {
    "a list": ("widths: list[int] = [5, 6]", [7, 8]),
    "a tuple": ("widths: tuple[int, ...] = (5, 6)", [7, 8]),
    "texts": ("names: list[str] = ['a']", ['say "b"', "ä\\c"]),
    "a table": ("sizes: dict[str, int] = {'a': 3}", {"b": 4}),
    "perhaps nothing": ("limit: float | None = None", 0.5),
}


@pytest.mark.integration
@pytest.mark.parametrize("kind", OPTIONS)
def test_a_run_with_options_of_any_kind_can_be_resumed(kind: str, place: Path) -> None:
    declared, value = OPTIONS[kind]
    name = declared.partition(":")[0]
    (place / "mine.py").write_text(HEAD + MODEL.replace("*, width", f"*, {declared}, width"))
    written = str(value).replace("': ", "' = ")  # TOML's way of writing tables
    for number, setting in enumerate(([], ["--set", f"model.{name}={written}"])):
        run = place / f"run{number}"
        flags = [*SMALL, "--plugin", "mine.py", "--model", "narrow", *setting]
        answer = cli("run", *flags, "--out", run, "--quiet")
        assert (answer.code, answer.err) == (0, "")
        whole = outcome(run)
        (run / "result.json").unlink()
        answer = cli("resume", run, "--quiet")
        assert (answer.code, answer.err) == (0, "")
        assert outcome(run) == whole


def test_a_method_may_have_an_option_that_is_made_anew(place: Path) -> None:
    """`field(default_factory=...)` is how dataclasses declare lists."""
    text = HEAD.replace("import dataclass", "import dataclass, field") + METHOD
    (place / "mine.py").write_text(
        text.replace("    damping:", "    layers: list[int] = field(default_factory=lambda: [1, 2])\n    damping:")
    )
    answer = cli("run", *SMALL, "--plugin", "mine.py", "--algorithm", "median", "--out", "run", "--quiet")
    assert (answer.code, answer.err) == (0, "")


def test_options_of_plugins_are_checked(place: Path) -> None:
    (place / "mine.py").write_text(ALL)
    assert "'widht'" in refusal(cli("run", "--plugin", "mine.py", "--model", "narrow:widht=3"))
    assert "width = 0" in refusal(cli("run", "--plugin", "mine.py", "--model", "narrow:width=0"))
    assert "'narrow'" in refusal(cli("run", "--plugin", "mine.py", "--model", "narow"))
    (place / "demanding.py").write_text(
        HEAD + MODEL.replace('"narrow"', '"demanding"').replace("def narrow", "def demanding").replace("] = 7", "]")
    )
    assert "'width'" in refusal(cli("run", "--plugin", "demanding.py", "--model", "demanding"))


def test_plugins_can_be_listed(place: Path) -> None:
    (place / "mine.py").write_text(ALL)
    for kind, name in (
        ("algorithms", "median"),
        ("models", "narrow"),
        ("partitions", "stripes"),
        ("datasets", "blobs"),
    ):
        answer = cli(kind, "--plugin", "mine.py")
        assert (answer.code, answer.err) == (0, "")
        assert any(line.split()[:1] == [name] and len(line.split()) > 2 for line in answer.out.splitlines())
    assert re.search(r"damping = 1.0  \[.*\]\n +how far to go", cli("algorithms", "median", "--plugin", "mine.py").out)
    assert "'nofile.py'" in refusal(cli("algorithms", "--plugin", "nofile.py"))


@pytest.mark.integration
@pytest.mark.parametrize("check", BATTERY, ids=lambda check: check.__name__)
def test_the_users_method_passes_the_battery(check: Callable[[str, Path], None], place: Path) -> None:
    (place / "mine.py").write_text(HEAD + METHOD)
    import_plugins(["mine.py"])
    check("median", place)


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("1 / 0\n", ["ZeroDivisionError"]),
        ("def (\n", ["SyntaxError"]),
        ("import no_such_module\n", ["no_such_module"]),
        ("open('no-such-file.txt')\n", ["no-such-file.txt"]),
        ("import sys\nsys.exit(0)\n", ["SystemExit"]),
    ],
    ids=["raises", "is no Python", "needs another module", "needs another file", "ends the process"],
)
def test_a_plugin_that_fails(text: str, named: list[str], place: Path) -> None:
    (place / "mine.py").write_text(text)
    message = refusal(cli("run", *SMALL, "--plugin", "mine.py", "--out", "run"))
    assert [name for name in [*named, "mine.py"] if name not in message] == []
    assert "no plugin file" not in message
    assert not (place / "run").exists()


@pytest.mark.integration
@pytest.mark.parametrize("kind", ["algorithm", "model", "partition", "dataset"])
def test_a_name_that_is_taken(kind: str, place: Path) -> None:
    """As a process of its own, since what is built in may be imported before the plugin or after it."""
    taken = {"algorithm": "fedavg", "model": "mlp", "partition": "iid", "dataset": "digits"}[kind]
    (place / "mine.py").write_text(f'import coterie\n\n@coterie.{kind}("{taken}")\ndef mine():\n    """Mine."""\n')
    before = tree(place)
    message = refusal(spawn("run", *SMALL, "--plugin", "mine.py", "--out", "run", env={"PYTHONDONTWRITEBYTECODE": "1"}))
    assert [text for text in (f"'{taken}'", "registered already", "mine") if text not in message] == []
    assert tree(place) == before


def test_two_plugins_with_one_name(place: Path) -> None:
    for name in ("first", "second"):
        (place / f"{name}.py").write_text(HEAD + MODEL)
    message = refusal(cli("run", "--plugin", "first.py", "--plugin", "second.py", "--print-config"))
    assert [text for text in ("'narrow'", "registered already", "first", "second") if text not in message] == []
