"""Ctrl-C, answered with how to go on."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager

from coterie.cli.progress import INTERRUPTION
from coterie.errors import Stopped


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
