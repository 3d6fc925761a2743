"""The demonstration that `make demo` runs: methods side by side on real scans of digits, some turned.

Twenty clients hold scikit-learn's digits; in four hidden groups the images are turned by 0, 90, 180 and 270
degrees. One model for all has to learn four alphabets; a client alone has few samples.
"""

from pathlib import Path

import coterie
from coterie.cli.progress import make_progress
from coterie.report import accuracy_plot, result_table

METHODS = ("fedavg", "solo")
OUT = Path("runs/demo")


def main() -> None:
    """Run each method on the same federation, then show a table and draw a picture."""
    results = {
        method: coterie.run(
            algorithm=method,
            dataset="digits-rotated",
            clients=20,
            fraction=0.5,
            rounds=40,
            epochs=2,
            lr=0.05,
            eval_every=4,
            out=str(OUT / method),
            overwrite=True,
            progress=make_progress(),
        )
        for method in METHODS
    }
    print(result_table([result.to_json() for result in results.values()]))
    picture = OUT / "accuracy.png"
    accuracy_plot({name: result.history for name, result in results.items()}, "digits-rotated, 20 clients", picture)
    print(f"Picture: {picture}")


if __name__ == "__main__":
    main()
