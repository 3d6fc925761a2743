"""Results as pictures."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from coterie.results.protocols import FOLLOWED

# Okabe and Ito's palette, which colour-blind people can tell apart
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
STYLES = dict(zip(FOLLOWED, ("-", "--", ":"), strict=True))
MARKERS = "os^Dv*P"


def accuracy_plot(histories: Mapping[str, Sequence[Mapping[str, Any]]], title: str, path: Path) -> None:
    """Draw accuracy over rounds: a colour per method, a line style per protocol."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7.2, 4.2), layout="constrained")
    axes = figure.add_subplot()
    for number, (method, history) in enumerate(histories.items()):
        for protocol, style in STYLES.items():
            points = [(row["round"], 100 * row[protocol]) for row in history if row[protocol] is not None]
            if points:
                axes.plot(
                    *zip(*points, strict=True),
                    style,
                    color=COLOURS[number % len(COLOURS)],
                    marker=MARKERS[number % len(MARKERS)],
                    markersize=4,
                    linewidth=1.6,
                    label=f"{method} ({protocol})",
                )
    axes.set(xlabel="round", ylabel="accuracy (%)", title=title)
    axes.grid(alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)
    if axes.get_legend_handles_labels()[0]:
        axes.legend(loc="upper left", bbox_to_anchor=(1.01, 1), frameon=False)
    figure.savefig(path, dpi=130)
