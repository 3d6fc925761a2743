"""The folder of a comparison or a sweep. No other module knows the names of its files.

It holds `comparison.toml` (what was asked), a run folder per cell and seed (`<cell>/seed-<k>`), those of tuning
(`tuning/<cell>/<values>/seed-<k>`), and at the end `comparison.json` and the tables.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from coterie.errors import CoterieError
from coterie.files import write_whole
from coterie.results.comparison_plan import ComparisonPlan, candidate_name, slug
from coterie.results.formats import COMPARISON_FORMAT, TABLE_FILES, TableFormat, error_in_format
from coterie.results.run_folder import LOCK, RunFolder

PLAN, DATA = "comparison.toml", "comparison.json"


class ComparisonFolder:
    """What was asked for, the runs, and the numbers that they give."""

    def __init__(self, path: Path) -> None:
        self.path, self.plan_file, self.data_file = path, path / PLAN, path / DATA

    @classmethod
    def open(cls, path: Path) -> ComparisonFolder:
        """Open the folder of a comparison that was started."""
        folder = cls(path)
        if not folder.exists:
            raise CoterieError(f"'{path}' is not a comparison: it has no {PLAN}")
        return folder

    @property
    def exists(self) -> bool:
        """Whether a comparison was started here."""
        return self.plan_file.is_file()

    def check_free(self) -> None:
        """Refuse a path that holds something else than a comparison."""
        path = self.path
        if path.exists() and not path.is_dir():
            raise CoterieError(f"'{path}' is a file: choose another --out")
        if not path.exists() or self.exists:
            return
        if RunFolder(path).exists:
            raise CoterieError(f"'{path}' holds a single run, not a comparison: choose another --out")
        if any(item.name not in (LOCK, f"{PLAN}.part") for item in path.iterdir()):
            raise CoterieError(f"'{path}' exists and is not a comparison: choose another --out")

    def remove_empty(self) -> None:
        """Remove a folder in which nothing was begun."""
        (self.path / LOCK).unlink(missing_ok=True)
        self.path.rmdir()

    def run(self, plan: ComparisonPlan, label: str, seed: int) -> RunFolder:
        """Return the folder of a run that is compared."""
        return RunFolder(self.path / run_place(plan, label, seed))

    def candidate(self, plan: ComparisonPlan, label: str, values: Mapping[str, Any], seed: int) -> RunFolder:
        """Return the folder of a run that scores values to choose from."""
        return RunFolder(self.path / "tuning" / plan.folder(label) / slug(candidate_name(values)) / f"seed-{seed}")

    def write_plan(self, plan: ComparisonPlan) -> None:
        """Write what is asked for."""
        write_whole(self.plan_file, plan.to_toml().encode())

    def write(self, fields: Mapping[str, Any], tables: Mapping[TableFormat, str]) -> None:
        """Write the numbers, and the tables by format."""
        content = {**fields, "format": COMPARISON_FORMAT}
        write_whole(self.data_file, (json.dumps(content, indent=1) + "\n").encode())
        for format, text in tables.items():
            write_whole(self.path / TABLE_FILES[format], text.encode())

    def read_failures(
        self, accuracies: Mapping[tuple[str, int], Mapping[str, Any]]
    ) -> tuple[dict[tuple[str, int], str], str | None]:
        """Return why runs failed, by label and seed; say if the numbers are damaged, or not those of these runs."""
        again = f"this page is made from the runs, and `coterie resume {self.path}` writes it anew."
        if not self.data_file.is_file():
            return {}, None
        try:
            content = json.loads(self.data_file.read_text(encoding="utf-8"))
            cells = {cell["label"]: cell for cell in content["cells"]}
            failed = {(label, run["seed"]): str(run["why"]) for label, cell in cells.items() for run in cell["failed"]}
            written = {(label, run["seed"]): run["accuracy"] for label, cell in cells.items() for run in cell["runs"]}
        except (ValueError, KeyError, TypeError) as error:
            return {}, f"{DATA} is damaged ({type(error).__name__}); {again}"
        if newer := error_in_format(content, COMPARISON_FORMAT):
            raise CoterieError(f"'{self.data_file}' {newer}")
        if json.dumps(sorted(written.items())) != json.dumps(sorted(accuracies.items())):
            return failed, f"{DATA} and the tables beside it are of other runs than those in the folder; {again}"
        return failed, None


def run_place(plan: ComparisonPlan, label: str, seed: int) -> str:
    """Return where in the folder a run is."""
    return f"{plan.folder(label)}/seed-{seed}"
