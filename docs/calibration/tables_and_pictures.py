"""How the parts print their tables, draw their pictures and say what data they miss."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from measuring import RULES

from coterie.data import is_here
from coterie.report.static import COLOURS, MARKERS

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

STYLE: dict[str, dict[str, Any]] = {
    rule: {"color": COLOURS[i], "marker": MARKERS[i], "markersize": 5} for i, rule in enumerate(RULES)
}
STYLE["gap"] |= {"markersize": 9, "markerfacecolor": "none"}  # visible below the silhouette, which often agrees


def table(title: str, head: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Print a Markdown table; numbers with two digits behind the point."""
    print(f"\n**{title}**\n\n| {' | '.join(head)} |\n|{'---|' * len(head)}")
    for row in rows:
        print("| " + " | ".join(f"{cell:.2f}" if isinstance(cell, float) else str(cell) for cell in row) + " |")
    sys.stdout.flush()


def missing(*names: str) -> bool:
    """Say which data are not here; return whether there are such."""
    absent = [name for name in names if not is_here(name)]
    if absent:
        print(f"\n(left out: {', '.join(absent)} not in the folder that COTERIE_DATA names)")
    return bool(absent)


def canvas(width: float, height: float, panels: int) -> tuple[Figure, list[Axes]]:
    """Return a picture with axes side by side."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    with rc_context({"font.size": 9}):
        figure = Figure(figsize=(width, height), layout="constrained")
        axes = [figure.add_subplot(1, panels, i + 1) for i in range(panels)]
    for one in axes:
        one.grid(alpha=0.3)
        one.spines[["top", "right"]].set_visible(False)
    return figure, axes
