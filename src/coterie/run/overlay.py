"""Settings laid over each other: a file's tables, flags or keywords, and what stands behind the name of a choice.

The one place that says what ``name:key=value`` means, for ``run``, ``compare``, ``sweep`` and Python alike.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from coterie.algorithms import ALGORITHMS
from coterie.clustering.options import implied_rules
from coterie.errors import CoterieError, suggestion
from coterie.messages import is_error
from coterie.run.config import CHOICES, SECTIONS, keys
from coterie.run.plugins import import_plugins
from coterie.run.values import parse_choice

NAMES = tuple(f"{section}.name" for section in CHOICES)


def lay_over(tables: dict[str, Any], given: Mapping[str, Any], how: Mapping[str, str]) -> dict[str, str]:
    """Set keys of tables by path; one that is also given behind a name, with another value, is refused.

    `how` says how the user gave each path; return that, also for what stood behind names.
    """
    tables.update(written_out(tables))
    if plugins := given.get("run.plugins"):
        merge(tables, "run.plugins", plugins)
    behind = {path: how[name] for name in NAMES if name in given for path in merge(tables, name, given[name])}
    for path, value in given.items():
        if path in NAMES:
            continue
        section, _, key = path.partition(".")
        if path in behind and tables[section][key] != value:
            raise CoterieError(f"{path} is given twice, by {behind[path]} and by {how[path]}: leave one out")
        merge(tables, path, value)
    return {**how, **behind}


def merge(tables: dict[str, Any], path: str, value: Any) -> list[str]:
    """Set ``section.key`` in nested tables, and return the paths that were set.

    A choice given as text, ``name:key=value``, replaces the whole section but fixed keys, and sets what it names.
    """
    section, dot, key = path.partition(".")
    if not dot or not key:
        raise CoterieError(f"'{path}' should be section.key, for instance training.lr")
    table = _table(tables, section)
    if path not in NAMES or not isinstance(value, str):
        table[key] = value
        return [path]
    name, settings = read_choice(section, value, tables)
    if name.casefold() != str(table.get("name")).casefold():  # options of another choice do not carry over
        for stale in [key for key in table if key not in SECTIONS[section].model_fields]:
            del table[stale]
    table["name"] = name
    return [path, *(done for place, setting in settings.items() for done in merge(tables, place, setting))]


def written_out(tables: Mapping[str, Any]) -> dict[str, Any]:
    """Return tables without short forms; keys of their own go before what stands behind a name.

    Where numbers are predicted, the loss is then the squared error.
    """
    full = {section: dict(table) if isinstance(table, Mapping) else table for section, table in tables.items()}
    for section in CHOICES:
        table = full.get(section)
        if not isinstance(table, dict) or not isinstance(text := table.get("name"), str):
            continue
        table["name"], settings = read_choice(section, text, full)
        for path, value in settings.items():
            place, _, key = path.partition(".")
            _table(full, place).setdefault(key, value)
    evaluation = full.get("evaluation")
    if isinstance(evaluation, dict) and is_error(str(evaluation.get("metric"))):
        _table(full, "training").setdefault("loss", "mse")
    return full


def take_settings_of_method(tables: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Take what stands behind the name of the method out of tables; return it by method.

    Where methods are compared, it belongs to that one, and not to all.

    >>> tables = {"algorithm": {"name": "ifca:groups=4"}}
    >>> take_settings_of_method(tables), tables
    ({'ifca': {'grouping.groups': 4}}, {'algorithm': {'name': 'ifca'}})
    """
    table = tables.get("algorithm")
    if not isinstance(table, Mapping) or not isinstance(text := table.get("name"), str) or ":" not in text:
        return {}
    name, settings = read_choice("algorithm", text, tables)
    tables["algorithm"] = {**table, "name": name}
    return {ALGORITHMS.canonical(name): settings}


def read_choice(section: str, text: str, tables: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """Read ``name:key=value,key=value`` of a section; return the name, and the values by path.

    Behind the name of a method stand its options and any other setting; behind others, keys of their section.
    """
    settings = parse_choice(text)
    name = str(settings.pop("name"))
    if section != "algorithm" or not settings:
        return name, {f"{section}.{key}": value for key, value in settings.items()}
    import_named(tables)
    return name, {setting_path(key, name): value for key, value in settings.items()}


def setting_path(key: str, method: str | None = None) -> str:
    """Return the path of a key, which may be an option of the method, a flag's name, a rule, or a path.

    >>> setting_path("groups", "ifca"), setting_path("epochs", "solo"), setting_path("count"), setting_path("lr")
    ('grouping.groups', 'algorithm.epochs', 'grouping.groups', 'training.lr')
    """
    name = key.strip().replace("-", "_")
    method = None if method is None else ALGORITHMS.canonical(method)
    options = ALGORITHMS.options(method) if method in ALGORITHMS and method is not None else {}
    rules = {rule: f"grouping.{number}" for number, rule in implied_rules().items()}  # as in pacfl:count=4
    flags = {setting.keyword: setting.path for setting in keys()}
    path = f"algorithm.{name}" if name in options else flags.get(name) or rules.get(name) or name
    section, dot, last = path.partition(".")
    if not dot:
        raise CoterieError(_unknown(key, name, method, options, [*flags, *rules]))
    if section not in SECTIONS:
        raise CoterieError(f"there is no section [{section}] for '{key}': {suggestion(section, SECTIONS)}")
    if section not in CHOICES and last not in (fields := SECTIONS[section].model_fields):
        raise CoterieError(f"there is no key '{key}': [{section}] has no '{last}': {suggestion(last, fields)}")
    return path


def _unknown(key: str, name: str, method: str | None, options: Iterable[str], others: Iterable[str]) -> str:
    """Say that neither the method nor the configuration has a key, and what was probably meant."""
    if method is not None:
        ALGORITHMS[method]  # if it is unknown itself, that is the mistake
    near = suggestion(name, [*options, *others])
    if method is None:
        return f"there is no key '{key}': {near}"
    own = f"its options are {', '.join(sorted(options))}; any flag of 'coterie run' can stand there too"
    return f"there is no key '{key}' for method '{method}': {near if near.startswith('did') else own}"


def import_named(tables: Mapping[str, Any]) -> None:
    """Import the plugins that tables name, whose methods have options of their own."""
    run = tables.get("run", {})
    plugins = run.get("plugins", []) if isinstance(run, Mapping) else []
    if isinstance(plugins, list) and all(isinstance(plugin, str) for plugin in plugins):
        import_plugins(plugins)


def _table(tables: dict[str, Any], section: str) -> dict[str, Any]:
    if section not in SECTIONS:
        raise CoterieError(f"there is no section [{section}]: {suggestion(section, SECTIONS)}")
    table = tables.setdefault(section, {})
    if not isinstance(table, dict):
        raise CoterieError(f"'{section}' should be a table [{section}]")
    return table
