"""The recording of a run: the terminal that it is followed on, and the picture that it becomes."""

from __future__ import annotations

import importlib.util
import re
import sys
from pathlib import Path
from types import ModuleType
from xml.etree import ElementTree

import pytest

FOLDER = Path(__file__).parents[1] / "docs" / "recording"
LARGEST = 150_000


@pytest.fixture(scope="module")
def recording() -> ModuleType:
    spec = importlib.util.spec_from_file_location("make_recording", FOLDER / "make_recording.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def seen(picture: str, at: float) -> list[str]:
    """The lines that an SVG shows at a share of its time, from above."""
    root = ElementTree.fromstring(picture)
    style = "".join(element.text or "" for element in root.findall(".//{*}style"))
    shown = {}
    for name, steps in re.findall(r"@keyframes (\w+){((?:[\d.]+%{visibility:\w+})+)}", style):
        states = [(float(share), state) for share, state in re.findall(r"([\d.]+)%{visibility:(\w+)}", steps)]
        shown[name] = [state for share, state in states if share <= at][-1] == "visible"
    lines = [e for e in root.findall(".//{*}text") if shown.get(e.attrib["class"].split()[0])]
    return ["".join(e.itertext()) for e in sorted(lines, key=lambda e: float(e.attrib["y"]))]


def test_a_bar_is_drawn_over_itself(recording: ModuleType) -> None:
    terminal = recording.Terminal()
    terminal.write("runs ─── 0/2\r\nseed 0\r\x1b[1A\x1b[2Kruns \x1b[38;5;197m━\x1b[0m── 1/2\n\x1b[2K")
    assert terminal.screen() == ("runs \ue001━\ue000── 1/2",)
    terminal.write("x" * (recording.COLUMNS + 1))
    assert [len(line) for line in terminal.screen()[1:]] == [recording.COLUMNS, 1]


def test_letters_of_several_bytes_may_come_in_pieces(recording: ModuleType) -> None:
    assert recording._decoded("a ±".encode()[:-1]) == ("a ", "±".encode()[:1])


@pytest.mark.integration
def test_a_command_becomes_frames_that_show_what_it_wrote(recording: ModuleType) -> None:
    script = "import time; print('one <&>', flush=True); time.sleep(0.3); print('two')"
    frames, seconds = recording.record([sys.executable, "-c", script])
    shown = recording.edited(frames, "my command", seconds)
    picture = recording.svg(shown, "my command", "footer")
    assert seen(picture, 0)[0].startswith("$")
    assert seen(picture, 100) == ["$ my command", "one <&>", "two"]
    assert any(seen(picture, share) == ["$ my command", "one <&>"] for share in range(100))


def test_the_picture_in_the_docs_is_small_and_ends_with_the_table() -> None:
    picture = (FOLDER / "compare.svg").read_text(encoding="utf-8")
    assert len(picture.encode()) < LARGEST
    last = "\n".join(seen(picture, 100))
    assert all(name in last for name in ("method", "fedavg", "pacfl", "kindred"))
    assert "http" not in picture.replace("http://www.w3.org/2000/svg", "")
