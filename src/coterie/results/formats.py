"""The formats of what is written: tables of texts, and the versions of the files that are read back."""

from collections.abc import Mapping
from typing import Any, Literal, get_args

TableFormat = Literal["text", "markdown", "csv", "latex"]
TABLE_FORMATS: tuple[TableFormat, ...] = get_args(TableFormat)
TABLE_FILES: dict[TableFormat, str] = {
    "text": "table.txt",
    "markdown": "table.md",
    "csv": "table.csv",
    "latex": "table.tex",
}
"""Under which name a folder holds its table in each format."""
RESULT_FORMAT, COMPARISON_FORMAT, REPRODUCTION_FORMAT = 1, 1, 1
"""The versions of result.json, comparison.json and reproduction.json: their field ``format``.

Files without it were written before versions were counted. Raise one when older programs would misread the file.
"""


def error_in_format(content: Mapping[str, Any], newest: int) -> str | None:
    """Say why a file can't be read, if it was written by a newer version of Coterie.

    >>> error_in_format({"format": 3}, newest=1)
    'is of format 3, and this version of Coterie reads formats up to 1: update Coterie'
    >>> error_in_format({}, newest=1)
    """
    given = content.get("format", 0)
    if isinstance(given, int) and given <= newest:
        return None
    return f"is of format {given}, and this version of Coterie reads formats up to {newest}: update Coterie"
