"""Settings given as keywords in Python, laid over a configuration file or tables."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from coterie.errors import CoterieError, suggestion
from coterie.results.formats import read_toml
from coterie.run.config import CHOICES, Config, keys
from coterie.run.expert import trust_expert
from coterie.run.given import plain
from coterie.run.overlay import lay_over
from coterie.run.validation import make_config


def settings_to_config(
    config: str | os.PathLike[str] | Mapping[str, Any] | None,
    settings: Mapping[str, Any],
    method: str | None = None,
    trust: bool = False,
) -> Config:
    """Lay settings given by keyword over a configuration file or tables; `method` is used if these name none."""
    tables, source = settings_to_tables(config, settings)
    if trust:
        trust_expert(tables)
    if method is not None:
        tables.setdefault("algorithm", {}).setdefault("name", method)
    return make_config(tables, source)


def settings_to_tables(
    config: str | os.PathLike[str] | Mapping[str, Any] | None, settings: Mapping[str, Any]
) -> tuple[dict[str, Any], str]:
    """Lay settings given by keyword over a configuration file or tables; return the tables, and the file's name."""
    if isinstance(config, Mapping):
        tables, source = {section: dict(table) for section, table in plain(config).items()}, ""
    else:
        tables, source = ({} if config is None else read_toml(Path(config))), str(config or "")
    by_keyword = {key.keyword: key for key in keys()}
    chosen = [key for key in keys() if key.section in CHOICES and key.name == "name"]
    option_tables = {f"{key.keyword}_options": key.section for key in chosen}
    given: dict[str, Any] = {}
    for name, value in settings.items():
        if key := by_keyword.get(name):
            given[key.path] = [value] if key.is_list and isinstance(value, str) else value
        elif name not in option_tables:
            raise CoterieError(f"unknown setting '{name}': {suggestion(name, [*by_keyword, *option_tables])}")
    lay_over(tables, given, {key.path: f"{key.keyword}=" for key in keys()})
    for name, section in option_tables.items():
        tables.setdefault(section, {}).update(settings.get(name, {}))
    return tables, source
