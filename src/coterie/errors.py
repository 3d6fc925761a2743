"""What Coterie says when something is wrong, and how it finds the nearest right name."""

import difflib
import operator
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

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

    >>> suggestion("fedavgg", ["fedavg", "solo"]), suggestion("Mine.npz", ["wine.npz", "mine.npz"])
    ("did you mean 'fedavg'?", "did you mean 'mine.npz'?")
    """
    names = sorted(choices)
    folded = {name.casefold(): name for name in names}
    near = difflib.get_close_matches(wrong.casefold(), folded, n=1, cutoff=0.6)
    return f"did you mean '{folded[near[0]]}'?" if near else f"there are: {', '.join(names)}"


def counted(number: int, noun: str) -> str:
    """Write how many there are.

    >>> counted(1, "round"), counted(20, "round")
    ('1 round', '20 rounds')
    """
    return f"{number} {noun}" + "s" * (number != 1)


KINDS = {
    "string": "a text", "int": "a whole number", "float": "a number", "bool": "true or false", "list": "a list",
    "tuple": "a list", "dict": "a table", "model": "a table", "none": "nothing",
}  # fmt: skip
"""What a value should be, by how pydantic's names of mistakes begin."""


def what_is_wanted(mistakes: Sequence[Mapping[str, Any]]) -> str:
    """Say what a value should be, from what pydantic's ``errors()`` found wrong with it.

    >>> from pydantic import TypeAdapter, ValidationError
    >>> try: TypeAdapter(str | None).validate_python(5)
    ... except ValidationError as error: print(what_is_wanted(error.errors()))
    should be a text, not a whole number
    """
    value = mistakes[0]["input"]
    said = dict.fromkeys(_wanted(mistake) for mistake in mistakes if mistake["input"] is value)  # one for each type
    given = f", not {kind_of(value)}" if any(text in KINDS.values() for text in said) else ""
    first, *others = said
    text = first if first not in KINDS.values() else f"should be {first}"
    return " or ".join([text, *(other.removeprefix("should be ") for other in others)]) + given


def _wanted(mistake: Mapping[str, Any]) -> str:
    """Return what is wanted of a value of the wrong type; else what is said of it."""
    kind, _, what = str(mistake["type"]).partition("_")
    if kind in KINDS and what in ("type", "parsing", "from_float", "attributes_type", "required"):
        return KINDS[kind]
    message = str(mistake["msg"]).removeprefix("Value error, ").removeprefix("Input ")
    return message[:1].lower() + message[1:]


def kind_of(value: Any) -> str:
    """Say what kind of value something is."""
    names = {bool: "bool", int: "int", str: "string", list: "list", tuple: "list", dict: "dict", type(None): "none"}
    if type(value) is float:
        return "a number with a fraction" if value % 1 else "a number with a decimal point"
    name = type(value).__name__
    return KINDS[names[type(value)]] if type(value) in names else f"{'an' if name[0] in 'aeiouAEIO' else 'a'} {name}"


def whole_number(value: Any, name: str) -> int | None:
    """Return a whole number that a program gave, Python's or NumPy's; None where it gave none.

    >>> import numpy as np
    >>> whole_number(np.int64(3), "client")
    3
    """
    if value is None:
        return None
    try:
        if not isinstance(value, bool):
            return operator.index(value)
    except TypeError:
        pass
    raise CoterieError(f"{name} = {value!r} is not valid: should be a whole number, not {kind_of(value)}")


def listed(value: Any) -> tuple[str, ...]:
    """Return texts or paths that a program gave, one or many.

    >>> from pathlib import Path
    >>> listed("mine.py"), listed(["a.py", Path("b.py")])
    (('mine.py',), ('a.py', 'b.py'))
    """
    return tuple(map(str, [value] if isinstance(value, str | os.PathLike) else value))
