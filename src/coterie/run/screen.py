"""Where progress is shown: bars on a terminal or in a notebook, plain lines elsewhere."""

import sys
import time
from collections.abc import Hashable
from html import escape
from typing import Any

from coterie.errors import one_line

EVERY = 0.1
"""Seconds between two drawings in a notebook."""
LINES = 12
"""How many of the last lines a notebook shows above the bars."""


class Screen:
    """Shows nothing; others show lines, and perhaps bars below them."""

    has_bars = False

    def say(self, text: str) -> None:
        """Show a line, above the bars if there are any."""

    def show(self, bar: Hashable, **changes: Any) -> None:
        """Change a bar, which is added if it is new: `total`, `completed`, `news`."""

    def remove(self, bar: Hashable) -> None:
        """Take a bar away, if it is there."""

    def clear(self) -> None:
        """Take all bars away."""


class LineScreen(Screen):
    """Plain lines on standard error."""

    def say(self, text: str) -> None:
        """Print it."""
        print(one_line(text), file=sys.stderr, flush=True)


class TerminalScreen(Screen):
    """Lines on standard error, and Rich's bars below them."""

    has_bars = True

    def __init__(self, elapsed: bool) -> None:
        self.bars = _make_bars(elapsed)
        self._tasks: dict[Hashable, Any] = {}

    def say(self, text: str) -> None:
        """Print it above the bars."""
        self.bars.console.print(one_line(text), highlight=False)

    def show(self, bar: Hashable, **changes: Any) -> None:
        """Change a bar."""
        if bar in self._tasks:
            self.bars.update(self._tasks[bar], **changes)
        else:
            self._tasks[bar] = self.bars.add_task(str(bar), **{"total": None, "news": "", **changes})
            self.bars.start()

    def remove(self, bar: Hashable) -> None:
        """Take a bar away."""
        if bar in self._tasks:
            self.bars.remove_task(self._tasks.pop(bar))

    def clear(self) -> None:
        """Take all bars away, and give the cursor back."""
        self.bars.stop()
        for bar in [*self._tasks]:
            self.remove(bar)


class NotebookScreen(Screen):
    """One output of a notebook's cell, drawn anew as the run goes on; the last lines stay."""

    has_bars = True

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._bars: dict[Hashable, dict[str, Any]] = {}
        self._handle: Any = None
        self._drawn = 0.0

    def say(self, text: str) -> None:
        """Add a line."""
        self._lines.append(one_line(text))
        self._draw()

    def show(self, bar: Hashable, **changes: Any) -> None:
        """Change a bar; it is drawn at the next occasion."""
        self._bars.setdefault(bar, {"total": None, "completed": 0, "news": ""}).update(changes)
        if time.monotonic() - self._drawn > EVERY:
            self._draw()

    def remove(self, bar: Hashable) -> None:
        """Take a bar away."""
        self._bars.pop(bar, None)

    def clear(self) -> None:
        """Leave the lines only."""
        self._bars.clear()
        self._draw()

    def content(self) -> dict[str, str]:
        """Return what is shown, by MIME type.

        >>> screen = NotebookScreen()
        >>> screen.content()["text/plain"]
        ''
        """
        lines = self._lines[-LINES:]
        bars = "".join(_bar(str(name), **values) for name, values in self._bars.items())
        said = "".join(f"<div>{escape(line)}</div>" for line in lines)
        html = f'<div style="font-family:monospace;font-size:90%;white-space:pre-wrap">{said}{bars}</div>'
        return {"text/html": html, "text/plain": "\n".join(lines)}

    def _draw(self) -> None:
        from IPython.display import display

        show: Any = display  # which has no types
        self._drawn = time.monotonic()
        if self._handle is None:
            self._handle = show(self.content(), raw=True, display_id=True)
        else:
            self._handle.update(self.content(), raw=True)


def make_screen(elapsed: bool = False) -> Screen:
    """Return the screen that suits where this process runs."""
    if in_notebook():
        return NotebookScreen()
    return TerminalScreen(elapsed) if sys.stderr.isatty() else LineScreen()


def somebody_looks() -> bool:
    """Say whether this process runs in a notebook or on a terminal."""
    return in_notebook() or (sys.stderr is not None and sys.stderr.isatty())


def in_notebook() -> bool:
    """Say whether this process is the kernel of a notebook; IPython is not imported for that."""
    ipython = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    return getattr(shell, "kernel", None) is not None


def _bar(name: str, total: int | None, completed: int, news: str) -> str:
    value = "" if total is None else f' value="{completed}" max="{total}"'
    count = "" if total is None else f"{completed}/{total}"
    return f"<div>{escape(name)} <progress{value}></progress> {count} {escape(news)}</div>"


def _make_bars(elapsed: bool) -> Any:
    """Return Rich's bars on standard error: description, bar, count, perhaps the time, and the field `news`."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bars

    return Bars(
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=24),
        MofNCompleteColumn(),
        *([TimeElapsedColumn()] if elapsed else []),
        TextColumn("{task.fields[news]}", markup=False),
        console=Console(stderr=True, markup=False),
        transient=True,
    )
