"""Curves on pages: accuracy over rounds and against megabytes, and what else is followed from round to round."""

from collections.abc import Callable, Sequence

from coterie.results.charts import Bars, Block, Chart, Lines, Mark, Series, Switch, values
from coterie.results.metrics import capital, scale
from coterie.results.protocols import CURVES, PROTOCOLS
from coterie.results.statistics import Spread

FOLLOWED = (
    ("loss", "training loss", 3, "Mean over the local steps of the clients that trained."),
    ("groups", "number of groups", 0, "At each evaluation."),
    ("discrepancy", "discrepancy", 3, "How far clients' models are from what they would receive (FedGroup, Eq. 4)."),
)
"""Columns of the metrics other than accuracies: key, name, digits, and what they are."""

Drawn = Callable[[str], tuple[Series, ...]]
"""Gives the lines of a column of the metrics; none where nobody has numbers."""
Marked = Callable[[str], tuple[Mark, ...]]


def accuracies(
    metric: str, lines: Drawn, marks: Marked, remark: str = "", megabytes: str | None = None
) -> list[tuple[str, Chart]]:
    """Return a chart of the metric per protocol that anybody has: over rounds, or what `megabytes` names."""
    over = "over rounds" if megabytes is None else "against megabytes"
    remarks = remark if megabytes is None else f"Evaluation is not counted. {remark}"
    return [
        (
            protocol.symbol,
            Lines(
                title=f"{capital(metric)} {protocol.symbol} {over}",
                x_label=megabytes or "round",
                y_label=f"{metric} {protocol.symbol}{scale(metric).unit}",
                series=series,
                marks=marks(key),
                note=f"{protocol.symbol}: {protocol.sentence}. {remarks}".strip(),
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
                note=f"{description} {remark}".strip(),
                digits=max(decimals, digits),
            ),
        )
        for key, name, decimals, description in FOLLOWED
        if (series := lines(key))
    ]


def switch(label: str, variants: list[tuple[str, Chart]]) -> list[Block]:
    """Return a control over charts; none where there is no chart."""
    return [Switch(label=label, variants=tuple(variants))] if variants else []


def target_marks(levels: set[float], factor: float) -> tuple[Mark, ...]:
    """Mark accuracies that were to be reached, given as in files; they are shown times a factor."""
    return tuple(Mark(at=factor * level, text=f"target {factor * level:g}", axis="y") for level in sorted(levels))


def mean_series(name: str, spreads: Sequence[Spread | None], factor: float = 1, slot: int | None = None) -> Series:
    """Return means as bars or points of a line, with a standard deviation to each side where there is one."""
    ends = [[None if s is None or s.std is None else s.mean + sign * s.std for s in spreads] for sign in (-1, 1)]
    low, high = (values(end, factor) if any(number is not None for number in end) else () for end in ends)
    return Series(name=name, y=values((s and s.mean for s in spreads), factor), low=low, high=high, slot=slot)


def final_accuracy(
    metric: str, x_label: str, categories: Sequence[str], series: Series, remark: str = ""
) -> tuple[str, Chart]:
    """Return a chart of the metric after fine-tuning, which no round has."""
    chart = Bars(
        title=f"{capital(metric)} + at the end",
        x_label=x_label,
        y_label=f"{metric} +{scale(metric).unit}",
        categories=tuple(categories),
        series=(series,),
        note=f"+: {PROTOCOLS['plus'].sentence}. It is measured once, after the last round. {remark}".strip(),
    )
    return "+", chart
