"""Draw the picture of each method's page: how it learns beside FedAvg and SOLO, and who shares a model.

    python docs/methods/draw_methods.py             (all; about two minutes)
    python docs/methods/draw_methods.py pacfl ifca

The federation is that of the demonstration: digits-rotated, 20 clients in four hidden groups.
"""

import sys
from pathlib import Path

import matplotlib
import numpy as np

import coterie
from coterie.algorithms import ALGORITHMS

matplotlib.use("svg")
matplotlib.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "coterie", "font.family": "sans-serif"})
import matplotlib.pyplot as plt  # noqa: E402

HERE = Path(__file__).parent
FEDERATION = {
    "dataset": "digits-rotated",
    "clients": 20,
    "fraction": 0.5,
    "rounds": 40,
    "epochs": 2,
    "lr": 0.05,
    "eval_every": 4,
    "seed": 0,
}
TOLD = {"ifca": 4, "fesem": 4, "fedsoft": 4, "fedgroup": 4, "fedgrouprox": 4}
"""Methods that must be told the number of groups."""
OWN = {"ditto", "mr-mtl", "apfl", "pfedme"}
"""Methods that are about clients' own models: shown under L, though the server has a model too."""
GREY, MUTED, STRONG = "#9a9a9a", "#c9c9c9", "#3f51b5"


def run(method: str) -> coterie.Result:
    """Run one method on the federation of the demonstration."""
    groups = {"groups": TOLD[method]} if method in TOLD else {}
    return coterie.run(algorithm=method, **groups, **FEDERATION)


def curve(method: str, result: coterie.Result) -> tuple[list[int], list[float], str]:
    """Return the rounds, the accuracies in percent, and the protocol: C, or L where that is the point."""
    protocol = "L" if result.accuracy["C"] is None or method in OWN else "C"
    rows = [row for row in result.history if row[protocol] is not None]
    return [row["round"] for row in rows], [100 * row[protocol] for row in rows], protocol


def draw(method: str, result: coterie.Result, others: dict[str, coterie.Result]) -> None:
    """Draw one picture."""
    grouped = result.groups is not None
    figure, axes = plt.subplots(
        1, 1 + grouped, figsize=(8.4 if grouped else 5.6, 3.1), width_ratios=[1.75, 1][: 1 + grouped], squeeze=False
    )
    left = axes[0, 0]
    ends = []
    for name, shown in {**{name: other for name, other in others.items() if name != method}, method: result}.items():
        rounds, values, protocol = curve(name, shown)
        own = name == method
        left.plot(
            rounds,
            values,
            color=STRONG if own else GREY,
            linestyle="--" if name == "solo" and not own else "-",
            linewidth=2.5 if own else 1.5,
            marker="o" if own else None,
            markersize=4,
        )
        ends.append((values[-1], f"{name}, {protocol}", own))
    height = -np.inf
    for value, text, own in sorted(ends):
        height = max(value, height + 3.5)  # names stand one above the other
        colour, weight = (STRONG, "bold") if own else ("#6b6b6b", "normal")
        left.text(rounds[-1] + 0.8, height, text, color=colour, va="center", fontsize=9, weight=weight)
    left.set(xlabel="round", ylabel="accuracy, %", xlim=(2, 52), ylim=(40, 98), xticks=range(0, 41, 10))
    left.spines[["top", "right"]].set_visible(False)
    left.grid(axis="y", color="#ececec")
    if grouped:
        shared(axes[0, 1], result)
    figure.tight_layout()
    figure.savefig(HERE / f"{method}.svg", metadata={"Date": None})
    plt.close(figure)


def shared(axes: plt.Axes, result: coterie.Result) -> None:
    """Show which clients share a group, clients in order of their true groups."""
    truth = np.array(result.true_groups)
    order = np.argsort(truth, kind="stable")
    labels = np.array([-1 if group is None else group for group in result.groups])[order]
    together = (labels[:, None] == labels[None, :]) & (labels >= 0)[:, None]
    axes.imshow(np.where(together, 1.0, np.nan), cmap=matplotlib.colors.ListedColormap([STRONG]), interpolation="none")
    for edge in np.flatnonzero(np.diff(truth[order])) + 0.5:
        axes.axhline(edge, color=MUTED, linewidth=1)
        axes.axvline(edge, color=MUTED, linewidth=1)
    axes.set(xticks=[], yticks=[], xlabel="clients, by true group")
    axes.set_title(f"who shares a group (ARI {result.ari:.2f})", fontsize=9)


def main(methods: list[str]) -> None:
    """Draw the pictures of some methods, or of all."""
    others = {name: run(name) for name in ("fedavg", "solo")}
    for method in methods or sorted(ALGORITHMS):
        print(method, flush=True)
        draw(method, others.get(method) or run(method), others)


if __name__ == "__main__":
    main(sys.argv[1:])
