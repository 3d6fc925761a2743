"""All methods on Fashion-MNIST with skewed labels, and how newcomers fare: the table of docs/results.md.

    python examples/methods_on_fashion.py [ROUNDS] [METHOD ...]

100 clients with 20 % of the labels each, LeNet-5, 10 clients a round, E = 5, B = 10, η = 0.01, momentum 0.5, seed 0;
then the same with 20 clients held back until training is over. Needs fashion_mnist.npz in the folder COTERIE_DATA.
Finished runs under runs/fashion are not run again.
"""

import sys
from pathlib import Path
from typing import Any

import coterie
from coterie.cli.progress import make_progress

METHODS: dict[str, dict[str, Any]] = {
    "fedavg": {},
    "fedprox": {},
    "fednova": {},
    "scaffold": {},
    "solo": {},
    "ifca": {"groups": 2},
    "cfl": {},
    "fesem": {},
    "fesem (k-means)": {"algorithm_options": {"init": "k-means"}},
    "fedsoft": {},
    "fedgroup": {},
    "fedgrouprox": {},
    "flis-dc": {},
    "flis-hc": {},
    "pacfl": {},
    "pacfl (4 groups)": {"groups": 4},
    "flag": {},
}


def one(label: str, rounds: int, **settings: Any) -> coterie.Result:
    """Run a method, or read its result if it was run before."""
    folder = Path("runs/fashion") / f"{label.replace(' ', '-')}-{rounds}{'-newcomers' if settings else ''}"
    if (folder / "config.toml").exists():
        return coterie.resume(folder, progress=make_progress())
    return coterie.run(
        algorithm=label.split()[0],
        dataset="fashion_mnist",
        partition="label-skew:rho=0.2",
        model="lenet5",
        clients=100,
        fraction=0.1,
        rounds=rounds,
        epochs=5,
        eval_every=10,
        out=str(folder),
        progress=make_progress(),
        **METHODS[label],
        **settings,
    )


def percent(value: float | None) -> str:
    """Write a fraction."""
    return "–" if value is None else f"{100 * value:.2f}"


def main() -> None:
    """Print a row per method."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 50
    rows = []
    for label in sys.argv[2:] or METHODS:
        result, late = one(label, rounds), one(label, rounds, newcomers=0.2)
        groups = "–" if result.groups is None else str(len({g for g in result.groups if g is not None}))
        traffic = result.traffic["up_bytes"] + result.traffic["down_bytes"]
        assert late.newcomers is not None
        newcomers = late.newcomers["accuracy"]
        founded = "–" if late.groups is None else str(len(late.newcomers["founded"]))
        rows.append(
            f"| `{label}` | {' | '.join(percent(result.accuracy[p]) for p in ('L', 'C', 'G', 'plus'))} | {groups} | "
            f"{traffic / 1e6:.0f} | {result.seconds:.0f} | {percent(newcomers['L'])} | {percent(newcomers['C'])} | "
            f"{founded} |"
        )
    print("| method | L | C | G | + | groups | MB | seconds | newcomers: L | C | founded |")
    print("|---|" + "---|" * 10)
    print("\n".join(rows))


if __name__ == "__main__":
    main()
