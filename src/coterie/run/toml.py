"""Configurations as TOML."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from coterie.errors import CoterieError
from coterie.run.config import SECTIONS, ChoiceSection, Config, Key


def read_toml(path: Path) -> dict[str, Any]:
    """Read a configuration file."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise CoterieError(f"there is no configuration file '{path}'") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise CoterieError(f"'{path}' is not a TOML file: {error}") from None
    except OSError as error:
        raise CoterieError(f"'{path}' can't be read: {error.strerror}") from None


def to_toml(config: Config, comments: bool = True) -> str:
    """Write a configuration as TOML; keys without a value stand as comments."""
    lines: list[str] = []
    for section, model in SECTIONS.items():
        table = getattr(config, section)
        lines += [f"[{section}]" + (f"  # {model.__doc__}" if comments else "")]
        for name, info in model.model_fields.items():
            value = getattr(table, name)
            note = f"  # {Key(section, name, info).help}" if comments else ""
            lines.append(f"# {name} ={note}" if value is None else f"{name} = {toml_value(value)}{note}")
        if isinstance(table, ChoiceSection):
            for name, value in table.options.items():
                lines.append(f"# {name} =" if value is None else f"{name} = {toml_value(value)}")
        lines.append("")
    return "\n".join(lines)


def toml_value(value: Any) -> str:
    """Write one value."""
    if isinstance(value, list | tuple):
        return f"[{', '.join(toml_value(item) for item in value)}]"
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{json.dumps(key)} = {toml_value(item)}' for key, item in value.items())}}}"
    if isinstance(value, float) and value == int(value) and abs(value) < 1e15:
        return f"{value:.1f}"
    return json.dumps(value, ensure_ascii=False)
