"""Curves on pages: accuracy over rounds and against megabytes, and what else is followed from round to round."""

from collections.abc import Callable

from coterie.results.charts import Block, Chart, Lines, Mark, Series, Switch
from coterie.results.protocols import CURVES

FOLLOWED = (
    ("loss", "training loss", "Mean over the local steps of the clients that trained."),
    ("groups", "number of groups", "At each evaluation."),
    ("discrepancy", "discrepancy", "How far clients' models are from what they would receive (FedGroup, Eq. 4)."),
)
"""Columns of the metrics that are no accuracies: key, name, and what they are."""
DIGITS = {"loss": 3, "groups": 0, "discrepancy": 3}

Drawn = Callable[[str], tuple[Series, ...]]
"""Gives the lines of a column of the metrics; none where nobody has numbers."""
Marked = Callable[[str], tuple[Mark, ...]]


def accuracy_over_rounds(lines: Drawn, marks: Marked, remark: str = "") -> list[tuple[str, Chart]]:
    """Return a chart per protocol that anybody has; lines are in %."""
    return _accuracies(lines, marks, "over rounds", "round", remark)


def accuracy_against_megabytes(lines: Drawn, marks: Marked, x_label: str, remark: str = "") -> list[tuple[str, Chart]]:
    """Return a chart per protocol that anybody has; lines are in %, over megabytes."""
    remarks = f"Evaluation is not counted. {remark}".strip()
    return _accuracies(lines, marks, "against megabytes", x_label, remarks)


def _accuracies(lines: Drawn, marks: Marked, over: str, x_label: str, remark: str) -> list[tuple[str, Chart]]:
    return [
        (
            protocol.symbol,
            Lines(
                title=f"Accuracy {protocol.symbol} {over}",
                x_label=x_label,
                y_label=f"accuracy {protocol.symbol} (%)",
                series=series,
                marks=marks(key),
                note=f"{protocol.symbol}: {protocol.sentence}. {remark}".strip(),
            ),
        )
        for key, protocol in CURVES.items()
        if (series := lines(key))
    ]


def followed(lines: Drawn, marks: Marked, remark: str = "", digits: int = 0) -> list[tuple[str, Chart]]:
    """Return a chart for each of the other columns; `digits` more than one run needs, where numbers are means."""
    return [
        (
            name,
            Lines(
                title=f"{name.capitalize()} over rounds",
                x_label="round",
                y_label=name,
                series=series,
                marks=marks(key),
                note=f"{what} {remark}".strip(),
                digits=max(DIGITS[key], digits),
            ),
        )
        for key, name, what in FOLLOWED
        if (series := lines(key))
    ]


def switch(label: str, variants: list[tuple[str, Chart]]) -> list[Block]:
    """Return a control over charts; none where there is no chart."""
    return [Switch(label=label, variants=tuple(variants))] if variants else []


def target_marks(levels: set[float]) -> tuple[Mark, ...]:
    """Mark accuracies that were to be reached, given as fractions."""
    return tuple(Mark(at=100 * level, text=f"target {100 * level:g}", axis="y") for level in sorted(levels))
