"""What is compared: a base configuration, cells that change some of its keys, and seeds."""

from __future__ import annotations

import copy
import itertools
import os
import re
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, Self

from coterie.clustering.options import implied_rules
from coterie.errors import CoterieError, suggestion
from coterie.run.config import CHOICES, FREE, SECTIONS, Config, keys
from coterie.run.toml import read_toml, toml_value
from coterie.run.validation import Origins, differences, make_config, merge
from coterie.run.values import parse_choice, parse_value, split_list

Changes = Mapping[str, Any]
"""From paths like ``training.lr`` to values."""
Protocol = Literal["L", "C", "G", "plus"]
RESERVED = ("tuning", "lock")
"""What else is in the folder of a comparison."""
LONGEST = 80
"""Letters of a folder's name."""


@dataclass(frozen=True)
class Tuning:
    """Settings to choose for each cell by itself, on part of the clients' training samples."""

    grid: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    seeds: tuple[int, ...] = ()
    share: float = 0.2

    def tries(self, changes: Changes) -> list[dict[str, Any]]:
        """Return all combinations for a cell; keys that it sets itself stay as they are."""
        free = {path: values for path, values in self.grid.items() if path not in changes}
        return [dict(zip(free, values, strict=True)) for values in itertools.product(*free.values())] if free else []


@dataclass(frozen=True)
class Design:
    """A comparison as it was asked for."""

    base: Mapping[str, Mapping[str, Any]]
    """Tables, as in a configuration file."""
    cells: Mapping[str, Changes]
    """By label."""
    seeds: tuple[int, ...]
    kind: Literal["compare", "sweep"] = "compare"
    baseline: str | None = None
    """The label to which differences are taken, or a method's name that only one label has; the first cell if None."""
    protocol: Protocol = "L"
    """By which settings are chosen, and which a target means that names none."""
    tuning: Tuning = Tuning()

    def __post_init__(self) -> None:
        if self.baseline is not None and self.baseline not in self.cells:
            meant = [label for label in self.cells if label.partition(":")[0] == self.baseline]
            if len(meant) == 1:
                object.__setattr__(self, "baseline", meant[0])

    def config(self, label: str, seed: int, out: Path | None = None, more: Changes | None = None) -> Config:
        """Return the checked configuration of a run, with more keys changed."""
        from coterie.run.building import absolute

        tables: dict[str, Any] = copy.deepcopy({section: dict(table) for section, table in self.base.items()})
        given = {**self.cells[label], **(more or {})}
        try:
            for path, value in given.items():
                merge(tables, path, value)
            tables.setdefault("run", {}).update({"seed": seed, "out": None if out is None else str(out)})
            return absolute(make_config(tables, Origins(given=dict.fromkeys(given, label))))
        except CoterieError as error:
            raise CoterieError(f"{label}: {error}") from None

    @property
    def targets(self) -> list[str]:
        """The accuracies to note the round and bytes of."""
        return list(self.base.get("evaluation", {}).get("targets", []))

    def folder(self, label: str) -> str:
        """Return the name of a cell's folder, which no other has."""
        name = slug(label)
        alike = next(other for other in self.cells if slug(other).lower() == name.lower())
        return name if alike == label and name not in RESERVED else f"{name}-{zlib.crc32(label.encode()):08x}"

    def check(self) -> None:
        """Refuse what can't be run: seeds, labels, and the configuration of every cell and every try."""
        if not self.seeds:
            raise CoterieError("name at least one seed, for instance --seeds 0,1,2")
        for name, seeds in (("seed", self.seeds), ("tune-seed", self.tuning.seeds)):
            for seed in seeds:
                if seed < 0:
                    raise CoterieError(f"{name} {seed} is not valid: seeds are 0 or more")
            _refuse_duplicates(name, seeds)
        if self.baseline is not None and self.baseline not in self.cells:
            raise CoterieError(
                f"the baseline '{self.baseline}' is not compared: {suggestion(self.baseline, self.cells)}"
            )
        made: dict[str, Config] = {}
        for label, changes in self.cells.items():
            made[label] = self.config(label, self.seeds[0])
            for tried in self.tuning.tries(changes):
                self.config(label, self.seeds[0], more=tried)
            for other in list(made)[:-1]:
                if not differences(made[label], made[other]):
                    raise CoterieError(f"'{other}' and '{label}' are the same: leave one out")

    def changed(
        self,
        base: Mapping[str, Mapping[str, Any]],
        seeds: Iterable[int] | None = None,
        baseline: str | None = None,
        protocol: Protocol | None = None,
    ) -> Design:
        """Return the design with another base, and with what else is given; checked."""
        protocol = protocol or self.protocol
        design = replace(
            self,
            base=_base(base, protocol),
            seeds=self.seeds if seeds is None else tuple(seeds),
            baseline=baseline or self.baseline,
            protocol=protocol,
        )
        design.check()
        return design

    def extended(self, new: Design, where: Path) -> Design:
        """Add what a new design asks for; refuse one with other settings."""
        what = f"'{where}' holds a {'comparison' if self.kind == 'compare' else 'sweep'}"
        if new.kind != self.kind:
            raise CoterieError(f"{what}: choose another --out")
        for label, changes in new.cells.items():
            here = replace(self, cells={label: self.cells.get(label, changes)})
            changed = differences(here.config(label, 0), new.config(label, 0))
            changed = [one for one in changed if not one.startswith("evaluation.targets ")]
            if changed:
                raise CoterieError(f"{what} with other settings ({label}: {'; '.join(changed)}): choose another --out")
        if (self.tuning, self.tuning.grid and self.protocol) != (new.tuning, new.tuning.grid and new.protocol):
            raise CoterieError(f"{what} whose settings were chosen in another way: choose another --out")
        return replace(
            new,
            cells={**self.cells, **new.cells},
            seeds=tuple(dict.fromkeys((*self.seeds, *new.seeds))),
            baseline=new.baseline or self.baseline,
        )

    def to_toml(self) -> str:
        """Write it; `read` reads it back, and ``coterie compare FILE`` runs it."""
        head = {
            "kind": self.kind,
            "seeds": self.seeds,
            "baseline": self.baseline,
            "protocol": self.protocol,
            "tune": self.tuning.grid or None,
            "tune_seeds": self.tuning.seeds or None,
            "tune_share": self.tuning.share,
        }
        tables = {"comparison": head}
        tables |= {f"base.{section}": dict(table) for section, table in self.base.items() if table}
        tables |= {f"cells.{toml_value(label)}": dict(changes) for label, changes in self.cells.items()}
        lines = []
        for name, table in tables.items():
            lines.append(f"[{name}]")
            lines += [f"{_key(key)} = {toml_value(value)}" for key, value in table.items() if value is not None]
            lines.append("")
        return "\n".join(lines)

    @classmethod
    def read(cls, file: Path) -> Self:
        """Read what `to_toml` wrote."""
        tables = read_toml(file)
        try:
            head = tables["comparison"]
            tuning = Tuning(head.get("tune", {}), tuple(head.get("tune_seeds", ())), head["tune_share"])
            return cls(
                base=tables.get("base", {}),
                cells={label: dict(changes) for label, changes in tables["cells"].items()},
                seeds=tuple(head["seeds"]),
                kind=head["kind"],
                baseline=head.get("baseline"),
                protocol=head["protocol"],
                tuning=tuning,
            )
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            raise CoterieError(f"'{file}' is damaged: {type(error).__name__} {error}") from None


def comparing(
    base: Mapping[str, Mapping[str, Any]],
    algorithms: str | Sequence[str],
    seeds: Iterable[int],
    *,
    methods: Mapping[str, Changes] | None = None,
    **more: Any,
) -> Design:
    """Return the design that compares methods; `methods` holds settings of some of them, by name or label.

    >>> design = comparing({}, "fedavg,solo:lr=0.1,epochs=50,ifca:groups=4", [0])
    >>> for label, changes in design.cells.items():
    ...     print(label, changes)
    fedavg {'algorithm.name': 'fedavg'}
    solo:lr=0.1,epochs=50 {'algorithm.name': 'solo', 'training.lr': 0.1, 'algorithm.epochs': 50}
    ifca:groups=4 {'algorithm.name': 'ifca', 'grouping.groups': 4}
    """
    _import(base)
    labels = split_list(algorithms) if isinstance(algorithms, str) else list(algorithms)
    _refuse_duplicates("method", labels)
    if len(labels) < 2:
        raise CoterieError("a comparison needs two methods or more, for instance --algorithms fedavg,pacfl")
    methods, cells = dict(methods or {}), dict[str, Changes]()
    for label in labels:
        chosen = parse_choice(label)
        name = str(chosen.pop("name"))
        known(name)
        own = {path_of(key, name): value for key, value in chosen.items()}
        beside = {**methods.get(name, {}), **methods.get(label, {})}
        cells[label] = {
            "algorithm.name": name,
            **{path_of(key, name): value for key, value in beside.items()},
            **own,
        }
    names = {*cells, *(str(changes["algorithm.name"]) for changes in cells.values())}
    for name in methods:
        if name not in names:
            raise CoterieError(f"[methods.{name}] is of a method that is not compared: {suggestion(name, names)}")
    return _made(base, cells, seeds, "compare", **more)


def sweeping(
    base: Mapping[str, Mapping[str, Any]], vary: Mapping[str, Sequence[Any]], seeds: Iterable[int], **more: Any
) -> Design:
    """Return the design with a cell for each combination of values.

    >>> list(sweeping({"algorithm": {"name": "pacfl"}}, {"threshold": [2, 4], "training.lr": [0.1]}, [0]).cells)
    ['threshold=2, lr=0.1', 'threshold=4, lr=0.1']
    """
    _import(base)
    chosen = base.get("algorithm", {}).get("name", "fedavg")
    method = parse_choice(chosen)["name"] if isinstance(chosen, str) else "fedavg"
    grid = {path_of(key, method): list(values) for key, values in vary.items()}
    if len(grid) < len(vary):
        raise CoterieError("--vary names a key twice: leave one out")
    for key, values in grid.items():
        _refuse_duplicates(f"value of {key}", values)
    combinations = [dict(zip(grid, values, strict=True)) for values in itertools.product(*grid.values())]
    if len(combinations) < 2:
        raise CoterieError("a sweep needs two values or more, for instance --vary grouping.threshold=2,4,8")
    cells = {", ".join(_short(path, value) for path, value in values.items()): values for values in combinations}
    return _made(base, cells, seeds, "sweep", **more)


def _made(
    base: Mapping[str, Mapping[str, Any]],
    cells: Mapping[str, Changes],
    seeds: Iterable[int],
    kind: Literal["compare", "sweep"],
    *,
    baseline: str | None = None,
    protocol: Protocol = "L",
    tune: Mapping[str, Sequence[Any]] | None = None,
    tune_seeds: Iterable[int] = (),
    tune_share: float = 0.2,
) -> Design:
    """Put a design together, and check it."""
    if protocol not in ("L", "C", "G", "plus"):
        raise CoterieError(f"there is no protocol '{protocol}': use L, C, G or plus")
    tables = _base(base, protocol)
    if not 0 < tune_share < 1:
        raise CoterieError(f"tune_share = {tune_share} is not valid: it is a share between 0 and 1")
    grid = {path_of(key): list(values) for key, values in (tune or {}).items()}
    for key, values in grid.items():
        _refuse_duplicates(f"value of {key}", values)
        if len(values) < 2:
            raise CoterieError(f"there is one value of {key} to choose from: name others, or set it")
    seeds = tuple(seeds)
    chosen_on = tuple(tune_seeds) or seeds[:1]
    tuning = Tuning(grid, chosen_on, tune_share) if grid else Tuning()
    design = Design(tables, cells, seeds, kind, baseline, protocol, tuning)
    design.check()
    return _absolute(design)


def _base(tables: Mapping[str, Mapping[str, Any]], protocol: Protocol) -> dict[str, dict[str, Any]]:
    """Return tables without what each run has for itself; a target that names no protocol means this one."""
    base = copy.deepcopy({section: dict(table) for section, table in tables.items()})
    if targets := base.get("evaluation", {}).get("targets"):
        base["evaluation"]["targets"] = [_target(one, protocol) for one in targets]
    base.get("run", {}).pop("seed", None)
    base.get("run", {}).pop("out", None)
    return base


def _absolute(design: Design) -> Design:
    """Make paths absolute, so that the folder can be gone on with from anywhere."""
    made = {label: design.config(label, design.seeds[0]) for label in design.cells}
    first = next(iter(made.values()))
    base = {section: dict(table) for section, table in design.base.items()}
    cells = {label: dict(changes) for label, changes in design.cells.items()}
    if "plugins" in base.get("run", {}):
        base["run"]["plugins"] = first.run.plugins
    if "expert" in base.get("curriculum", {}):
        base["curriculum"]["expert"] = first.curriculum.expert
    if os.path.isabs(first.data.name) and "name" in base.get("data", {}):
        base["data"]["name"] = first.data.name
    for label, changes in cells.items():
        if "data.name" in changes and os.path.isabs(made[label].data.name):
            changes["data.name"] = made[label].data.name
    return replace(design, base=base, cells=cells)


def path_of(key: str, method: str | None = None) -> str:
    """Return the path of a key, which may be an option of the method, a flag's name, a rule, or a path.

    >>> path_of("lr"), path_of("grouping.threshold"), path_of("epochs", "solo"), path_of("count")
    ('training.lr', 'grouping.threshold', 'algorithm.epochs', 'grouping.groups')
    """
    from coterie.algorithms import ALGORITHMS

    name = key.strip().replace("-", "_")
    flags = {known_key.keyword: known_key.path for known_key in keys()}
    rules = {rule: f"grouping.{number}" for number, rule in implied_rules().items()}  # as in pacfl:count=4
    options = ALGORITHMS.options(method) if method is not None and method in ALGORITHMS else {}
    if "." in name:
        path = name
        section, _, last = name.partition(".")
        if section not in SECTIONS:
            raise CoterieError(f"there is no section [{section}] for '{key}': {suggestion(section, SECTIONS)}")
        fields = SECTIONS[section].model_fields
        if section not in CHOICES and last not in fields:
            raise CoterieError(f"there is no key '{key}': [{section}] has no '{last}': {suggestion(last, fields)}")
    elif name in options:
        path = f"algorithm.{name}"
    elif name in flags or name in rules:
        path = flags.get(name) or rules[name]
    else:
        raise CoterieError(f"there is no key '{key}': {suggestion(name, [*options, *flags, *rules])}")
    section, _, last = path.partition(".")
    if path == "run.seed":
        raise CoterieError("seeds are named by --seeds, for instance --seeds 0,1,2")
    if (section, last) in FREE:
        raise CoterieError(f"'{key}' changes no numbers: set it for all runs")
    return path


def known(method: str) -> None:
    """Refuse a method that nobody has registered."""
    from coterie.algorithms import ALGORITHMS

    ALGORITHMS[method]


def parse_variation(text: str, flag: str) -> tuple[str, list[Any]]:
    """Read ``key=value,value``.

    >>> parse_variation("training.lr=0.1,0.01", "--vary")
    ('training.lr', [0.1, 0.01])
    """
    key, equals, values = text.partition("=")
    if not equals or not key.strip() or not values.strip():
        raise CoterieError(f"{flag} {text} should read {flag} key=value,value, for instance {flag} lr=0.1,0.01")
    return key.strip(), [parse_value(value) for value in split_list(values)]


def parse_seeds(text: str) -> list[int]:
    """Read ``0,1,2``."""
    try:
        return [int(seed) for seed in text.split(",")]
    except ValueError:
        raise CoterieError(f"'{text}' should be whole numbers, for instance 0,1,2") from None


def slug(label: str) -> str:
    """Make a folder's name of a label.

    >>> slug("pacfl:groups=4, lr=0.1")
    'pacfl-groups=4-lr=0.1'
    """
    name = re.sub(r"[^\w.=+-]+", "-", label).strip("-.") or "cell"
    return name if len(name) <= LONGEST else f"{name[:LONGEST]}-{zlib.crc32(label.encode()):08x}"


def _short(path: str, value: Any) -> str:
    text = (
        value if isinstance(value, str) else toml_value(value) if isinstance(value, list | dict | bool) else str(value)
    )
    key = path.partition(".")[2]
    return text if key == "name" else f"{key}={text}"


def _key(key: str) -> str:
    return key if re.fullmatch(r"[A-Za-z0-9_-]+", key) else toml_value(key)


def _target(one: Any, protocol: str) -> str:
    text = str(one)
    if "=" in text:
        return text
    if protocol == "plus":
        raise CoterieError(f"target {text} needs a protocol that is measured over rounds, for instance L={text}")
    return f"{protocol}={text}"


def _refuse_duplicates(what: str, items: Sequence[Any]) -> None:
    for item in items:
        if items.count(item) > 1:
            raise CoterieError(f"{what} {item} is named twice: leave one out")


def _import(base: Mapping[str, Mapping[str, Any]]) -> None:
    """Import plugins, whose methods may be named in labels."""
    from coterie.run.plugins import import_plugins

    plugins = base.get("run", {}).get("plugins", [])
    import_plugins(plugins if isinstance(plugins, list) else [])
