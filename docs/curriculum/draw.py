"""Make two pictures of docs/curriculum.md: pacing, and consistency on CIFAR-10.

    python docs/curriculum/draw.py

The third, orders.png, comes from examples/curriculum_cifar.py. Needs cifar10.npz in the folder COTERIE_DATA; it trains
an expert twice, some minutes in all.
"""

from pathlib import Path

from coterie.report.curricula import consistency_plot, pacing_plot
from coterie.run.building import consistency
from coterie.run.settings import settings_to_config
from coterie.studies.curricula import pacing_curves

HERE = Path(__file__).parent
CIFAR = {
    "dataset": "cifar10",
    "partition": "dirichlet:alpha=0.05",
    "model": "lenet5",
    "clients": 100,
    "lr": 0.001,
    "lr_decay": 0.001,
    "momentum": 0.9,
    "weight_decay": 5e-4,
    "expert_epochs": 10,
}


def main() -> None:
    """Draw both."""
    pacing_plot(pacing_curves(a=0.8, b=0.2), "How the pool grows (a = 0.8, b = 0.2)", HERE / "pacing.png")
    deviations = {
        f"f_ord = {f_ord}": consistency(settings_to_config(None, {**CIFAR, "f_ord": f_ord})) for f_ord in (0, 1)
    }
    consistency_plot(deviations, "CIFAR-10, Dir(0.05), 100 clients", HERE / "consistency.png")
    for name, values in deviations.items():
        print(f"{name}: {values.mean():.2f}")


if __name__ == "__main__":
    main()
