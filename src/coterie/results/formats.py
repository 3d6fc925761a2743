"""The formats of what is written: tables of texts, TOML, and the versions of the files that are read back."""

import json
import math
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

from coterie.bounded import LARGEST_TOML, parse_toml, read_text
from coterie.errors import CoterieError, one_line, suggestion
from coterie.registry import same_name

TableFormat = Literal["text", "markdown", "csv", "latex"]
TABLE_FORMATS: tuple[TableFormat, ...] = get_args(TableFormat)
PAGE = "report.html"
"""The page of a folder, in it."""
TABLE_FILES = dict(zip(TABLE_FORMATS, ("table.txt", "table.md", "table.csv", "table.tex"), strict=True))
"""Under which name a folder holds its table in each format."""


def table_format(name: str) -> TableFormat:
    """Return a format of tables by its name, in any case.

    >>> table_format("LaTeX")
    'latex'
    """
    known = same_name(name, TABLE_FORMATS)
    for format in TABLE_FORMATS:
        if format == known:
            return format
    raise CoterieError(f"a table can't be written as '{name}': {suggestion(str(name), TABLE_FORMATS)}")


@dataclass(frozen=True)
class TableOptions:
    """How a table is written, beside its format."""

    columns: tuple[str, ...] = ()
    """The columns to show, in this order, by key or heading; empty: all that have content, in several tables."""
    caption: str | None = None
    """LaTeX: what stands above the table instead of our own words; itself LaTeX."""
    label: str | None = None
    """LaTeX: by which the text refers to it."""
    p_values: bool = False
    """LaTeX: whether p values stand beside accuracies."""
    width: int | None = None
    """Text: letters that fit into a line of the terminal; wider tables of reproductions show the main columns only."""

    def __post_init__(self) -> None:
        """Refuse what LaTeX would stumble over."""
        bare = re.sub(r"\\.", "", self.caption or "", flags=re.DOTALL)
        if wrong := next((letter for letter in "%#&" if letter in bare), None):
            raise CoterieError(f"the caption is LaTeX: write \\{wrong} instead of {wrong}")
        if bare.count("{") != bare.count("}") or bare.count("$") % 2:
            raise CoterieError("the caption is LaTeX: each { needs its }, each $ another, and \\$ is the sign itself")
        if self.label is not None and not re.fullmatch(r"[A-Za-z0-9:._/-]+", self.label):
            raise CoterieError(f"'{self.label}' can't be a label: use letters, digits and : . _ / -, like tab:digits")


AS_IT_IS = TableOptions()
RESULT_FORMAT, COMPARISON_FORMAT, REPRODUCTION_FORMAT = 2, 1, 1
"""The versions of result.json, comparison.json and reproduction.json: their field ``format``.

Files without it were written before versions were counted. Raise one when older programs would misread the file.
"""
PLAIN_RESULT = 1
"""The version of a result.json that has all columns of clients in it, as those of few clients do."""


def error_in_format(content: Mapping[str, Any], newest: int) -> str | None:
    """Say why a file can't be read, if it was written by a newer version of Coterie.

    >>> error_in_format({"format": 3}, newest=1)
    'is of format 3, and this version of Coterie reads formats up to 1: update Coterie'
    >>> error_in_format({}, newest=1)
    """
    version = content.get("format", 0)
    if isinstance(version, int) and 0 <= version <= newest:
        return None
    named = one_line(str(version))[:20]
    return f"is of format {named}, and this version of Coterie reads formats up to {newest}: update Coterie"


def data_title(name: str) -> str:
    """Return what data are called in titles: of a path its last part, since the rest says where it is, not what.

    >>> data_title("/home/someone/scans.npz"), data_title("mnist")
    ('scans.npz', 'mnist')
    """
    return os.path.basename(name.rstrip("/")) if os.path.isabs(name) else name


def read_toml(path: Path) -> dict[str, Any]:
    """Read a configuration file."""
    try:
        return parse_toml(read_text(path, LARGEST_TOML))
    except FileNotFoundError:
        raise CoterieError(f"there is no configuration file '{path}'") from None
    except ValueError as error:
        raise CoterieError(f"'{path}' is not a TOML file: {one_line(str(error))}") from None
    except OSError as error:
        raise CoterieError(f"'{path}' can't be read: {error.strerror}") from None


def toml_value(value: Any) -> str:
    """Write one value."""
    if isinstance(value, list | tuple):
        return f"[{', '.join(toml_value(item) for item in value)}]"
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{json.dumps(key)} = {toml_value(item)}' for key, item in value.items())}}}"
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        return f"{value:.1f}"
    return json.dumps(value, ensure_ascii=False)
