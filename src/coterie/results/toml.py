"""Reading TOML files, and writing values as they stand in one."""

import json
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from coterie.errors import CoterieError


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


def toml_value(value: Any) -> str:
    """Write one value."""
    if isinstance(value, list | tuple):
        return f"[{', '.join(toml_value(item) for item in value)}]"
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{json.dumps(key)} = {toml_value(item)}' for key, item in value.items())}}}"
    if isinstance(value, float) and value == int(value) and abs(value) < 1e15:
        return f"{value:.1f}"
    return json.dumps(value, ensure_ascii=False)
