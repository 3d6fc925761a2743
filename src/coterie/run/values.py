"""Values written as text: behind ``--set key=``, and the short form ``name:option=value,option=value``."""

import re
from typing import Any

from coterie.bounded import parse_toml
from coterie.errors import CoterieError


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
    for piece in text.split(",") if text.strip() else []:
        key, equals, value = piece.partition("=")
        if not equals:
            raise ValueError("it should read key=value,key=value")
        options[key.strip().replace("-", "_")] = parse_value(value.strip())
    return options


def split_list(text: str) -> list[str]:
    """Divide a list at its commas, except within the options of a name and within brackets.

    >>> split_list("fedavg,pacfl:p=4,count=3,solo")
    ['fedavg', 'pacfl:p=4,count=3', 'solo']
    >>> split_list("[1, 2],[3]")
    ['[1, 2]', '[3]']
    """
    pieces: list[str] = []
    depth = 0
    for piece in text.split(","):
        option = bool(pieces) and ":" in pieces[-1] and "=" in piece and ":" not in piece.partition("=")[0]
        if depth or option:
            pieces[-1] += f",{piece}"
        else:
            pieces.append(piece.strip())
        depth += piece.count("[") + piece.count("{") - piece.count("]") - piece.count("}")
    if "" in pieces:
        raise CoterieError(f"'{text}' has an empty place: write one,two,three")
    return pieces


def parse_seeds(text: str) -> list[int]:
    """Read ``0,1,2``."""
    try:
        return [int(seed) for seed in text.split(",")]
    except ValueError:
        raise CoterieError(f"'{text}' should be whole numbers, for instance 0,1,2") from None
