"""Draw the picture of docs/no-settings.md: how clients can differ, what each needs, and what it brings in kept runs.

python docs/assets/draw_corners.py
"""

import sys
from pathlib import Path
from statistics import mean
from typing import NamedTuple

import matplotlib
import numpy as np
from sklearn.datasets import load_digits

matplotlib.use("svg")
matplotlib.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "coterie", "font.family": "sans-serif"})
import matplotlib.pyplot as plt  # noqa: E402
from matplotlib.axes import Axes  # noqa: E402
from matplotlib.patches import FancyBboxPatch  # noqa: E402

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(ROOT / "reproductions"))
from no_settings import percent, read  # noqa: E402

COLOURS = ("#3f51b5", "#e07b39")
ALIKE = [(1, 3, 4, 7)] * 4
FEW = [(3, 4, 3, 4), (4, 7, 4, 7), (3, 4, 4, 3), (7, 4, 7, 4)]
"""Labels of four clients: the first two share one with the last two, so that looks can be compared."""


class Corner(NamedTuple):
    """One way in which clients differ, or not."""

    labels: list[tuple[int, ...]]
    turned: bool
    federation: str
    needs: str


CORNERS = (
    Corner(ALIKE, False, "F: IID", "one model"),
    Corner(ALIKE, True, "F: rotated", "a model per group"),
    Corner(FEW, False, "F: labels 20 %", "one model, and label offsets"),
    Corner(FEW, True, "F: labels 20 %, rotated", "a model per group, and label offsets"),
)


def picture(labels: tuple[int, ...], client: int, turned: bool) -> np.ndarray:
    """Return a client's four samples, two by two, as the client sees them."""
    digits = load_digits()
    seen = []
    for place, label in enumerate(labels):
        image = digits.images[digits.target == label][4 * client + place]
        seen.append(np.pad(np.rot90(image, 1 if turned else 0), 1))
    return np.block([seen[:2], seen[2:]])


def draw(axes: Axes, corner: Corner, accuracy: dict[str, float]) -> None:
    """Draw four clients, the models that they share, and what some methods reach there."""
    axes.set(xlim=(0, 4.4), ylim=(-1.55, 1.15), aspect="equal")
    axes.axis("off")
    centres = []
    for client, labels in enumerate(corner.labels):
        group = int(corner.turned and client >= 2)
        left = 0.05 + 1.1 * client
        box = FancyBboxPatch((left, 0), 1, 1, boxstyle="round,pad=0,rounding_size=0.08", fill=False, lw=2)
        box.set_edgecolor(COLOURS[group])
        axes.add_patch(box)
        seen = picture(labels, client, group == 1)
        axes.imshow(seen, cmap="Greys", extent=(left + 0.1, left + 0.9, 0.1, 0.9), vmax=16, zorder=2)
        centres.append((left + 0.5, group))
    axes.set(xlim=(0, 4.4), ylim=(-1.55, 1.15))
    for group in sorted({group for _, group in centres}):
        places = [x for x, of in centres if of == group]
        middle = mean(places)
        for x in places:
            axes.plot([x, middle], [-0.02, -0.4], color=COLOURS[group], lw=1.2, zorder=1)
        axes.plot(middle, -0.42, "o", ms=13, color=COLOURS[group], zorder=3)
        axes.text(middle, -0.44, "θ", color="white", ha="center", va="center", fontsize=9, zorder=4)
    axes.text(2.2, -0.85, corner.needs, ha="center", va="center", fontsize=10, weight="bold")
    told = "   ·   ".join(f"{name} {value:.1f}" for name, value in accuracy.items())
    axes.text(2.2, -1.2, told, ha="center", va="center", fontsize=9, color="#555555")


def main() -> None:
    """Draw all four."""
    runs = read("no-settings", ROOT / "reproductions" / "no-settings")
    figure, grid = plt.subplots(2, 2, figsize=(9.4, 5.9))
    for axes, corner in zip(grid.flat, CORNERS, strict=True):
        row = runs[corner.federation]
        named = {"FedAvg": "fedavg", "with offsets": "fedavg-labels", "PACFL": "pacfl", "kindred": "kindred"}
        draw(axes, corner, {name: mean(percent(row[method], "C")) for name, method in named.items()})
    for axes, title in zip(grid[0], ("the same label looks the same", "the same label looks different"), strict=True):
        axes.set_title(title, fontsize=11, pad=10)
    for axes, title in zip(grid[:, 0], ("labels are alike", "labels differ"), strict=True):
        axes.text(-0.25, 0.5, title, rotation=90, ha="center", va="center", fontsize=11)
    figure.text(0.5, 0.02, "Below each: C in %, Fashion-MNIST, 100 clients, seed 0", ha="center", fontsize=9)
    figure.subplots_adjust(left=0.05, right=0.99, top=0.93, bottom=0.06, wspace=0.06, hspace=0.08)
    figure.savefig(HERE / "corners.svg", metadata={"Date": None})
    if len(sys.argv) > 1:
        figure.savefig(sys.argv[1], dpi=110)


if __name__ == "__main__":
    main()
