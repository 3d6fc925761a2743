"""What a run came to; the fields are those of ``result.json``."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from coterie.errors import CoterieError
from coterie.results.run_folder import RunFolder


@dataclass(frozen=True)
class Result:
    """Accuracies are fractions, by protocol (`coterie.results.protocols`); None where it is not defined."""

    algorithm: str
    data: str
    partition: str | None
    model: str
    seed: int
    rounds: int
    accuracy: dict[str, float | None]
    per_client: dict[str, list[float | None]]
    groups: list[int | None] | None
    true_groups: list[int | None] | None
    ari: float | None
    grouping: dict[str, Any] | None
    details: dict[str, Any] | None
    """What only some methods have to tell."""
    memberships: list[Any] | None
    newcomers: dict[str, Any] | None
    traffic: dict[str, Any]
    targets: list[dict[str, Any]]
    seconds: float
    events: list[dict[str, Any]]
    trainer: str
    engine: str
    versions: dict[str, str]
    validation: float = 0.0
    """The share of the training samples that took the place of the test samples; 0: tested on test samples."""
    unadapted: dict[str, float | None] | None = None
    """L and C without the adaptation, where a method adapts models before clients use them (Per-FedAvg)."""
    accuracy_by_true_group: dict[str, list[float | None]] | None = None
    """By protocol, the mean over the clients of each true group; ``L_max`` and ``C_max`` are of its best round."""
    accuracy_group_mean: dict[str, float | None] | None = None
    """The mean of these over the groups, in which small groups count as much as large ones."""
    history: list[dict[str, Any]] = field(default_factory=list, repr=False)
    """The rows of ``metrics.jsonl``."""
    folder: Path | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the fields of ``result.json``."""
        return {f.name: getattr(self, f.name) for f in fields(self) if f.name not in ("history", "folder")}

    @classmethod
    def load(cls, folder: str | Path) -> Result:
        """Read the result of a finished run."""
        run = RunFolder.open(Path(folder))
        content = run.read_result()
        if content is None:
            raise CoterieError(f"'{folder}' is not finished: go on with 'coterie resume {folder}'")
        try:
            return cls(**content, history=run.read_metrics()[0], folder=run.path)
        except TypeError as error:
            raise CoterieError(f"'{run.result_file}' is damaged: {error}") from None

    def report(self, picture: str | Path | None = None) -> str:
        """Draw accuracy over rounds, into the run folder or where `picture` says, and return the table as text."""
        from coterie.report import accuracy_plot, result_table

        where = Path(picture) if picture else RunFolder(self.folder).picture if self.folder else None
        table = result_table([self.to_json()])
        if where is not None:
            accuracy_plot({self.algorithm: self.history}, f"{self.data}, seed {self.seed}", where)
            table += f"\nPicture: {where}\n"
        return table
