"""A user's own methods, models, data, rules and measures: importing them, here and in other processes."""

import importlib
import importlib.util
import os
import sys
import traceback
import zlib
from collections.abc import Iterable
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any

from coterie.clustering import RULES
from coterie.errors import CoterieError
from coterie.registry import Registry, outermost
from coterie.run.config import Config
from coterie.similarity import MEASURES

FILE = "coterie_plugin_"
"""How the modules begin that are made of files."""


def import_plugins(plugins: Iterable[str]) -> None:
    """Import Python files (``my_method.py``) or modules (``my_package.methods``), each once."""
    for plugin in plugins:
        if plugin.endswith(".py") and not Path(plugin).is_file():
            raise CoterieError(f"there is no plugin file '{plugin}'")
        try:
            path = Path(plugin).resolve()
            name = f"{FILE}{path.stem}_{zlib.crc32(str(path).encode()):08x}"
            if not plugin.endswith(".py"):
                importlib.import_module(plugin)
            elif name not in sys.modules:
                run_file(name, path)
        except CoterieError as error:
            raise CoterieError(f"plugin '{plugin}' can't be imported: {error}") from error
        except (Exception, SystemExit) as error:
            raise CoterieError(f"plugin '{plugin}' can't be imported: {type(error).__name__}: {error}") from error


def run_file(name: str, path: Path) -> ModuleType:
    """Make a module of a file."""
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise FileNotFoundError(path)
    module = sys.modules[name] = importlib.util.module_from_spec(spec)  # before it runs: dataclasses look it up
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def registered_things(config: Config) -> list[tuple[Registry[Any], str]]:
    """Return the registered things that a configuration names, also in the options of its method and its data."""
    from coterie.algorithms import ALGORITHMS
    from coterie.data import DATASETS, PARTITIONS
    from coterie.models import MODELS

    measures, parts = config.algorithm.options.values(), "+".join(map(str, config.data.options.values())).split("+")
    named: list[tuple[Registry[Any], Iterable[Any]]] = [
        (ALGORITHMS, [config.algorithm.name]),
        (MODELS, [config.model.name]),
        (DATASETS, [config.data.name, *parts]),  # mix:of=a+b
        (PARTITIONS, [config.partition.name]),
        (RULES, [config.grouping.options().named]),
        (MEASURES, [name for name in measures if isinstance(name, str)]),  # pacfl:measure=a
    ]
    return [(registry, name) for registry, names in named for name in names if name in registry]


def modules_to_import(things: Iterable[tuple[Registry[Any], str]]) -> tuple[list[str], str | None]:
    """Return the modules that other processes must import to know registered things; and the first that they can't.

    What is ours needs none, nor what comes from a plugin, which they import anyway.
    """
    modules = set()
    for registry, name in things:
        module = str(registry[name].__module__)
        if module.startswith(("coterie.", FILE)):
            continue
        if module == "__main__" or importlib.util.find_spec(module) is None:
            return [], f"{registry.kind} '{name}'"
        modules.add(module)
    return sorted(modules), None


def blamed_on_plugin(error: BaseException) -> str | None:
    """Say in a line where in a plugin an error comes from; None where no code of a plugin was running.

    That is the innermost line of a plugin: the one that raised it, or that called what did.
    """
    if isinstance(error, OSError) and _raised_by_us(error):
        return None  # of a file of ours, which the method knows nothing of
    root = error
    while root.__cause__ is not None and _raised_by_us(root):  # the engine adds which client it was
        root = root.__cause__
    for candidate in (root, error):
        frames = [item for item in traceback.walk_tb(candidate.__traceback__) if _is_plugins(item[0])]
        if frames:
            frame, line = frames[-1]
            blame = f"{_place(frame, line)}: {type(root).__name__}: {' '.join(str(root).split())}"
            context = str(error).removesuffix(f": {root}")
            return blame if root is error else f"{blame} ({context})"
    return None


def _raised_by_us(error: BaseException) -> bool:
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
    return bool(frames) and outermost(str(frames[-1].f_globals.get("__name__"))) == outermost(__name__)


def _is_plugins(frame: FrameType) -> bool:
    """Say whether code is that of a package with a registered thing, or lies beside a file that has one."""
    outsiders = Registry.outsiders()
    if outermost(str(frame.f_globals.get("__name__"))) in outsiders:
        return True
    files = [sys.modules[name].__file__ for name in outsiders if name.startswith(FILE) and name in sys.modules]
    return os.path.dirname(frame.f_code.co_filename) in {os.path.dirname(file) for file in files if file}


def _place(frame: FrameType, line: int) -> str:
    code = frame.f_code
    if code.co_filename.startswith("<"):  # an annotation, say
        return str(frame.f_globals.get("__file__", frame.f_globals.get("__name__")))
    return f"{code.co_filename}, line {line}, in {code.co_name}"
