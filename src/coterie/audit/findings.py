"""What an audit finds, as plain data."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from coterie.arguments import checked
from coterie.files import new_files, write_whole
from coterie.privacy.attacks import ProvenEpsilon
from coterie.results.formats import TableFormat, table_format

if TYPE_CHECKING:
    from matplotlib.axes import Axes

NUMBERS = "audit.json"
Shown = Literal["as sent", "without protection"]


@dataclass(frozen=True)
class Claim:
    """What a run claims of its privacy."""

    epsilon: float
    delta: float
    unit: str
    """``sample`` or ``client``."""
    given_groups: bool = False
    """Whether it holds only given who is in which group."""

    @classmethod
    def of(cls, entry: Mapping[str, Any], choosing: bool = False) -> Claim:
        """Read an entry of ``privacy`` in ``result.json``; `choosing`: clients choose their group in every round."""
        given = any("group" in text for text in entry["not_covered"]) and not choosing
        return cls(entry["epsilon"], entry["delta"], entry["unit"], given)

    @property
    def steps(self) -> int:
        """How often the unit is exchanged where one sample is: a client that has another sample is another client."""
        return 1 if self.unit == "sample" else 2


@dataclass(frozen=True)
class Finding:
    """One attack."""

    target: str
    """What was attacked."""
    shown: Shown
    auc: float
    """Of telling members from others: 0.5 is guessing, 1 is certainty."""
    auc_error: float
    """Its standard error."""
    trials: int
    """Members and others together."""
    cosines: tuple[float, float] | None = None
    """Of reconstruction: the mean cosine of vectors with the nearest sample behind them, and with the nearest other."""
    proven: ProvenEpsilon | None = None
    """Which ε the attack disproves, where samples are told apart."""
    claim: Claim | None = None
    """What the run claims of it; None: nothing."""

    @property
    def broken(self) -> bool:
        """Whether the attack disproves the claim."""
        return self.claim is not None and self.proven is not None and self.proven.epsilon > self.claim.epsilon


@dataclass(frozen=True)
class RunAudit:
    """The attacks on one run."""

    name: str
    """Of the run folder."""
    title: str
    clients: list[int]
    """Those that were attacked."""
    population: int
    findings: list[Finding]
    notes: list[str]
    """What was not attacked, and why; and what the numbers are conditional on."""


@dataclass(frozen=True, repr=False)
class Audit:
    """Several runs side by side."""

    runs: list[RunAudit]
    confidence: float

    def __repr__(self) -> str:
        many = sum(len(run.findings) for run in self.runs)
        return f"Audit({many} attacks, {len(self.broken)} claims disproved)"

    @property
    def broken(self) -> list[str]:
        """A sentence for each claim that an attack disproves."""
        return [
            f"the claim of '{run.name}' for {row.target} is disproved: ε = {row.claim.epsilon:.3g} for one "
            f"{row.claim.unit}, but the attack shows more than {row.proven.epsilon:.3g} ({row.proven.right} of "
            f"{row.proven.guesses} guesses right, confidence {self.confidence:g}): either there is too little noise, "
            "or test samples differ from training samples by more than chance"
            for run in self.runs
            for row in run.findings
            if row.broken and row.claim is not None and row.proven is not None
        ]

    def to_json(self) -> dict[str, Any]:
        """Return what ``coterie audit --json`` prints."""
        runs = [
            {**asdict(run), "findings": [{**asdict(row), "broken": row.broken} for row in run.findings]}
            for run in self.runs
        ]
        return {"confidence": self.confidence, "runs": runs, "broken": self.broken}

    def report(self, format: TableFormat = "text") -> str:
        """Return the attacks as a table: text, markdown, csv or latex."""
        from coterie.report.audit import audit_text

        return audit_text(self.to_json(), table_format(format))

    @checked
    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw with matplotlib how well each attack tells members from others.

        Args:
            ax: The axes to draw on; by default those of a new figure, which a notebook shows.
        """
        from coterie.report.audit import audit_chart
        from coterie.report.notebook import draw

        return draw(audit_chart(self.to_json()), ax)

    @checked
    def save(self, folder: str | Path, overwrite: bool = False) -> list[Path]:
        """Write the numbers and the picture into a folder; other files there stay without `overwrite`."""
        from coterie.report.audit import draw_audit

        folder = Path(folder)
        with new_files(folder, overwrite) as place:
            write_whole(place / NUMBERS, (json.dumps(self.to_json()) + "\n").encode())
            written = draw_audit(self.to_json(), place)
        return [folder / NUMBERS, *(folder / file.name for file in written)]
