"""What the folder of a comparison or a sweep holds, for its page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from coterie.results.comparison_table import ComparisonTable
from coterie.results.runs import StoredRun


@dataclass(frozen=True)
class Attempt:
    """A run of a comparison: which, and what became of it."""

    label: str
    seed: int
    state: str
    """``finished``, or in words."""
    folder: str

    @property
    def finished(self) -> bool:
        """Whether its numbers are here."""
        return self.state == "finished"


@dataclass(frozen=True)
class StoredComparison:
    """A comparison or a sweep."""

    path: Path
    table: ComparisonTable
    runs: Mapping[str, Mapping[int, StoredRun]]
    """Those that are finished, by label and seed."""
    attempts: Sequence[Attempt]
    """All that were asked for."""
    text: str
    """Of comparison.toml."""
    sweep: bool = False
    settings: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Of a sweep: the values of the varied keys, by label."""
    alone: Mapping[str, str] = field(default_factory=dict)
    """From a label to that of SOLO on the same data and parts."""
    chosen: Mapping[str, str] = field(default_factory=dict)
    """Which settings were chosen on validation samples, in words, by label."""
    scores: Sequence[tuple[str, str, float | None]] = ()
    """Label, values tried, and their score on validation samples."""
    targets: Sequence[str] = ()
    problems: Sequence[str] = ()

    @property
    def labels(self) -> list[str]:
        """All of them, in order."""
        return [row.label for row in self.table.rows]

    @property
    def what(self) -> str:
        """What the labels are."""
        return self.table.what

    @property
    def seeds(self) -> tuple[int, ...]:
        """All that were asked for."""
        return self.table.seeds

    @property
    def varied(self) -> list[str]:
        """The keys of a sweep."""
        return list(dict.fromkeys(key for one in self.settings.values() for key in one))

    def all_runs(self) -> list[tuple[str, StoredRun]]:
        """Return the finished ones, each with its label."""
        return [(label, run) for label, by_seed in self.runs.items() for run in by_seed.values()]
