"""Whether secure sums cost accuracy: methods with masks and without, on the same seeds of digits-rotated.

    python benchmarks/secure_accuracy.py [--methods fedavg,pacfl,ifca,scaffold] [--clients 20] [--seeds 0-4] ...
    python benchmarks/secure_accuracy.py --methods ifca --hidden

Figures are C in per cent, with all clients in every round; "apart" is that with masks less that without, in points, and
"too few" how often a group kept its model since fewer clients than `secure_min` were in it.
"""

import argparse
from typing import Any

import numpy as np

import coterie
from coterie.run.values import parse_seeds

GROUPED = ("ifca", "pacfl")


def outcome(method: str, seed: int, options: argparse.Namespace, **settings: Any) -> tuple[float, int]:
    """Return C in per cent at the end of a run, and how many sums there were too few clients for."""
    common: dict[str, Any] = {"fraction": 1.0, "rounds": options.rounds, "clients": options.clients, "seed": seed}
    groups = {"groups": 4} if method in GROUPED else {}
    own: dict[str, Any] = {"init_retry": options.init_retry} if method == "ifca" else {}
    own |= {"weights": "equal"} if options.hidden else {}
    result = coterie.run(
        algorithm=method, algorithm_options=own, dataset="digits-rotated", **common, **groups, **settings
    )
    reached = result.accuracy["C"]
    assert reached is not None
    return 100 * reached, sum(event["count"] for event in result.events if event["kind"] == "too few")


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--methods", default="fedavg,pacfl,ifca,scaffold")
    parser.add_argument("--clients", type=int, default=20)
    parser.add_argument("--secure-min", type=int, default=5)
    parser.add_argument("--init-retry", type=int, default=0, help="ifca: new models while too few choose one")
    parser.add_argument("--hidden", action="store_true", help="ifca: nobody learns who chose which; all count alike")
    parser.add_argument("--seeds", default="0-4")
    parser.add_argument("--rounds", type=int, default=20)
    options = parser.parse_args()
    print("| method | without masks | with masks | apart, by seed | mean apart | too few |")
    print("|---|---|---|---|---|---|")
    for method in options.methods.split(","):
        seeds, secure = parse_seeds(options.seeds), {"secure": True, "secure_min": options.secure_min}
        secure |= {"secure_hidden": True} if options.hidden else {}
        plain = np.array([outcome(method, seed, options)[0] for seed in seeds])
        masked, few = np.array([outcome(method, seed, options, **secure) for seed in seeds]).T
        by_seed = ", ".join(f"{difference:+.1f}" for difference in masked - plain)
        figures = f"{plain.mean():.1f} | {masked.mean():.1f} | {by_seed} | {(masked - plain).mean():+.2f}"
        print(f"| {method} | {figures} | {few.sum():.0f} |", flush=True)


if __name__ == "__main__":
    main()
