"""Values written as text: behind ``--set key=``, and the short form ``name:option=value,option=value``."""

import re
from typing import Any

from coterie.bounded import parse_toml
from coterie.errors import CoterieError

BETWEEN_OPTIONS = r"(?<!\s)(?:\s*,\s*|\s+(?=[\w-]+=))"
"""A comma, or spaces; but those within a value belong to it."""
QUOTED = r"""(?<![^\s,=:[{])(?:"[^"]*"|'[^']*')"""
MOST_SEEDS = 10_000
"""Of a range: with more a comparison would never end."""


def parse_value(text: str) -> Any:
    """Read a value as written behind ``--set key=``: TOML where it is, else a text."""
    try:
        return parse_toml(f"value = {text}")["value"]
    except ValueError:
        return text


def parse_choice(text: str) -> dict[str, Any]:
    """Read ``name:option=value,option=value``.

    >>> parse_choice("label-skew:rho=0.2")
    {'name': 'label-skew', 'rho': 0.2}
    """
    if (text.endswith(".npz") and not re.match(r"[\w-]+:\w+=", text)) or ":" not in text:
        return {"name": text}
    name, _, rest = text.partition(":")
    try:
        options = parse_options(rest)
    except ValueError:
        options = {}
    if not options:
        raise CoterieError(f"'{text}' should read name:option=value,option=value")
    return {"name": name, **options}


def parse_options(text: str) -> dict[str, Any]:
    """Read ``option=value,option=value``; raise ValueError for anything else.

    >>> parse_options("score=G, a=0.8")
    {'score': 'G', 'a': 0.8}
    """
    options: dict[str, Any] = {}
    for piece in _pieces(text.strip(), BETWEEN_OPTIONS) if text.strip() else []:
        key, equals, value = piece.partition("=")
        if not equals:
            raise ValueError("it should read key=value,key=value")
        options[key.strip().replace("-", "_")] = parse_value(value.strip())
    return options


def split_list(text: str) -> list[str]:
    """Divide a list at its commas or spaces, except within the options of a name, brackets and quotes.

    >>> split_list("fedavg,pacfl:p=4,count=3 solo")
    ['fedavg', 'pacfl:p=4,count=3', 'solo']
    >>> split_list("[1, 2],[3]")
    ['[1, 2]', '[3]']
    """
    pieces: list[str] = []
    for piece in _pieces(text.strip()):
        if pieces and ":" in pieces[-1] and "=" in piece and ":" not in piece.partition("=")[0]:
            pieces[-1] += f",{piece}"  # one more option of the last name
        else:
            pieces.append(piece)
    if "" in pieces:
        raise CoterieError(f"'{text}' has an empty place: write one,two,three")
    return pieces


def _pieces(text: str, between: str = r"\s*,\s*|\s+") -> list[str]:
    """Divide a text at what is between its pieces, except within brackets and quotes."""
    pieces, start, depth = [], 0, 0
    for found in re.finditer(rf"{QUOTED}|[][{{}}]|{between}", text):
        mark = found[0]
        if mark in ("[", "{", "]", "}"):
            depth += 1 if mark in "[{" else -1
        elif depth <= 0 and mark[0] not in "'\"":
            pieces.append(text[start : found.start()])
            start = found.end()
    return [*pieces, text[start:]]


def split_names(text: str) -> list[str]:
    """Divide a list of plain names or numbers at commas or spaces; empty places do not matter.

    >>> split_names("mnist, cifar10 svhn")
    ['mnist', 'cifar10', 'svhn']
    """
    return [name for name in re.split(r"[,\s]+", text) if name]


def parse_seeds(text: str) -> list[int]:
    """Read seeds and ranges of them, with commas or spaces between.

    >>> parse_seeds("0-2,7")
    [0, 1, 2, 7]
    """
    seeds: list[int] = []
    for piece in split_names(text):
        found = re.fullmatch(r"(-?\d{1,19})(?:-(\d{1,19}))?", piece)
        if not found:
            raise CoterieError(f"'{text}' should be whole numbers or ranges of them, for instance 0,1,2 or 0-4")
        first, last = int(found[1]), int(found[2] or found[1])
        if not 0 <= last - first < MOST_SEEDS:
            raise CoterieError(f"'{piece}' should be a range of seeds from low to high, at most {MOST_SEEDS}, like 0-4")
        seeds += range(first, last + 1)
    if not seeds:
        raise CoterieError("name at least one seed, for instance 0,1,2 or 0-4")
    return seeds
