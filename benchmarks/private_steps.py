"""What privacy for one sample costs in accuracy: C of fedavg and pacfl against ε of --dp-sgd.

    python benchmarks/private_steps.py                       # the table of docs/privacy.md
    python benchmarks/private_steps.py --epsilons 4 --clients 40 --seeds 3

Fashion-MNIST in four rotations, from the folder COTERIE_DATA; a perceptron; every client trains in every round, one
epoch of steps in which each sample is with probability 0.1. Clients of pacfl describe themselves with the same ε
(--dp-signature) before; in brackets, the ε of both together. Without noise the gradient of a batch is clipped instead.
"""

import argparse
from typing import Any

import numpy as np

import coterie


def measure(method: str, epsilon: float | None, seed: int, wanted: argparse.Namespace) -> coterie.Result:
    """Run a method with an ε; None: without noise."""
    private: dict[str, Any] = (
        {"gradient_clip": 1.0} if epsilon is None else {"dp_sgd": f"epsilon={epsilon:g},clip=1,rate=0.1"}
    )
    if epsilon is not None and method == "pacfl":
        private["dp_signature"] = f"epsilon={epsilon:g}"
    return coterie.run(
        dataset="fashion_mnist", partition="rotated", clients=wanted.clients, model="mlp",
        model_options={"hidden": 32}, algorithm=method, rounds=wanted.rounds, fraction=1.0, epochs=1,
        batch_size=round(5700 / wanted.clients), lr=wanted.lr, momentum=0.0,
        eval_every=0, plus=False, seed=seed, **private,
    )  # fmt: skip


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--methods", nargs="+", default=["fedavg", "pacfl"])
    parser.add_argument("--epsilons", type=float, nargs="+", default=[8, 4, 2, 1])
    parser.add_argument("--clients", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--lr", type=float, default=0.5)
    parser.add_argument("--seeds", type=int, default=2)
    wanted = parser.parse_args()
    for method in wanted.methods:
        for epsilon in (None, *wanted.epsilons):
            results = [measure(method, epsilon, seed, wanted) for seed in range(wanted.seeds)]
            accuracy = [result.accuracy["C"] or 0.0 for result in results]
            spent = [max(entry["epsilon"] for entry in result.privacy or [{"epsilon": 0.0}]) for result in results]
            groups = [len({*result.groups}) if result.groups else 1 for result in results]
            print(
                f"{method}, ε = {epsilon or '∞'}: C {np.mean(accuracy):.3f} ({max(spent):.1f}), "
                f"groups {np.mean(groups):g}",
                flush=True,
            )


if __name__ == "__main__":
    main()
