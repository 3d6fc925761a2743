"""What Coterie says when something is wrong, and how it finds the nearest right name."""

import difflib
from collections.abc import Iterable

LONGEST = 1000
"""Letters of what is said about a mistake."""


class CoterieError(Exception):
    r"""A mistake that the user can mend; its text says what to write instead.

    Whatever it quotes, it is one line of printable letters, and has an end; what is too much is left out of the middle.

    >>> str(CoterieError("there is no '\n\x1b[31mx'"))
    "there is no '  [31mx'"
    """

    def __str__(self) -> str:
        text = super().__str__()
        if len(text) > LONGEST:
            text = f"{text[: LONGEST - 300]} … {text[-290:]}"
        return text if text.isprintable() else "".join(letter if letter.isprintable() else " " for letter in text)


class Stopped(Exception):
    """Ctrl-C ended a run; the text says how to go on."""


def one_line(text: str, longest: int | None = None) -> str:
    r"""Return a text in one line of printable letters: what comes from others must not look like what comes from us.

    >>> one_line("a\nb\x1b[31m"), one_line("without end", longest=7)
    ('a b [31m', 'without')
    """
    text = text[:longest]
    return text if text.isprintable() else "".join(letter if letter.isprintable() else " " for letter in text)


def suggestion(wrong: str, choices: Iterable[str]) -> str:
    """Say which known name was probably meant, or list them all.

    >>> suggestion("fedavgg", ["fedavg", "solo"])
    "did you mean 'fedavg'?"
    """
    names = sorted(choices)
    near = difflib.get_close_matches(wrong, names, n=1, cutoff=0.6)
    return f"did you mean '{near[0]}'?" if near else f"there are: {', '.join(names)}"
