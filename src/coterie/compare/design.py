"""What is compared: a base configuration, cells that change some of its keys, and seeds."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from coterie.errors import CoterieError, suggestion
from coterie.results.comparison_folder import Changes, ComparisonPlan, Tables
from coterie.run.config import Config
from coterie.run.overlay import merge
from coterie.run.plugins import Permission
from coterie.run.validation import Origins, differences, make_config
from coterie.run.values import split_names


@dataclass(frozen=True)
class Design(ComparisonPlan):
    """A comparison to be run: what was asked for, checked."""

    def config(self, label: str, seed: int, out: Path | None = None, more: Changes | None = None) -> Config:
        """Return the checked configuration of a run, with more keys changed."""
        from coterie.run.building import absolute

        tables: dict[str, Any] = copy.deepcopy({section: dict(table) for section, table in self.base.items()})
        changes = {**self.cells[label], **(more or {})}
        try:
            for path, value in changes.items():
                merge(tables, path, value)
            tables.setdefault("run", {}).update({"seed": seed, "out": None if out is None else str(out)})
            return absolute(make_config(tables, Origins(given=dict.fromkeys(changes, label))))
        except CoterieError as error:
            raise CoterieError(f"{label}: {error}") from None

    def permitted(self, permission: Permission, file: Path) -> Design:
        """Return a design that a folder holds with the plugins that may be imported; refuse one that names others."""
        sections = {key.partition(".")[0] for key in (*self.tuning.grid, *(k for c in self.cells.values() for k in c))}
        if "run" in sections:
            raise CoterieError(f"'{file}' is damaged: cells can't change keys of [run]")
        return replace(self, base=permission.laid_over(self.base, file))

    def tables(self) -> dict[str, Tables]:
        """Return the complete configuration of each cell as tables."""
        return {label: self.config(label, self.seeds[0]).model_dump() for label in self.cells}

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
        configs: dict[str, Config] = {}
        for label, changes in self.cells.items():
            configs[label] = self.config(label, self.seeds[0])
            for tried in self.tuning.tries(changes):
                self.config(label, self.seeds[0], more=tried)
            for other in list(configs)[:-1]:
                if not differences(configs[label], configs[other]):
                    raise CoterieError(f"'{other}' and '{label}' are the same: leave one out")
        metrics = {config.evaluation.metric for config in configs.values()}
        if len(metrics) > 1:
            raise CoterieError(f"what is compared is measured by one metric, not by {' and '.join(sorted(metrics))}")

    def changed(
        self,
        base: Tables,
        seeds: Iterable[int] | None = None,
        baseline: str | None = None,
        protocol: str | None = None,
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
        holder = f"'{where}' holds a {'comparison' if self.kind == 'compare' else 'sweep'}"
        if new.kind != self.kind:
            raise CoterieError(f"{holder}: choose another --out")
        for label, changes in new.cells.items():
            stored = replace(self, cells={label: self.cells.get(label, changes)})
            changed = differences(stored.config(label, 0), new.config(label, 0))
            changed = [change for change in changed if not change.startswith("evaluation.targets ")]
            if changed:
                raise CoterieError(
                    f"{holder} with other settings ({label}: {'; '.join(changed)}): choose another --out"
                )
        if (self.tuning, self.tuning.grid and self.protocol) != (new.tuning, new.tuning.grid and new.protocol):
            raise CoterieError(f"{holder} whose settings were chosen in another way: choose another --out")
        return replace(
            new,
            cells={**self.cells, **new.cells},
            seeds=tuple(dict.fromkeys((*self.seeds, *new.seeds))),
            baseline=new.baseline or self.baseline,
        )


def base_tables(tables: Tables, protocol: str) -> dict[str, dict[str, Any]]:
    """Return tables without seed and folder, which each run has for itself; a plain target means this protocol."""
    base = copy.deepcopy({section: dict(table) for section, table in tables.items()})
    if targets := base.get("evaluation", {}).get("targets"):
        texts = [text for target in targets for text in split_names(str(target))]
        base["evaluation"]["targets"] = [_target(text, protocol) for text in texts]
    base.get("run", {}).pop("seed", None)
    base.get("run", {}).pop("out", None)
    return base


def _target(text: str, protocol: str) -> str:
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
