"""Pruning on MNIST: the table of docs/results.md, after the dissertation's table of Sub-FedAvg (its chapter 4).

    python examples/sub_fedavg_mnist.py [ROUNDS]

100 clients with two shards of 250 samples each, 10 of them a round, E = 5, B = 10, η = 0.01, momentum 0.5; Sub-FedAvg
prunes to 50 %. (Hy) trains the network of the others, of 21,840 parameters, with batch normalisation, on PyTorch. Needs
mnist.npz in the folder COTERIE_DATA. Finished runs under runs/sub_fedavg are not run again.
"""

import sys
from pathlib import Path

import coterie
from coterie.cli.progress import ConsoleProgress
from coterie.report.figures import pruning_plot
from coterie.results.costs import sub_fedavg_bytes

ROWS = (
    ("sub-fedavg-un", "cnn"),
    ("fedavg", "cnn"),
    ("solo", "cnn"),
    ("sub-fedavg-hy", "cnn-bn"),
)
PARAMETERS = {"cnn": 21_840, "cnn-bn": 21_900}
PLACE = Path("runs/sub_fedavg")


def one(method: str, network: str, rounds: int) -> coterie.Result:
    """Run a method with a network, or read its result if it was run before."""
    folder = PLACE / f"{method}-{network}-{rounds}"
    if (folder / "config.toml").exists():
        return coterie.resume(folder, progress=ConsoleProgress())
    return coterie.run(
        algorithm=method,
        dataset="mnist",
        partition="shards:size=250",
        model=network,
        clients=100,
        fraction=0.1,
        rounds=rounds,
        epochs=5,
        batch_size=10,
        lr=0.01,
        momentum=0.5,
        eval_every=5,
        seed=0,
        out=str(folder),
        progress=ConsoleProgress(),
    )


def main() -> None:
    """Print a row per method and network, and draw accuracy against what was pruned."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 100
    print("| method | network | L | C | + | pruned, mean | megabytes | by the paper's formula |\n" + "|---" * 8 + "|")
    for method, network in ROWS:
        result = one(method, network, rounds)
        pruned = (result.details or {}).get("pruned", 0.0)
        accuracies = " | ".join(
            "–" if (value := result.accuracy[protocol]) is None else f"{100 * value:.2f}"
            for protocol in ("L", "C", "plus")
        )
        sent = (result.traffic["up_bytes"] + result.traffic["down_bytes"]) / 1e6
        paper = 0.0 if method == "solo" else sub_fedavg_bytes(rounds, 10, PARAMETERS[network], pruned) / 1e6
        print(f"| {method} | {network} | {accuracies} | {100 * pruned:.1f} % | {sent:.1f} | {paper:.1f} |", flush=True)
        if pruned:
            pruning_plot(result.history, f"MNIST, two shards, {method}", PLACE / f"{method}.png")


if __name__ == "__main__":
    main()
