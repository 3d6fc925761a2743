"""What Coterie says when something is wrong, and how it finds the nearest right name."""

import difflib
from collections.abc import Iterable


class CoterieError(Exception):
    """A mistake that the user can mend; its text says what to write instead."""


class Stopped(Exception):
    """Ctrl-C ended a run; the text says how to go on."""


def one_line(text: str) -> str:
    r"""Return a text in one line of printable letters: what comes from others must not look like what comes from us.

    >>> one_line("a\nb\x1b[31m")
    'a b [31m'
    """
    return text if text.isprintable() else "".join(letter if letter.isprintable() else " " for letter in text)


def suggestion(wrong: str, choices: Iterable[str]) -> str:
    """Say which known name was probably meant, or list them all.

    >>> suggestion("fedavgg", ["fedavg", "solo"])
    "did you mean 'fedavg'?"
    """
    names = sorted(choices)
    near = difflib.get_close_matches(wrong, names, n=1, cutoff=0.6)
    return f"did you mean '{near[0]}'?" if near else f"there are: {', '.join(names)}"
