"""Where progress goes: a notebook, a terminal, plain lines, or nowhere."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import pytest

from coterie.run.live_progress import LiveProgress, listener
from coterie.run.progress import Progress
from coterie.run.screen import LINES, LineScreen, NotebookScreen, Screen, in_notebook, make_screen

ROW = {"round": 2, "L": 0.5, "C": 0.25, "G": None, "loss": 1.5}


def test_nothing_is_shown_where_nobody_looks_unless_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    for progress in (None, False):
        assert type(listener(progress)) is Progress
    shown, own = listener(True), Progress()
    assert listener(own) is own
    shown.begin("fedavg on digits", 4, 0)
    shown.round(2, ROW)
    shown.end()
    said = capsys.readouterr()
    assert not said.out
    assert said.err.splitlines()[0] == "fedavg on digits"
    assert said.err.splitlines()[1].startswith("round 2/4  L 50.00 %  C 25.00 %  loss 1.500")


def test_a_kernel_is_a_notebook_and_ipython_on_a_terminal_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: None))
    assert not in_notebook()
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: SimpleNamespace()))
    assert not in_notebook()
    assert type(make_screen()) is LineScreen
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: SimpleNamespace(kernel=object())))
    assert in_notebook()
    assert type(make_screen()) is NotebookScreen


def test_a_notebook_shows_bars_and_then_the_last_lines() -> None:
    pytest.importorskip("IPython")
    screen = NotebookScreen()
    progress = LiveProgress(screen)
    progress.begin("<b>mine</b>", 4, 0)
    progress.clients(1, 3)
    progress.round(2, ROW)
    during = screen.content()["text/html"]
    assert "&lt;b&gt;mine" in during
    assert '<progress value="2" max="4">' in during
    for line in range(LINES):
        progress.phase(f"line {line}")
    progress.end()
    after = screen.content()
    assert "<progress" not in after["text/html"]
    assert after["text/plain"].splitlines()[-1] == "round 2: L 50.00 %  C 25.00 %"
    assert len(after["text/plain"].splitlines()) == LINES


def test_a_quiet_screen_says_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    progress = LiveProgress(Screen())
    progress.begin("title", 2, 0)
    progress.round(1, ROW)
    progress.end()
    assert capsys.readouterr() == ("", "")
