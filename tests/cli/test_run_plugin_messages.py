"""An error in a plugin is told with its file, line and function; it is no bug of Coterie's."""

from __future__ import annotations

from pathlib import Path

import pytest
from command_line import SMALL, cli, refusal, spawn
from plugin_sources import ALL, HEAD, METHOD

from coterie.cli import algorithms

MINE = {
    "method": ["--algorithm", "median"],
    "model": ["--model", "narrow"],
    "partition": ["--partition", "stripes", "--dataset", "digits"],
    "data set": ["--dataset", "blobs"],
}


@pytest.fixture(autouse=True)
def _put_back(registries_put_back: None) -> None:
    """Whatever is registered here."""


def flags(kind: str) -> list[str]:
    return [*SMALL, *MINE[kind], "--plugin", "mine.py", "--out", "run", "--quiet"]


def line_of(text: str, source: str) -> int:
    return source[: source.index(text)].count("\n") + 1


@pytest.mark.parametrize(
    ("kind", "before", "function"),
    [
        ("method", "        self.model = fed.initial()\n", "begin"),
        ("method", "        trained = [reply", "round"),
        ("method", "        return self.model\n", "model_for"),
        ("method", '        return {"model": self.model}\n', "save"),
        ("model", "    return nn.Sequential", "narrow"),
        ("partition", "    return Partition(", "stripes"),
        ("data set", "    y = np.arange(samples)", "blobs"),
    ],
)
def test_an_error_in_a_plugin_is_told_with_its_place(kind: str, before: str, function: str, place: Path) -> None:
    indent = before[: len(before) - len(before.lstrip())]
    source = ALL.replace(before, f"{indent}oops = {{}}['missing']\n{before}")
    (place / "mine.py").write_text(source)
    message = refusal(cli("run", *flags(kind)))
    line = line_of("oops", source)
    assert message == (
        f"coterie: {place / 'mine.py'}, line {line}, in {function}: KeyError: 'missing' (--debug shows the traceback)"
    )


def test_a_network_that_fails_at_a_client_is_told_with_the_client(place: Path) -> None:
    source = HEAD + (
        "from torch import nn\n\n"
        "class Odd(nn.Module):\n"
        "    def __init__(self, inputs, classes):\n"
        "        super().__init__()\n"
        "        self.layer = nn.Linear(inputs, classes)\n\n"
        "    def forward(self, x):\n"
        '        raise ValueError("two\\nlines")\n\n\n'
        '@coterie.model("narrow")\n'
        "def narrow(shape, classes):\n"
        '    """Fails when it is used."""\n'
        "    return Odd(math.prod(shape), classes)\n"
    )
    (place / "mine.py").write_text(source)
    message = refusal(cli("run", *flags("model"), "--algorithm", "fedavg", "--trainer", "torch"))
    begin = f"coterie: {place / 'mine.py'}, line {line_of('raise', source)}, in forward: ValueError: two lines (client "
    assert message.startswith(begin)
    assert "round 1 (train)" in message
    assert len(message.splitlines()) == 1


def test_an_error_in_a_file_beside_the_plugin(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(place))
    (place / "helper_of_mine.py").write_text("def half(x):\n    return x / 0\n")
    (place / "mine.py").write_text(
        HEAD
        + "from helper_of_mine import half\n"
        + METHOD.replace("self.model = fed", "half(1)\n        self.model = fed")
    )
    message = refusal(cli("run", *flags("method")))
    assert f"{place / 'helper_of_mine.py'}, line 2, in half: ZeroDivisionError: division by zero" in message


def test_a_mistake_in_asking_names_the_line_that_asks(place: Path) -> None:
    source = HEAD + METHOD.replace(", model=self.model", "")
    (place / "mine.py").write_text(source)
    message = refusal(cli("run", *flags("method")))
    assert f"mine.py, line {line_of('replies = ', source)}, in round: ValueError: Train needs the model" in message


def test_a_missing_file_that_a_plugin_opens(place: Path) -> None:
    source = ALL.replace("    y = np.arange", "    open('no-such-file')\n    y = np.arange")
    (place / "mine.py").write_text(source)
    message = refusal(cli("run", *flags("data set")))
    assert f"mine.py, line {line_of('open', source)}, in blobs: FileNotFoundError" in message
    assert "no-such-file" in message


def test_an_error_that_the_plugin_explains_is_told_as_it_is(place: Path) -> None:
    source = ALL.replace("    y = np.arange", "    raise coterie.CoterieError('draw more samples')\n    y = np.arange")
    (place / "mine.py").write_text(source)
    assert refusal(cli("run", *flags("data set"))) == "coterie: draw more samples"


def test_a_file_of_ours_that_cannot_be_written_is_not_blamed_on_the_method(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from coterie.client.client import Client

    def answer(self: Client, request: object) -> None:
        raise PermissionError(13, "Permission denied", "state")

    answer = type(answer)(answer.__code__, Client.answering.__globals__ | {"PermissionError": PermissionError})  # type: ignore[assignment]
    monkeypatch.setattr(Client, "answering", answer)
    (place / "mine.py").write_text(ALL)
    assert refusal(cli("run", *flags("method"))) == "coterie: 'state': Permission denied"


@pytest.mark.integration
def test_debug_shows_the_traceback(place: Path) -> None:
    (place / "mine.py").write_text(ALL.replace("    y = np.arange", "    oops()\n    y = np.arange"))
    answer = spawn("run", *flags("data set"), "--debug")
    assert answer.code == 1
    assert "Traceback (most recent call last)" in answer.err
    assert "    oops()\n" in answer.err
    assert answer.lines[-1] == "NameError: name 'oops' is not defined"


def test_an_error_where_no_plugin_ran_is_a_bug(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise KeyError("ours")

    monkeypatch.setattr(algorithms, "show_registry", broken)
    answer = cli("algorithms")
    assert (answer.code, answer.lines[-1]) == (1, "coterie: KeyError: 'ours' (this is a bug; --debug shows where)")
    (place / "mine.py").write_text(ALL)
    monkeypatch.undo()
    monkeypatch.chdir(place)
    assert cli("algorithms", "--plugin", "mine.py").code == 0
    monkeypatch.setattr(algorithms, "show_registry", broken)
    assert "(this is a bug, in Coterie or in a plugin; --debug" in cli("algorithms").lines[-1]


@pytest.mark.integration
def test_a_name_that_is_taken_names_both_files_and_blames_the_plugin(place: Path) -> None:
    """As a process of its own, in which nothing is imported before the plugin."""
    (place / "mine.py").write_text(HEAD + METHOD.replace('"median"', '"fedavg"'))
    message = refusal(spawn("run", *SMALL, "--plugin", "mine.py", "--out", "run"))
    begin = f"coterie: plugin 'mine.py' can't be imported: method 'fedavg' of {place / 'mine.py'} is registered already"
    assert message.startswith(f"{begin}, by ")
    assert message.endswith("fedavg.py: give yours another name")
    assert "coterie_plugin_" not in message
    assert "CoterieError" not in message


@pytest.mark.parametrize(
    ("source", "told"),
    [
        (HEAD + METHOD.replace('"median"', '"my median"'), "'my median' can't be the name of a method: use letters"),
        (HEAD + METHOD.partition("    def round")[0], "it has no function model_for and no round"),
        (HEAD + METHOD.replace('("median")', ""), "Median is registered as a method without a name"),
    ],
    ids=["a space", "half of it", "no name"],
)
def test_what_is_no_method_is_refused_when_it_is_imported(source: str, told: str, place: Path) -> None:
    (place / "mine.py").write_text(source)
    assert told in refusal(cli("run", *flags("method")))
    assert not (place / "run").exists()


def test_a_state_with_keys_that_would_not_come_back_is_refused_before_the_first_round(place: Path) -> None:
    (place / "mine.py").write_text(HEAD + METHOD.replace('{"model": self.model}', '{"model": {(0, 1): self.model}}'))
    message = refusal(cli("run", *flags("method")))
    assert "save() of method 'median' returned, at ['model'], the key (0, 1), a tuple" in message
    assert not (place / "run" / "checkpoint.safetensors").exists()


def test_a_finished_folder_is_not_offered_to_go_on_with(finished: Path) -> None:
    message = refusal(cli("run", *SMALL, "--out", "run"))
    assert "resume" not in message
    assert "coterie report run" in message
    assert "--overwrite" in message
