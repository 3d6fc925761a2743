"""Changes to bytes: blind ones, and such as know what the bytes mean. All follow from the `Random` that is given.

A mutation takes the bytes, other bytes of the same kind to splice from, and luck; it returns bytes, or the same ones
where it finds nothing to change.
"""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

Mutation = Callable[[bytes, Sequence[bytes], Random], bytes]

INTEGERS = (0, 1, -1, 2, 127, 128, 255, 256, 65535, 2**31 - 1, 2**31, -(2**31), 2**32 - 1, 2**63 - 1, 2**63, 2**64 - 1)
NUMBERS = ("0", "-1", "2147483648", "-9223372036854775809", "9223372036854775808", "1e400", "-0.0", "1e-320", "9" * 30)
WORDS = (
    b"null",
    b"true",
    b"NaN",
    b"-Infinity",
    b'""',
    b"[]",
    b"{}",
    b"\x00",
    b"\xff\xfe",
    b"\n",
    b"\x1b[31m",
    b"\\u0000",
)
DEPTHS = (3, 200, 1500, 100_000)
LONGEST = 2**21
"""Bytes of what a blind change may make."""


def spot(content: bytes, luck: Random) -> int:
    """Choose a place; half of the time near the beginning, where headers are."""
    within = min(len(content), 256) if luck.random() < 0.5 else len(content)
    return luck.randrange(within + 1)


def flip(content: bytes, others: Sequence[bytes], luck: Random) -> bytes:
    """Flip a bit, or replace a byte."""
    if not content:
        return content
    changed, at = bytearray(content), min(spot(content, luck), len(content) - 1)
    changed[at] = luck.choice([changed[at] ^ 1 << luck.randrange(8), luck.randrange(256), 0, 255])
    return bytes(changed)


def truncate(content: bytes, others: Sequence[bytes], luck: Random) -> bytes:
    """Cut off the end, or sometimes the beginning."""
    at = spot(content, luck)
    return content[at:] if luck.random() < 0.1 else content[:at]


def delete(content: bytes, others: Sequence[bytes], luck: Random) -> bytes:
    """Leave out a piece."""
    at = spot(content, luck)
    return content[:at] + content[at + luck.choice([1, 2, 4, 8, 64, 1000]) :]


def repeat(content: bytes, others: Sequence[bytes], luck: Random) -> bytes:
    """Write a piece several times."""
    at, length = spot(content, luck), luck.choice([1, 2, 8, 64, 1000])
    piece = content[at : at + length]
    times = min(luck.choice([2, 3, 50, 5000]), LONGEST // max(length, 1))
    return content[:at] + piece * times + content[at + length :]


def insert(content: bytes, others: Sequence[bytes], luck: Random) -> bytes:
    """Put random bytes or a telling word between."""
    at = spot(content, luck)
    return content[:at] + luck.choice([luck.randbytes(luck.randrange(1, 20)), *WORDS]) + content[at:]


def splice(content: bytes, others: Sequence[bytes], luck: Random) -> bytes:
    """Go on with a piece of another."""
    other = luck.choice(others) if others else content
    start = spot(other, luck)
    at = spot(content, luck)
    return (
        content[:at]
        + other[start : start + luck.choice([4, 64, 10**6])]
        + (content[at:] if luck.random() < 0.5 else b"")
    )


def integer(content: bytes, others: Sequence[bytes], luck: Random) -> bytes:
    """Write a telling integer over some bytes."""
    width, value = luck.choice([1, 2, 4, 8]), luck.choice(INTEGERS)
    at = spot(content, luck)
    written = (value % 256**width).to_bytes(width, luck.choice(["little", "big"]))
    return content[:at] + written + content[at + width :]


def number(content: bytes, others: Sequence[bytes], luck: Random) -> bytes:
    """Write another number in the place of one that is written out."""
    found = list(re.finditer(rb"-?\d+(\.\d+)?", content[:LONGEST]))
    if not found:
        return content
    chosen = luck.choice(found)
    return content[: chosen.start()] + luck.choice(NUMBERS).encode() + content[chosen.end() :]


BLIND: tuple[Mutation, ...] = (flip, flip, truncate, delete, repeat, insert, splice, integer, integer, number)


class Nested:
    """Lists or tables in each other, so many; they are written without recursion."""

    def __init__(self, depth: int, table: bool) -> None:
        self.depth, self.table = depth, table

    def json(self) -> str:
        opening, closing = ('{"a":', "}") if self.table else ("[", "]")
        return opening * self.depth + "0" + closing * self.depth

    def toml(self) -> str:
        opening, closing = ("{a = ", "}") if self.table else ("[", "]")
        return opening * self.depth + "0" + closing * self.depth


def odd_value(luck: Random) -> Any:
    """Choose a value of any type."""
    return luck.choice(
        [None, True, False, 0, -1, 2**31, 2**63, -(2**63) - 1, 10**40, 0.5, -0.0, float("nan"), float("inf"), 1e308, "",
         "x", "\n", "\x1b[2J", "../../x", "$", "nan", "é\u2028", "0" * 5000, [], [[]], {}, {"": None}, [0] * 1000,
         Nested(luck.choice(DEPTHS), luck.random() < 0.5)]
    )  # fmt: skip


def changed_tree(tree: Any, luck: Random) -> Any:
    """Change one or two places of nested lists and tables: values, keys, and what is there at all."""
    for _ in range(luck.choice([1, 1, 1, 2, 3])):
        places = [(None, None), *_places(tree)]
        holder, key = luck.choice(places)
        if holder is None:
            if luck.random() < 0.2 or len(places) == 1:
                tree = odd_value(luck)
            continue
        match luck.randrange(6):
            case 0:
                del holder[key]
            case 1 if isinstance(holder, dict):
                holder[luck.choice(["", "$", "x", "round", "\n", key + key, *holder])] = holder.pop(key)
            case 1:
                holder[key:key] = [holder[key]] * luck.choice([1, 2, 1000])
            case 2:
                holder[key] = _retyped(holder[key], luck)
            case 3:
                other = luck.choice(places[1:])
                holder[key] = json_copy(other[0][other[1]])
            case _:
                holder[key] = odd_value(luck)
    return tree


def _places(tree: Any) -> list[tuple[Any, Any]]:
    found, todo = [], [tree]
    while todo:
        at = todo.pop()
        items = at.items() if isinstance(at, dict) else enumerate(at) if isinstance(at, list) else ()
        for key, value in items:
            found.append((at, key))
            todo.append(value)
    return found


def _retyped(value: Any, luck: Random) -> Any:
    kinds = [[value], {"0": value}, str(value)[:100], None]
    if isinstance(value, bool | int | float):
        kinds += [-value, value + 1, float(value) if abs(value) < 1e300 else 0, value * 10**12, bool(value)]
    if isinstance(value, str):
        kinds += [value + "x", value.upper(), value[:-1], value * 500, 0]
    if isinstance(value, list):
        kinds += [value[:-1], value + value, dict.fromkeys(map(str, range(len(value))), 0), value[0] if value else 0]
    if isinstance(value, dict):
        kinds += [list(value), list(value.values())]
    return luck.choice(kinds)


def json_copy(tree: Any) -> Any:
    """Return a copy that shares nothing."""
    if isinstance(tree, dict):
        return {key: json_copy(value) for key, value in tree.items()}
    return [json_copy(value) for value in tree] if isinstance(tree, list) else tree


def written(tree: Any, **how: Any) -> str:
    """Write a changed tree as JSON."""
    nested: list[str] = []

    def default(value: Any) -> str:
        nested.append(value.json())
        return f"@nested{len(nested) - 1}@"

    text = json.dumps(tree, default=default, **how)
    for place, inside in enumerate(nested):
        text = text.replace(f'"@nested{place}@"', inside)
    return text


def json_tree(content: bytes, others: Sequence[bytes], luck: Random) -> bytes:
    """Change a JSON file in its structure."""
    return written(changed_tree(json.loads(content), luck)).encode("utf-8", "surrogatepass")


def json_lines(content: bytes, others: Sequence[bytes], luck: Random) -> bytes:
    """Change the structure of one line of several, or their order."""
    lines = content.splitlines()
    if not lines:
        return content
    at = luck.randrange(len(lines))
    if luck.random() < 0.2:
        luck.shuffle(lines)
    else:
        lines[at] = json_tree(lines[at], others, luck)
    return b"\n".join(lines) + b"\n"


def toml_lines(content: bytes, others: Sequence[bytes], luck: Random) -> bytes:
    """Change values, keys and tables of a TOML file."""
    lines = content.decode("utf-8", "replace").splitlines()
    chosen = [at for at, line in enumerate(lines) if "=" in line and not line.startswith("#")]
    for _ in range(luck.choice([1, 1, 2])):
        if not chosen:
            break
        at = luck.choice(chosen)
        key = lines[at].partition("=")[0].strip()
        match luck.randrange(8):
            case 0:
                lines[at] = ""
            case 1:
                lines[at] = f"{'a.' * luck.choice([2, 300, 20_000])}{key} = 1"
            case 2:
                lines[at] = (
                    f"[{luck.choice(['run', 'x', 'data.x', key, 'a' + '.a' * luck.choice([2, 2000])])}]\n{lines[at]}"
                )
            case 3:
                lines[at] = f"{luck.choice(['x', 'name', 'rounds', 'data', 'seeds'])} = {lines[at].partition('=')[2]}"
            case 4:
                lines[at] = f"{key} = {luck.choice(lines).partition('=')[2] or '1'}"
            case 5:
                values = [*NUMBERS, "1000000000000000000", "inf", "nan", "1979-05-27", "0x7fffffffffffffff"]
                lines[at] = f"{key} = {luck.choice(values)}"
            case _:
                lines[at] = f"{key} = {_toml(odd_value(luck))}"
    return "\n".join(lines).encode("utf-8", "surrogatepass")


def _toml(value: Any) -> str:
    if isinstance(value, Nested):
        return value.toml()
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(key)} = {_toml(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_toml, value)) + "]"
    return "''" if value is None else str(value).lower() if isinstance(value, float) else json.dumps(value)


def mutate(content: bytes, others: Sequence[bytes], known: Sequence[Mutation], luck: Random) -> bytes:
    """Change bytes once or several times; more often than not by what is known of them, where anything is."""
    if known and luck.random() < 0.65:
        with contextlib.suppress(ValueError, KeyError, TypeError, IndexError, EOFError, OSError):
            content = luck.choice(known)(content, others, luck)
        if luck.random() < 0.8:
            return content
    for _ in range(luck.choice([1, 1, 1, 2, 4, 8])):
        content = luck.choice(BLIND)(content, others, luck)
    return content
