"""What is compared: a base configuration, cells that change some of its keys, and seeds."""

from __future__ import annotations

import copy
import itertools
import re
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, Self

from coterie.errors import CoterieError, suggestion
from coterie.results.toml import read_toml, toml_value
from coterie.run.config import Config
from coterie.run.validation import Origins, differences, make_config, merge

Changes = Mapping[str, Any]
"""From paths like ``training.lr`` to values."""
Tables = Mapping[str, Mapping[str, Any]]
"""Sections with their keys, as in a configuration file."""
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

    base: Tables
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
    def noun(self) -> str:
        """What a cell is."""
        return "method" if self.kind == "compare" else "setting"

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
            refuse_duplicates(name, seeds)
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
        base: Tables,
        seeds: Iterable[int] | None = None,
        baseline: str | None = None,
        protocol: Protocol | None = None,
    ) -> Design:
        """Return the design with another base, and with what else is given; checked."""
        protocol = protocol or self.protocol
        design = replace(
            self,
            base=base_tables(base, protocol),
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
            changed = [change for change in changed if not change.startswith("evaluation.targets ")]
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


def seeds_text(seeds: Sequence[int]) -> str:
    """Name seeds.

    >>> seeds_text([0, 1])
    'seeds 0, 1'
    """
    return f"seed{'s' if len(seeds) > 1 else ''} {', '.join(map(str, seeds))}"


def slug(label: str) -> str:
    """Make a folder's name of a label.

    >>> slug("pacfl:groups=4, lr=0.1")
    'pacfl-groups=4-lr=0.1'
    """
    name = re.sub(r"[^\w.=+-]+", "-", label).strip("-.") or "cell"
    return name if len(name) <= LONGEST else f"{name[:LONGEST]}-{zlib.crc32(label.encode()):08x}"


def _key(key: str) -> str:
    return key if re.fullmatch(r"[A-Za-z0-9_-]+", key) else toml_value(key)


def base_tables(tables: Tables, protocol: Protocol) -> dict[str, dict[str, Any]]:
    """Return tables without seed and folder, which each run has for itself; a plain target means this protocol."""
    base = copy.deepcopy({section: dict(table) for section, table in tables.items()})
    if targets := base.get("evaluation", {}).get("targets"):
        base["evaluation"]["targets"] = [_target(target, protocol) for target in targets]
    base.get("run", {}).pop("seed", None)
    base.get("run", {}).pop("out", None)
    return base


def _target(target: Any, protocol: str) -> str:
    text = str(target)
    if "=" in text:
        return text
    if protocol == "plus":
        raise CoterieError(f"target {text} needs a protocol that is measured over rounds, for instance L={text}")
    return f"{protocol}={text}"


def refuse_duplicates(what: str, items: Sequence[Any]) -> None:
    """Refuse a list that names something twice."""
    for item in items:
        if items.count(item) > 1:
            raise CoterieError(f"{what} {item} is named twice: leave one out")
