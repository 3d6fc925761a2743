"""What private training costs: accuracy against ε for fedavg, pacfl and ifca, with the membership AUC beside it.

    nice python benchmarks/private_training_accuracy.py --out private-accuracy     # the table of docs/privacy.md

Fashion-MNIST from the folder COTERIE_DATA, 1,000 clients of 57 images in four groups that see images turned by right
angles; `mclr`, all clients in every round, as that has the least noise for its ε. Each cell is run, audited
(`coterie.audit`), and kept as a JSON file in --out: the same command goes on where it was interrupted.
"""

import argparse
import json
import math
import shutil
import sys
import time
from pathlib import Path
from typing import Any

import coterie

METHODS = {"fedavg": (10, "for all"), "pacfl": (5, "given the groups"), "ifca:groups=4": (10, "for all")}
"""Rounds, and what ε is conditional on. Noise of all rounds together grows with rounds times clip, and so does the way
that clipped updates can go: groups have more noise, and go less far."""
DELTA = 1e-4
COMMON: dict[str, Any] = {
    "dataset": "fashion_mnist", "partition": "rotated", "model": "mclr", "fraction": 1.0, "batch_size": 10,
    "eval_every": 0, "eval_clients": 200,
}  # fmt: skip


def measured(method: str, epsilon: float, options: argparse.Namespace) -> dict[str, Any]:
    """Run a method, and attack what its clients received and sent."""
    name = method.split(":")[0]
    kept = Path(options.out) / f"{name}-{epsilon:g}-seed{options.seed}.json"
    if kept.exists():
        return dict(json.loads(kept.read_text(encoding="utf-8")))
    began, folder = time.process_time(), kept.with_suffix("")
    shutil.rmtree(folder, ignore_errors=True)
    private = {} if math.isinf(epsilon) else {"dp_training": f"epsilon={epsilon},delta={DELTA},clip={options.clip}"}
    result = coterie.run(
        {"evaluation": {"plus": False}}, algorithm=method, clients=options.clients, rounds=METHODS[method][0],
        epochs=options.epochs, lr=options.lr, seed=options.seed, workers=options.workers, out=folder, progress=False,
        **COMMON, **private,
    )  # fmt: skip
    audit = coterie.audit(result, clients=options.attacked, progress=False)
    rows = {row.target: row for row in audit.runs[0].findings}
    cell = {
        "method": name,
        "epsilon": None if math.isinf(epsilon) else (result.privacy or [{}])[0]["epsilon"],
        "C": result.accuracy["C"],
        "ari": result.ari,
        "auc": {target: [row.auc, row.auc_error] for target, row in rows.items()},
        "shown": {target: row.proven.epsilon for target, row in rows.items() if row.proven is not None},
        "broken": audit.broken,
        "cpu": time.process_time() - began,
    }
    kept.write_text(json.dumps(cell), encoding="utf-8")
    if not options.keep:
        shutil.rmtree(folder)
    return cell


def main() -> None:
    """Measure what is not there yet, and print the table in Markdown."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", required=True, help="the folder in which cells are kept")
    parser.add_argument("--methods", nargs="+", default=[*METHODS], choices=[*METHODS])
    parser.add_argument("--epsilons", nargs="+", type=float, default=[math.inf, 8, 4, 2, 1])
    parser.add_argument("--clients", type=int, default=1000)
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--lr", type=float, default=0.1)
    parser.add_argument("--clip", type=float, default=2.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--attacked", type=int, default=100, help="clients that are attacked")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--keep", action="store_true", help="keep the run folders, some 60 MB each")
    options = parser.parse_args()
    Path(options.out).mkdir(parents=True, exist_ok=True)
    for epsilon in options.epsilons:
        for method in options.methods:
            cell = measured(method, epsilon, options)
            print(f"{method}, ε = {epsilon:g}: C {100 * cell['C']:.1f} %, {cell['cpu']:.0f} s", file=sys.stderr)
    print("| method | ε for one client | accuracy C, % | AUC, received models | AUC, sent models | ε shown |")
    print("|---|---|---|---|---|---|")
    for method in options.methods:
        for epsilon in options.epsilons:
            print(row(method, measured(method, epsilon, options)))


def row(method: str, cell: dict[str, Any]) -> str:
    """Return a row of the table; below it what attacks disprove."""
    areas = ["{:.3f} ± {:.3f}".format(*cell["auc"][target]) for target in ("received models", "sent models")]
    claimed = "∞" if cell["epsilon"] is None else f"{cell['epsilon']:.2g}, {METHODS[method][1]}"
    numbers = [cell["method"], claimed, f"{100 * cell['C']:.1f}", *areas, f"{cell['shown']['received models']:.2g}"]
    return "\n".join([f"| {' | '.join(numbers)} |", *cell["broken"]])


if __name__ == "__main__":
    main()
