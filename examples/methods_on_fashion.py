"""All methods on Fashion-MNIST with skewed labels, and how newcomers fare: the table of docs/results.md.

    python examples/methods_on_fashion.py [ROUNDS] [METHOD ...]

100 clients with 20 % of the labels each, LeNet-5, 10 clients a round, E = 5, B = 10, η = 0.01, momentum 0.5, seed 0;
then the same with 20 clients held back until training is over. Needs fashion_mnist.npz in the folder COTERIE_DATA.
Finished runs under runs/fashion are not run again.
"""

import sys
from typing import Any

import coterie
from coterie.cli.progress import ConsoleBatchProgress

METHODS = (
    *("fedavg", "fedprox", "fednova", "scaffold", "solo", "ifca:groups=2", "cfl", "fesem", "fesem:init=random"),
    *("fedsoft", "fedgroup", "fedgrouprox", "flis-dc", "flis-hc", "pacfl", "pacfl:groups=4", "flag"),
)


def compared(methods: list[str], rounds: int, name: str, **settings: Any) -> coterie.Comparison:
    """Run the methods that were not run before."""
    return coterie.compare(
        algorithms=methods,
        seeds=[0],
        dataset="fashion_mnist",
        partition="label-skew:rho=0.2",
        model="lenet5",
        clients=100,
        fraction=0.1,
        rounds=rounds,
        epochs=5,
        eval_every=10,
        out=f"runs/fashion/{name}-{rounds}",
        progress=ConsoleBatchProgress(),
        **settings,
    )


def percent(value: float | None) -> str:
    """Write a fraction."""
    return "–" if value is None else f"{100 * value:.2f}"


def main() -> None:
    """Print a row per method."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 50
    methods = sys.argv[2:] or list(METHODS)
    here, late = compared(methods, rounds, "all"), compared(methods, rounds, "newcomers", newcomers=0.2)
    print("| method | L | C | G | + | groups | MB | seconds | newcomers: L | C | founded |")
    print("|---|" + "---|" * 10)
    for label in methods:
        row, result = here.table()[label], late.results[label][0]
        assert result.newcomers is not None
        assert row.megabytes is not None
        assert row.seconds is not None
        accuracies = [found and found.mean for found in row.accuracy.values()]
        newcomers = result.newcomers["accuracy"]
        founded = "–" if result.groups is None else str(len(result.newcomers["founded"]))
        print(
            f"| `{label}` | {' | '.join(map(percent, accuracies))} | "
            f"{'–' if row.groups is None else f'{row.groups.mean:g}'} | {row.megabytes.mean:.0f} | "
            f"{row.seconds.mean:.0f} | {percent(newcomers['L'])} | {percent(newcomers['C'])} | {founded} |"
        )


if __name__ == "__main__":
    main()
