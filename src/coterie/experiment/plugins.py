"""A user's own methods, models, data sets and partitions, imported by name or by file."""

from __future__ import annotations

import importlib
import importlib.util
import sys
import zlib
from collections.abc import Iterable
from pathlib import Path

from coterie.errors import CoterieError


def import_plugins(plugins: Iterable[str]) -> None:
    """Import Python files (``my_method.py``) or modules (``my_package.methods``), each once."""
    for plugin in plugins:
        if plugin.endswith(".py") and not Path(plugin).is_file():
            raise CoterieError(f"there is no plugin file '{plugin}'")
        try:
            if plugin.endswith(".py"):
                _import_file(Path(plugin).resolve())
            else:
                importlib.import_module(plugin)
        except (Exception, SystemExit) as error:
            raise CoterieError(f"plugin '{plugin}' can't be imported: {type(error).__name__}: {error}") from error


def _import_file(path: Path) -> None:
    name = f"coterie_plugin_{path.stem}_{zlib.crc32(str(path).encode()):08x}"
    if name in sys.modules:
        return
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise FileNotFoundError(path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # before it runs: dataclasses look their module up
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
