"""Orders of a data curriculum on CIFAR-10: the table of docs/curriculum.md, after Table 2.2 of the dissertation.

    python examples/curriculum_cifar.py [ROUNDS] [EPOCHS]

FedAvg, LeNet-5, 100 clients by Dir(0.05), 10 of them a round, B = 10, scores by the received model, linear pacing with
a = 0.8 and b = 0.2; the dissertation's optimiser: η = 0.001·(1 + 0.001 s)^-0.75 with s counted anew in every round,
momentum 0.9, weight decay 0.0005. Three seeds. Needs cifar10.npz in the folder COTERIE_DATA. Finished runs under
runs/curriculum are not run again.
"""

import statistics
import sys
from pathlib import Path

import coterie
from coterie.cli.progress import ConsoleProgress
from coterie.report.curricula import order_plot

ORDERS = ("curriculum", "anti", "random", "vanilla")
SEEDS = (0, 1, 2)
PLACE = Path("runs/curriculum")


def one(order: str, seed: int, rounds: int, epochs: int) -> coterie.Result:
    """Run an order with a seed, or read its result if it was run before."""
    folder = PLACE / f"{order}-{rounds}x{epochs}-seed{seed}"
    if (folder / "config.toml").exists():
        return coterie.resume(folder, progress=ConsoleProgress())
    return coterie.run(
        algorithm="fedavg",
        dataset="cifar10",
        partition="dirichlet:alpha=0.05",
        model="lenet5",
        clients=100,
        fraction=0.1,
        rounds=rounds,
        epochs=epochs,
        batch_size=10,
        lr=0.001,
        lr_decay=0.001,
        lr_power=0.75,
        momentum=0.9,
        weight_decay=5e-4,
        curriculum=f"score=G,pacing=linear,a=0.8,b=0.2,order={order}",
        eval_every=5,
        seed=seed,
        out=str(folder),
        progress=ConsoleProgress(),
    )


def spread(values: list[float]) -> str:
    """Write the mean of several fractions, and the standard deviation of this sample, in percent."""
    return f"{100 * statistics.mean(values):.2f} ± {100 * statistics.stdev(values):.2f}"


def main() -> None:
    """Print a row per order, and draw them."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 40
    epochs = int(sys.argv[2]) if len(sys.argv) > 2 else 5
    results: dict[str, list[coterie.Result]] = {order: [] for order in ORDERS}
    for seed in SEEDS:
        for order in ORDERS:
            results[order].append(one(order, seed, rounds, epochs))
    final = {order: [float(run.accuracy["G"] or 0) for run in runs] for order, runs in results.items()}
    late = {
        order: [statistics.mean(row["G"] for row in run.history[-4:]) for run in runs]
        for order, runs in results.items()
    }
    print("| order | G, final | each seed | G, mean of the last four evaluations | each seed | advantage, by seed |")
    print("|---|---|---|---|---|---|")
    for order in ORDERS:
        seeds = [", ".join(f"{100 * value:.2f}" for value in values[order]) for values in (final, late)]
        gains = ", ".join(f"{100 * (x - v):+.2f}" for x, v in zip(late[order], late["vanilla"], strict=True))
        print(f"| {order} | {spread(final[order])} | {seeds[0]} | {spread(late[order])} | {seeds[1]} | {gains} |")
    curricula = {order: {"linear": late[order]} for order in ORDERS if order != "vanilla"}
    order_plot(curricula, late["vanilla"], f"CIFAR-10, Dir(0.05), FedAvg, {rounds} rounds", PLACE / "orders.png")


if __name__ == "__main__":
    main()
