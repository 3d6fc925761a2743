"""A user's own methods, models, data, rules and measures: importing them, here and in other processes.

What a folder names is imported only where the user names it too, or says that he trusts the folder.
"""

import hashlib
import importlib
import importlib.util
import os
import shlex
import sys
import traceback
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
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
            if not plugin.endswith(".py"):
                importlib.import_module(plugin)
            elif not is_imported(plugin):
                run_file(module_name(plugin), Path(plugin).resolve())
        except CoterieError as error:
            raise CoterieError(f"plugin '{plugin}' can't be imported: {error}") from error
        except (Exception, SystemExit) as error:
            meant = f" (did you mean the file {plugin}.py?)" if Path(f"{plugin}.py").is_file() else ""
            why = f"{type(error).__name__}: {error}{meant}"
            raise CoterieError(f"plugin '{plugin}' can't be imported: {why}") from error


def module_name(plugin: str) -> str:
    """Return the name under which a plugin is imported."""
    if not plugin.endswith(".py"):
        return plugin
    path = Path(plugin).resolve()
    return f"{FILE}{path.stem}_{zlib.crc32(str(path).encode()):08x}"


def contents(plugins: Iterable[str]) -> dict[str, str]:
    """Return digests of plugins that are files, by which it shows that one has changed."""
    files = [Path(plugin) for plugin in plugins if plugin.endswith(".py")]
    return {
        f"plugin {file.name}": hashlib.blake2b(file.read_bytes(), digest_size=8).hexdigest()
        for file in files
        if file.is_file()
    }


def is_imported(plugin: str) -> bool:
    """Say whether a plugin has been imported in this process, so that none of its code would run."""
    return module_name(plugin) in sys.modules


def as_flags(plugins: Iterable[str]) -> str:
    """Return the flags that name plugins, with a blank before each.

    >>> as_flags(["mine.py", "a.b"])
    ' --plugin mine.py --plugin a.b'
    """
    return "".join(f" --plugin {shlex.quote(plugin)}" for plugin in plugins)


class NotPermitted(CoterieError):
    """A folder names a plugin that the user does not name."""


@dataclass(frozen=True)
class Permission:
    """Which plugins may be imported of those that a folder names: the ones that the user names too, or all."""

    plugins: tuple[str, ...] = ()
    """What the user names; it is imported in any case."""
    trust: bool = False
    """Whether all may be imported."""

    def granted(self, named: Iterable[str], place: str | Path) -> list[str]:
        """Return the plugins to import, of those that a folder names and the user's; refuse if one is not permitted.

        A file of the user's stands for one of the same name elsewhere, since folders travel.
        """
        own = {module_name(plugin): plugin for plugin in self.plugins}
        by_file = {Path(plugin).name for plugin in self.plugins if plugin.endswith(".py")}
        others = [name for name in named if module_name(name) not in own and not is_imported(name)]
        others = [name for name in others if not (name.endswith(".py") and Path(name).name in by_file)]
        if others and not self.trust:
            listed = ", ".join(f"'{name}'" for name in others)
            raise NotPermitted(
                f"'{place}' names {'a plugin' if len(others) == 1 else 'plugins'}, {listed}, whose code would run: "
                f"nothing was imported; if you know it, allow it by{as_flags(others)}, or all that it names by --trust"
            )
        imported = [name for name in named if is_imported(name) and module_name(name) not in own]
        return [*own.values(), *imported, *others]

    def laid_over(self, tables: Mapping[str, Any], place: str | Path) -> dict[str, Any]:
        """Return the tables of a stored configuration with the plugins that may be imported."""
        run = tables.get("run", {})
        named = run.get("plugins", []) if isinstance(run, Mapping) else None
        if not isinstance(named, list) or not all(isinstance(name, str) for name in named):
            return dict(tables)  # which whoever checks the tables will say
        plugins = self.granted(named, place)
        return {**tables, "run": {**run, "plugins": plugins}} if plugins or named else dict(tables)


NOBODY = Permission()
"""Where the user names none: what a folder names is not imported."""


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
    from coterie.training.metrics import METRICS
    from coterie.training.objectives import LOSSES

    measures, parts = config.algorithm.options.values(), "+".join(map(str, config.data.options.values())).split("+")
    named: list[tuple[Registry[Any], Iterable[Any]]] = [
        (ALGORITHMS, [config.algorithm.name]),
        (MODELS, [config.model.name]),
        (DATASETS, [config.data.name, *parts]),  # mix:of=a+b
        (PARTITIONS, [config.partition.name]),
        (RULES, [config.grouping.options().named]),
        (MEASURES, [name for name in measures if isinstance(name, str)]),  # pacfl:measure=a
        (LOSSES, [config.training.loss]),
        (METRICS, [config.evaluation.metric]),
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
