"""Comparisons as tables: for the terminal, Markdown, CSV and LaTeX."""

from __future__ import annotations

import csv
import io
import math
import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal, get_args

from coterie.report.grids import aligned, latex, markdown
from coterie.results.protocols import PROTOCOLS as ALL
from coterie.results.protocols import brief, held_out
from coterie.results.statistics import Difference, Leader, Spread, leader, paired, spread

Format = Literal["text", "markdown", "csv", "latex"]
FORMATS: tuple[Format, ...] = get_args(Format)
SUFFIXES: dict[Format, str] = {"text": "txt", "markdown": "md", "csv": "csv", "latex": "tex"}
PROTOCOLS = {key: name for key, (name, _) in ALL.items() if key in ("L", "C", "G", "plus")}
"""Those of result.json that are compared, and how they are headed."""
LEGEND = (
    "Accuracy in %, mean ± standard deviation over seeds (n - 1). "
    + "; ".join(brief({*PROTOCOLS.values()}))
    + "; –: not defined. ARI: agreement of groups with the true ones. MB: megabytes to and from clients in training. "
    "Seconds: of a run beside others."
)
TARGET = (
    "Rounds and megabytes to a target: at the first evaluation that reached it, mean over the seeds that did (how many "
    "of them, where not all)."
)
RULE = (
    "{mark}: the highest mean of those with every seed, and distinguishable from each of the others: paired t test, "
    "p < 0.05 divided by the number of others (Bonferroni)."
)
DIFFERENCE = (
    "Differences to {baseline} in percentage points, paired by seed, with 95 % t intervals of the mean, each for "
    "itself (not corrected for several comparisons)."
)


@dataclass(frozen=True)
class Cell:
    """A method, or a setting of a sweep: its results by seed, each with the fields of result.json."""

    label: str
    runs: Mapping[int, Mapping[str, Any]]


@dataclass(frozen=True)
class Reached:
    """When an accuracy was reached: means over the `n` seeds that did, of those for which the protocol is defined."""

    target: str
    n: int
    seeds: int
    rounds: float | None
    megabytes: float | None


@dataclass(frozen=True)
class Row:
    """What is said about a cell."""

    label: str
    runs: int
    accuracy: Mapping[str, Spread | None]
    groups: Spread | None
    ari: Spread | None
    megabytes: Spread | None
    seconds: Spread | None
    reached: tuple[Reached, ...]
    differences: Mapping[str, Difference | None] | None
    """To the baseline; None for the baseline itself."""


@dataclass(frozen=True)
class Table:
    """A comparison, counted; numbers are fractions, bytes are megabytes."""

    title: str
    what: str
    """What the cells are: methods, or settings."""
    seeds: tuple[int, ...]
    baseline: str
    rows: tuple[Row, ...]
    leaders: Mapping[str, Leader | None]
    notes: tuple[str, ...]

    def __str__(self) -> str:
        return self.text()

    def __getitem__(self, label: str) -> Row:
        return next(row for row in self.rows if row.label == label)

    def best(self, protocol: str) -> str | None:
        """Return who is distinguishable as the best."""
        found = self.leaders.get(protocol)
        return found.label if found is not None and found.clear else None

    def to_json(self) -> dict[str, Any]:
        """Return all of it as plain data."""
        return {
            "baseline": self.baseline,
            "rows": [asdict(row) for row in self.rows],
            "leaders": {protocol: None if one is None else asdict(one) for protocol, one in self.leaders.items()},
            "best": {protocol: self.best(protocol) for protocol in PROTOCOLS},
            "notes": list(self.notes),
        }

    def render(self, format: Format) -> str:
        """Return it in a format by name."""
        return {"text": self.text, "markdown": self.markdown, "csv": self.csv, "latex": self.latex}[format]()

    def text(self) -> str:
        """Return it for a terminal."""
        grids = [aligned(grid) for grid in self._grids(lambda text: f"{text}*")]
        wrapped = [textwrap.fill(line, 100) for line in [*self.notes, *self._legend("*")]]
        return "\n\n".join([self.title, *grids, "\n".join(wrapped)]) + "\n"

    def markdown(self) -> str:
        """Return it as Markdown."""
        grids = map(markdown, self._grids(lambda text: f"**{text}**"))
        return "\n\n".join([self.title, *grids, *self.notes, *self._legend("bold")]) + "\n"

    def latex(self) -> str:
        """Return it as LaTeX, for the package booktabs."""
        tables = map(latex, self._grids(lambda text: f"\0{text}\1"))
        remarks = [f"% {line}" for line in (self.title, *self.notes, *self._legend("bold"))]
        return "\n\n".join(["\n".join([*remarks, "% Needs \\usepackage{booktabs}."]), *tables]) + "\n"

    def csv(self) -> str:
        """Return a line per cell with the numbers as they are: accuracies as fractions, nothing where undefined."""
        lines = [_flat(row, {p: self.best(p) == row.label for p in PROTOCOLS}) for row in self.rows]
        file = io.StringIO()
        writer = csv.DictWriter(file, list(lines[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(lines)
        return file.getvalue()

    def _grids(self, mark: Callable[[str], str]) -> list[list[list[str]]]:
        """Return headings and lines of all tables as texts, columns without any content left out."""
        grids = [self._main(mark)]
        if self.rows[0].reached:
            grids.append(self._targets())
        if len(self.rows) > 1:
            grids.append(self._differences())
        return [grid for grid in map(_without_empty, grids) if len(grid[0]) > 1]

    def _main(self, mark: Callable[[str], str]) -> list[list[str]]:
        grid = [[self.what, *PROTOCOLS.values(), "groups", "ARI", "MB", "seconds"]]
        for row in self.rows:
            line = [row.label]
            for protocol in PROTOCOLS:
                text = accuracy_text(row.accuracy[protocol], len(self.seeds))
                line.append(mark(text) if self.best(protocol) == row.label else text)
            line += [plain_text(row.groups), plain_text(row.ari, 2)]
            line += [mean_text(row.megabytes, 2), mean_text(row.seconds, 1)]
            grid.append(line)
        return grid

    def _targets(self) -> list[list[str]]:
        heads = [f"{what} to {one.target}" for one in self.rows[0].reached for what in ("rounds", "MB")]
        grid = [[self.what, *heads]]
        for row in self.rows:
            texts = [(reached_text(one, one.rounds, 1), reached_text(one, one.megabytes, 2)) for one in row.reached]
            grid.append([row.label, *(text for pair in texts for text in pair)])
        return grid

    def _differences(self) -> list[list[str]]:
        grid = [[f"minus {self.baseline}", *PROTOCOLS.values()]]
        for row in self.rows:
            if row.differences is not None:
                texts = [difference_text(row.differences[protocol], len(self.seeds)) for protocol in PROTOCOLS]
                grid.append([row.label, *texts])
        return grid

    def _legend(self, mark: str) -> list[str]:
        lines = [LEGEND]
        if self.rows[0].reached:
            lines.append(TARGET)
        if any(self.best(protocol) for protocol in PROTOCOLS):
            lines.append(RULE.format(mark=mark))
        if len(self.rows) > 1 and len(self.seeds) > 1:
            lines.append(DIFFERENCE.format(baseline=self.baseline))
        return lines


def make_table(
    cells: Sequence[Cell],
    seeds: Sequence[int],
    *,
    title: str,
    what: str = "method",
    baseline: str | None = None,
    notes: Sequence[str] = (),
) -> Table:
    """Count the results of a comparison; the baseline is the first cell unless another is named."""
    first = baseline or cells[0].label
    accuracy = {cell.label: {p: _accuracies(cell, p) for p in PROTOCOLS} for cell in cells}
    rows = [
        Row(
            label=cell.label,
            runs=len(cell.runs),
            accuracy={p: spread([*accuracy[cell.label][p].values()]) for p in PROTOCOLS},
            groups=_spread(cell, _groups),
            ari=_spread(cell, lambda run: run["ari"]),
            megabytes=_spread(cell, lambda run: (run["traffic"]["up_bytes"] + run["traffic"]["down_bytes"]) / 1e6),
            seconds=_spread(cell, lambda run: run["seconds"]),
            reached=tuple(_all_reached(cell, targets_of(cells))),
            differences=None
            if cell.label == first
            else {p: paired(accuracy[cell.label][p], accuracy[first][p]) for p in PROTOCOLS},
        )
        for cell in cells
    ]
    leaders = {p: leader({cell.label: accuracy[cell.label][p] for cell in cells}, seeds) for p in PROTOCOLS}
    said = [*notes, *_notes(cells, seeds, accuracy, leaders)]
    return Table(title, what, tuple(seeds), first, tuple(rows), leaders, tuple(said))


def targets_of(cells: Sequence[Cell]) -> list[str]:
    """Return the targets that results tell of, like ``L=0.8``."""
    runs = (run for cell in cells for run in cell.runs.values())
    return list(dict.fromkeys(_target(one) for run in runs for one in run["targets"]))


def _target(one: Mapping[str, Any]) -> str:
    return f"{one['protocol']}={one['value']:g}"


def _finite(value: Any) -> float | None:
    """Return a number; None for what is none."""
    return float(value) if isinstance(value, int | float) and math.isfinite(value) else None


def _accuracies(cell: Cell, protocol: str) -> dict[int, float]:
    found = {seed: _finite(run["accuracy"][protocol]) for seed, run in cell.runs.items()}
    return {seed: value for seed, value in found.items() if value is not None}


def _spread(cell: Cell, value: Callable[[Mapping[str, Any]], Any]) -> Spread | None:
    found = [_finite(value(run)) for run in cell.runs.values()]
    return spread([one for one in found if one is not None])


def _groups(run: Mapping[str, Any]) -> int | None:
    return None if run["groups"] is None else len({group for group in run["groups"] if group is not None})


def _all_reached(cell: Cell, targets: Sequence[str]) -> list[Reached]:
    found = []
    for target in targets:
        all_of_it = [
            one
            for run in cell.runs.values()
            for one in run["targets"]
            if _target(one) == target and (run["accuracy"][one["protocol"]] is not None or one["round"] is not None)
        ]
        done = [one for one in all_of_it if one["round"] is not None]
        rounds, sent = (spread([float(one[key]) for one in done]) for key in ("round", "bytes"))
        means = (rounds.mean, sent.mean / 1e6) if rounds and sent else (None, None)
        found.append(Reached(target, len(done), len(all_of_it), *means))
    return found


def _notes(
    cells: Sequence[Cell],
    seeds: Sequence[int],
    accuracy: Mapping[str, Mapping[str, Mapping[int, float]]],
    leaders: Mapping[str, Leader | None],
) -> list[str]:
    """Say what a reader of the numbers must know."""
    shares = {run.get("validation", 0.0) for cell in cells for run in cell.runs.values()}
    notes = [text for share in sorted(shares) if (text := held_out(share))]
    if len(seeds) == 1:
        notes.append(
            f"One seed only ({seeds[0]}): there is neither spread nor interval, and nothing is marked as the best."
        )
    for cell in cells:
        missing = [seed for seed in seeds if seed not in cell.runs]
        if missing:
            notes.append(f"{cell.label}: there is no result of seed {_listed(missing)}.")
        for protocol, heading in PROTOCOLS.items():
            there, here = [seed for seed in seeds if seed in cell.runs], accuracy[cell.label][protocol]
            odd = [seed for seed in there if _odd(cell.runs[seed]["accuracy"][protocol])]
            if odd:
                notes.append(f"{cell.label}: {heading} of seed {_listed(odd)} is no number, and in no mean.")
            if here and len(here) + len(odd) < len(there):
                notes.append(f"{cell.label}: {heading} is defined for seed {_listed(list(here))} only.")
    if not any(all(accuracy[cell.label][protocol] for cell in cells) for protocol in PROTOCOLS):
        notes.append("No protocol has numbers of all of them: they can't all be compared with each other.")
    return notes + undecided(leaders, seeds)


def undecided(leaders: Mapping[str, Leader | None], seeds: Sequence[int]) -> list[str]:
    """Say under which protocols the highest mean may be chance."""
    return [
        f"{PROTOCOLS[protocol]}: {found.label} has the highest mean{found.among}, but {len(seeds)} seeds can't tell it "
        f"from {_listed(found.rivals)}."
        for protocol, found in leaders.items()
        if found is not None and not found.clear and len(seeds) > 1
    ]


def _odd(value: Any) -> bool:
    return value is not None and _finite(value) is None


def _listed(items: Sequence[Any]) -> str:
    return ", ".join(map(str, items))


def accuracy_text(found: Spread | None, seeds: int) -> str:
    """Write an accuracy in %, with its spread, and how many seeds it is of where not all."""
    if found is None:
        return "–"
    text = f"{100 * found.mean:.2f}" + ("" if found.std is None else f" ± {100 * found.std:.2f}")
    return text if found.n == seeds else f"{text} ({found.n} of {seeds})"


def plain_text(found: Spread | None, digits: int = 1) -> str:
    """Write a number of which all seeds may be alike."""
    if found is None:
        return "–"
    if not found.std:
        return f"{found.mean:g}" if digits == 1 and found.mean == int(found.mean) else f"{found.mean:.{digits}f}"
    return f"{found.mean:.{digits}f} ± {found.std:.{digits}f}"


def mean_text(found: Spread | None, digits: int) -> str:
    """Write a mean."""
    return "–" if found is None else f"{found.mean:.{digits}f}"


def reached_text(reached: Reached, value: float | None, digits: int) -> str:
    """Write when a target was reached, and by how many seeds where not by all."""
    if not reached.seeds:
        return "–"
    if value is None:
        return "never"
    return f"{value:.{digits}f}" + ("" if reached.n == reached.seeds else f" ({reached.n} of {reached.seeds})")


def difference_text(found: Difference | None, seeds: int) -> str:
    """Write a difference in percentage points, with its interval."""
    if found is None:
        return "–"
    text = f"{100 * found.mean:+.2f}"
    if found.low is not None and found.high is not None:
        text += f" [{100 * found.low:+.2f}, {100 * found.high:+.2f}]"
    return text if found.n == seeds else f"{text} ({found.n} of {seeds})"


def _without_empty(grid: list[list[str]]) -> list[list[str]]:
    """Leave out columns that have nothing but dashes."""
    kept = [c for c in range(len(grid[0])) if c == 0 or any(line[c] != "–" for line in grid[1:])]
    return [[line[c] for c in kept] for line in grid]


def _flat(row: Row, best: Mapping[str, bool]) -> dict[str, Any]:
    """Return a row's numbers under names of their own."""
    flat: dict[str, Any] = {"method": row.label, "runs": row.runs}
    for protocol in PROTOCOLS:
        found, gain = row.accuracy[protocol], row.differences and row.differences[protocol]
        flat |= {
            f"{protocol}_n": found.n if found else 0,
            f"{protocol}_mean": found and found.mean,
            f"{protocol}_std": found and found.std,
            f"{protocol}_best": best[protocol],
            f"{protocol}_difference": gain and gain.mean,
            f"{protocol}_low": gain and gain.low,
            f"{protocol}_high": gain and gain.high,
        }
    for name, numbers in (("groups", row.groups), ("ari", row.ari), ("megabytes", row.megabytes)):
        flat |= {f"{name}_mean": numbers and numbers.mean, f"{name}_std": numbers and numbers.std}
    flat["seconds_mean"] = row.seconds and row.seconds.mean
    for reached in row.reached:
        flat |= {
            f"reached_{reached.target}_n": reached.n,
            f"rounds_to_{reached.target}": reached.rounds,
            f"megabytes_to_{reached.target}": reached.megabytes,
        }
    return flat
