"""From what the user names (methods, keys, values, seeds) to a design."""

import itertools
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from numbers import Real
from typing import Any, Literal

from coterie.algorithms import ALGORITHMS
from coterie.compare.design import Design, base_tables, refuse_duplicates
from coterie.errors import CoterieError, kind_of, suggestion, whole_number
from coterie.registry import same_name
from coterie.results.comparison_folder import Changes, Tables, Tuning
from coterie.results.formats import toml_value
from coterie.results.protocols import COMPARED, ComparedProtocol
from coterie.results.run_folder import FREE
from coterie.run.overlay import import_named, setting_path
from coterie.run.values import parse_choice, parse_seeds, parse_value, split_list

EXAMPLE = '{"lr": [0.1, 0.01]}'


def comparison_design(
    base: Tables,
    algorithms: str | Sequence[str],
    seeds: str | Iterable[int],
    *,
    methods: Mapping[str, Changes] | None = None,
    of_method: Mapping[str, Changes] | None = None,
    **more: Any,
) -> Design:
    """Return the design that compares methods; `methods` holds settings of some of them, by name or label.

    `of_method` are those that the base has behind the name of its method, which need not be compared.

    >>> design = comparison_design({}, "fedavg,solo:lr=0.1,epochs=50,ifca:groups=4", [0])
    >>> for label, changes in design.cells.items():
    ...     print(label, changes)
    fedavg {'algorithm.name': 'fedavg'}
    solo:lr=0.1,epochs=50 {'algorithm.name': 'solo', 'training.lr': 0.1, 'algorithm.epochs': 50}
    ifca:groups=4 {'algorithm.name': 'ifca', 'grouping.groups': 4}
    """
    import_named(base)
    labels = [_label(text) for text in _values(algorithms, "algorithms", '"fedavg,pacfl"')]
    refuse_duplicates("method", labels)
    if len(labels) < 2:
        raise CoterieError("a comparison needs two methods or more, for instance --algorithms fedavg,pacfl")
    for name, settings in _table(methods or {}, "methods", '{"pacfl": {"lr": 0.1}}').items():
        _table(settings, f"methods['{name}']", '{"lr": 0.1}')
    methods, cells = {_label(text): settings for text, settings in (methods or {}).items()}, dict[str, Changes]()
    for label in labels:
        chosen = parse_choice(label)
        name = str(chosen.pop("name"))
        ALGORITHMS[name]  # refuses an unknown one
        settings = {**methods.get(name, {}), **methods.get(label, {}), **chosen}
        own = dict((of_method or {}).get(name, {}))
        own |= {path_of(key, name): value for key, value in settings.items()}
        cells[label] = {"algorithm.name": name, **own}
    names = {*cells, *(str(changes["algorithm.name"]) for changes in cells.values())}
    for name in methods:
        if name not in names:
            raise CoterieError(f"[methods.{name}] is of a method that is not compared: {suggestion(name, names)}")
    return _made(base, cells, seeds, "compare", **more)


def _label(text: str) -> str:
    """Return a method with its settings as it is shown: under its registered name, whatever its capital letters."""
    if not isinstance(text, str):
        raise CoterieError(f'algorithms can\'t hold {kind_of(text)}: write names, for instance "fedavg,pacfl"')
    name = str(parse_choice(text)["name"])
    return ALGORITHMS.canonical(name) + text[len(name) :]


def sweep_design(base: Tables, vary: Mapping[str, Sequence[Any]], seeds: str | Iterable[int], **more: Any) -> Design:
    """Return the design with a cell for each combination of values.

    >>> list(sweep_design({"algorithm": {"name": "pacfl"}}, {"threshold": [2, 4], "training.lr": [0.1]}, [0]).cells)
    ['threshold=2, lr=0.1', 'threshold=4, lr=0.1']
    """
    import_named(base)
    chosen = base.get("algorithm", {}).get("name", "fedavg")
    method = parse_choice(chosen)["name"] if isinstance(chosen, str) else "fedavg"
    grid = _grid(vary, "vary", method)
    for key, values in grid.items():
        refuse_duplicates(f"value of {key}", values)
    combinations = [dict(zip(grid, values, strict=True)) for values in itertools.product(*grid.values())]
    if len(combinations) < 2:
        raise CoterieError("a sweep needs two values or more, for instance --vary grouping.threshold=2,4,8")
    cells = {", ".join(_short(path, value) for path, value in values.items()): values for values in combinations}
    return _made(base, cells, seeds, "sweep", **more)


def _made(
    base: Tables,
    cells: Mapping[str, Changes],
    seeds: str | Iterable[int],
    kind: Literal["compare", "sweep"],
    *,
    baseline: str | None = None,
    protocol: ComparedProtocol = "L",
    tune: Mapping[str, Sequence[Any]] | None = None,
    tune_seeds: str | Iterable[int] = (),
    tune_share: float = 0.2,
) -> Design:
    """Put a design together, and check it."""
    protocol = same_name(protocol, COMPARED)
    if protocol not in COMPARED:
        raise CoterieError(f"there is no protocol '{protocol}': use {', '.join(COMPARED)}")
    tables = base_tables(base, protocol)
    if not isinstance(tune_share, Real) or not 0 < tune_share < 1:
        raise CoterieError(f"tune_share = {tune_share!r} is not valid: it is a share between 0 and 1")
    grid = _grid(tune or {}, "tune")
    for key, values in grid.items():
        refuse_duplicates(f"value of {key}", values)
        if len(values) < 2:
            raise CoterieError(f"there is one value of {key} to choose from: name others, or set it")
    seeds, chosen_on = read_seeds(seeds), read_seeds(tune_seeds, "tune_seeds")
    chosen_on = chosen_on or seeds[:1]
    baseline = None if baseline is None else same_name(str(baseline), cells)
    tuning = Tuning(grid, chosen_on, tune_share) if grid else Tuning()
    design = Design(tables, cells, seeds, kind, baseline, protocol, tuning)
    design.check()
    return _absolute(design)


def _grid(given: Any, name: str, method: str | None = None) -> dict[str, list[Any]]:
    """Read values by setting; texts are read as on the command line."""
    if isinstance(given, str):
        given = dict([parse_variation(given, f"--{name}")])
    grid: dict[str, list[Any]] = {}
    for key, values in _table(given, name, EXAMPLE).items():
        path, read = path_of(key, method), _values(values, f"{name}['{key}']", "[0.1, 0.01]")
        if path in grid:
            raise CoterieError(f"--{name} names a key twice: leave one out")
        grid[path] = [parse_value(text) for text in read] if isinstance(values, str) else read
    return grid


def read_seeds(given: Any, name: str = "seeds") -> tuple[int, ...]:
    """Read seeds that a program gave: a list of them, or a text as on the command line."""
    if isinstance(given, str):
        return tuple(parse_seeds(given))
    many = f"[{given}], or range({given}) for {given} of them" if isinstance(given, int) else "[0, 1, 2]"
    seeds = [whole_number(seed, "seed") for seed in _values(given, name, many)]
    if None in seeds:
        raise CoterieError(f"{name} can't hold nothing: write whole numbers, for instance [0, 1, 2]")
    return tuple(seed for seed in seeds if seed is not None)


def _values(given: Any, name: str, example: str) -> list[Any]:
    """Read a list that a program gave, or a text with commas or spaces between its values."""
    if isinstance(given, str):
        return split_list(given)
    if not isinstance(given, Iterable) or isinstance(given, Mapping):
        raise CoterieError(f"{name} = {given!r} is not valid: should be a list, not {kind_of(given)}: write {example}")
    return list(given)


def _table(given: Any, name: str, example: str) -> Mapping[str, Any]:
    if not isinstance(given, Mapping):
        raise CoterieError(f"{name} = {given!r} is not valid: should be a table, not {kind_of(given)}: write {example}")
    return given


def _absolute(design: Design) -> Design:
    """Make paths absolute, so that the folder can be gone on with from anywhere."""
    configs = {label: design.config(label, design.seeds[0]) for label in design.cells}
    first = next(iter(configs.values()))
    base = {section: dict(table) for section, table in design.base.items()}
    cells = {label: dict(changes) for label, changes in design.cells.items()}
    if "plugins" in base.get("run", {}):
        base["run"]["plugins"] = first.run.plugins
    if "track" in base.get("run", {}):
        base["run"]["track"] = first.run.track
    if "expert" in base.get("curriculum", {}):
        base["curriculum"]["expert"] = first.curriculum.expert
    if "admit" in base.get("newcomers", {}):
        base["newcomers"]["admit"] = first.newcomers.admit
    if os.path.isabs(first.data.name) and "name" in base.get("data", {}):
        base["data"]["name"] = first.data.name
    for label, changes in cells.items():
        if "data.name" in changes and os.path.isabs(configs[label].data.name):
            changes["data.name"] = configs[label].data.name
        if "newcomers.admit" in changes:
            changes["newcomers.admit"] = configs[label].newcomers.admit
    return replace(design, base=base, cells=cells)


def path_of(key: str, method: str | None = None) -> str:
    """Return the path of a key in which runs may differ; see `setting_path`."""
    path = setting_path(key, method)
    if path == "run.seed":
        raise CoterieError("seeds are named by --seeds, for instance --seeds 0-4")
    if tuple(path.split(".", 1)) in FREE:
        raise CoterieError(f"'{key}' changes no numbers: set it for all runs")
    return path


def parse_variation(text: str, flag: str) -> tuple[str, list[Any]]:
    """Read ``key=value,value``.

    >>> parse_variation("training.lr=0.1,0.01", "--vary")
    ('training.lr', [0.1, 0.01])
    """
    key, equals, values = text.partition("=")
    if not equals or not key.strip() or not values.strip():
        raise CoterieError(f"{flag} {text} should read {flag} key=value,value, for instance {flag} lr=0.1,0.01")
    return key.strip(), [parse_value(value) for value in split_list(values)]


def _short(path: str, value: Any) -> str:
    text, key = toml_value(value) if isinstance(value, list | dict | bool) else str(value), path.partition(".")[2]
    return text if key == "name" else f"{key}={text}"
