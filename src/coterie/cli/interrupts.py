"""Ctrl-C, answered with how to go on."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager

from coterie.errors import Stopped


class Interruption:
    """Remembers Ctrl-C: raised while Python tidies up, a KeyboardInterrupt is printed and lost."""

    def __init__(self) -> None:
        self.came = False

    def note(self, *_: object) -> None:
        """Handle the signal as Python does, and remember it."""
        self.came = True
        raise KeyboardInterrupt

    def heed(self) -> None:
        """Raise what may have been lost."""
        if self.came:
            raise KeyboardInterrupt


INTERRUPTION = Interruption()
"""Of this process; heeded after every round."""


@contextmanager
def explain_interrupt() -> Iterator[None]:
    """Turn Ctrl-C into a message that says how to go on."""
    usual = signal.getsignal(signal.SIGINT) is signal.default_int_handler  # a shell may have had it ignored
    if usual:
        signal.signal(signal.SIGINT, INTERRUPTION.note)
    try:
        yield
    except KeyboardInterrupt as stop:
        raise Stopped(f"interrupted{f'; {stop}' if stop.args else ''}") from None
    finally:
        INTERRUPTION.came = False
        if usual:
            signal.signal(signal.SIGINT, signal.default_int_handler)
