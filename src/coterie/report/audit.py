"""Audits as tables and pictures."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from coterie.report.latex import PaperTable, paper
from coterie.report.picture_files import write
from coterie.report.static import paint
from coterie.report.text_table import TextTable, csv_text, document, tex
from coterie.results.charts import Bars, Series, values
from coterie.results.formats import TableFormat

COLUMNS = ("run", "attacked", "shown", "auc", "auc_error", "trials", "nearest", "nearest_other", "epsilon_at_least")
CLAIMED = ("epsilon", "delta", "unit", "broken")
NOTHING = "none"


def audit_text(audit: Mapping[str, Any], format: TableFormat = "text") -> str:
    """Return a row per attack; CSV has numbers as they are, nothing where there is none."""
    rows = [(run, row) for run in audit["runs"] for row in run["findings"]]
    if format == "csv":
        return csv_text([*COLUMNS, *CLAIMED], (_plain(run, row) for run, row in rows))
    several, table = len(audit["runs"]) > 1, _table(audit)
    above = [f"{run['name']}: {run['title']}" for run in audit["runs"]]
    named = [f"{run['name']}: {note}" if several else note for run in audit["runs"] for note in run["notes"]]
    notes = [f"{text[:1].upper()}{text[1:]}" for text in [*(f"{line}." for line in audit["broken"]), *named]]
    notes.append(legend(audit["confidence"]))
    if format == "latex":
        return paper([PaperTable(table, "What attacks learn.", "tab:audit", tuple(map(tex, notes)))], above)
    return document(format, above, [("", table)], notes)


def legend(confidence: float) -> str:
    """Say what rows and columns are."""
    return (
        "Signatures: membership by the length of a sample's projection. Pictures: nearness of single signature vectors "
        "to samples. Received and sent models: membership by loss; sent ones are those of one more round. AUC: of "
        "telling samples that were used from test samples of the same labels; 0.5 is guessing; with its standard "
        "error, as of independent trials. Nearest: mean cosine of signature vectors with the nearest sample behind "
        "them (with the nearest other). ε shown: the attack leaves no less possible, with confidence "
        f"{confidence:g}; another one may show more. ε claimed: by the run, for what was attacked."
    )


def audit_chart(audit: Mapping[str, Any]) -> Bars:
    """Return how much better than guessing each attack is, a colour per run and kind of protection."""
    rows = [(run, row) for run in audit["runs"] for row in run["findings"]]
    targets = [*dict.fromkeys(row["target"] for _, row in rows)]
    several = len(audit["runs"]) > 1
    series: dict[str, dict[str, Mapping[str, Any]]] = {}
    for run, row in rows:
        name = f"{Path(run['name']).name}, {row['shown']}" if several else row["shown"]
        series.setdefault(name, {})[row["target"]] = row
    return Bars(
        title="What a server could tell from what clients sent",
        note="2 AUC - 1 of telling samples that were used from others; whiskers: a standard error.",
        x_label="attacked",
        y_label="2 AUC - 1 (0: guessing, 1: certainty)",
        categories=tuple(targets),
        series=tuple(
            Series(
                name=name,
                y=values(_above_guessing(found.get(target), 0) for target in targets),
                low=values(_above_guessing(found.get(target), -1) for target in targets),
                high=values(_above_guessing(found.get(target), 1) for target in targets),
            )
            for name, found in series.items()
        ),
    )


def draw_audit(audit: Mapping[str, Any], folder: Path) -> list[Path]:
    """Write the picture."""
    return write(paint(audit_chart(audit)), folder / "audit")


def _above_guessing(row: Mapping[str, Any] | None, errors: int) -> float | None:
    """Return 2 AUC - 1, so many standard errors off."""
    return None if row is None else 2 * (row["auc"] + errors * row["auc_error"]) - 1


def _table(audit: Mapping[str, Any]) -> TextTable:
    head = ["run", "attacked", "", "AUC", "nearest", "ε shown", "ε claimed", "for one"]
    rows, bold = list[list[str]](), set[tuple[int, int]]()
    for run in audit["runs"]:
        for number, row in enumerate(run["findings"]):
            claim = row["claim"]
            if row["broken"]:
                bold.add((len(rows), head.index("ε shown")))
            rows.append(
                [
                    Path(run["name"]).name if number == 0 else "",
                    row["target"],
                    row["shown"],
                    f"{row['auc']:.3f} ± {row['auc_error']:.3f}",
                    "–" if row["cosines"] is None else "{:.2f} ({:.2f})".format(*row["cosines"]),
                    _shown(row["proven"]),
                    NOTHING if claim is None and row["proven"] else "–" if claim is None else f"{claim['epsilon']:.3g}",
                    "–" if claim is None else claim["unit"],
                ]
            )
    return TextTable(head, rows, bold, left=("attacked", "")).without_empty()


def _shown(proven: Mapping[str, Any] | None) -> str:
    """Write a bound; 0 where nothing was shown."""
    if proven is None:
        return "–"
    return f"> {proven['epsilon']:.2f}" if proven["epsilon"] else "0"


def _plain(run: Mapping[str, Any], row: Mapping[str, Any]) -> Sequence[Any]:
    """Return the cells of a row as numbers."""
    claim, cosines, proven = row["claim"] or {}, row["cosines"] or (None, None), row["proven"] or {}
    measured = [row["target"], row["shown"], row["auc"], row["auc_error"], row["trials"], *cosines]
    claimed = [claim.get(key) for key in ("epsilon", "delta", "unit")]
    return [run["name"], *measured, proven.get("epsilon"), *claimed, row["broken"]]
