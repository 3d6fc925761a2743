"""Is the advice of ``coterie inspect`` right? Each federation is inspected, and trained as advised and in other ways.

    python examples/advice_on_digits.py [SEEDS]

prints a row per federation: the advice, and the accuracy of what each client would use: the model it receives from the
method that is advised (C), the one model of all (fedavg, C), the model of its group by whatever differs (pacfl, C), its
own after training alone (solo, L); means over seeds, in %.
"""

import sys

import numpy as np

import coterie
from coterie.inspect.inspection import inspect
from coterie.run.settings import settings_to_config

DISJOINT = "given-labels:labels=0+1/2+3/4+5/6+7/8+9"
FEDERATIONS = [
    ("digits", "iid", 20),
    ("digits-rotated", None, 4),
    ("digits-rotated", None, 8),
    ("digits-rotated", None, 20),
    ("digits", DISJOINT, 5),
    ("digits", DISJOINT, 20),
    ("digits", "label-skew:rho=0.2", 6),
    ("digits", "label-skew:rho=0.2", 20),
    ("digits", "label-skew:rho=0.3", 10),
    ("digits", "label-skew:rho=0.3", 20),
    ("digits", "label-skew:rho=0.5", 10),
    ("digits", "label-skew:rho=0.5", 20),
    ("digits", "dirichlet:alpha=0.1", 10),
    ("digits", "dirichlet:alpha=0.1", 20),
    ("digits", "dirichlet:alpha=0.5", 10),
    ("digits", "dirichlet:alpha=0.5", 20),
    ("digits", "dirichlet:alpha=2.0", 20),
]
TRAINING = {"rounds": 40, "epochs": 2, "fraction": 0.5, "lr": 0.05, "eval_every": 0}


def main() -> None:
    """Print the table."""
    seeds = range(int(sys.argv[1]) if len(sys.argv) > 1 else 2)
    print("| federation | clients | advice | as advised | fedavg | pacfl | solo |\n|---|---|---|---|---|---|---|")
    for dataset, partition, clients in FEDERATIONS:
        given: dict[str, int] = {}
        scores = []
        for seed in seeds:
            settings = {"dataset": dataset, "clients": clients, "seed": seed}
            if partition:
                settings["partition"] = partition
            advice = inspect(settings_to_config(None, settings, method="pacfl"), measures="labels").advice
            text = f"cluster ({advice.groups})" if advice.choice == "cluster" else advice.choice
            text += ", offsets" if advice.offsets else ""
            given[text] = given.get(text, 0) + 1
            advised = advice.command.split()[3]
            trained = {
                method: coterie.run(algorithm=method, **settings, **TRAINING).accuracy["L" if method == "solo" else "C"]
                for method in {advised: 0, "fedavg": 0, "pacfl": 0, "solo": 0}
            }
            scores.append([trained[method] for method in (advised, "fedavg", "pacfl", "solo")])
        means = " | ".join(f"{100 * score:.1f}" for score in np.mean(scores, axis=0))
        told = ", ".join(
            text + (f" × {times}" if len(given) > 1 and times > 1 else "") for text, times in given.items()
        )
        name = dataset if partition is None else partition
        print(f"| {name} | {clients} | {told} | {means} |", flush=True)


if __name__ == "__main__":
    main()
