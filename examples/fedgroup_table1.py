"""FedGroup's Table I: how class limits of 1000 MNIST clients change FedAvg's discrepancy and accuracy.

    COTERIE_DATA=... python examples/fedgroup_table1.py [ROUNDS]

1000 clients with 1, 3, 5 or 10 classes each, sizes by a power law, 20 per round, logistic regression, E = 20,
B = 10, η = 0.03, plain SGD. The pixels are standardised one by one, as FedGroup does; it matters: with one mean
and deviation for all pixels the discrepancy does not fall with the number of classes. Accuracy is W: right answers
over all clients' held-out samples.
"""

import statistics
import sys
import tempfile
from pathlib import Path

import numpy as np

import coterie
from coterie.data.catalogue import where
from coterie.data.readers.formats import recognise

PUBLISHED = {
    1: (0.767, 0.11, 87.9, 39),
    3: (0.767, 0.073, 90.9, 14),
    5: (0.685, 0.021, 91.3, 10),
    10: (0.627, 0.0082, 92.2, 4),
}


def standardised(folder: Path) -> str:
    """Write MNIST with every pixel at mean 0 and deviation 1 over all 70,000 images."""
    data = recognise(where("mnist")).read("mnist")
    assert data.test is not None
    train, test = (part.x.reshape(len(part), -1).astype(np.float32) / 255 for part in (data.train, data.test))
    everything = np.concatenate([train, test])
    mean, deviation = everything.mean(0), everything.std(0) + 0.001
    path = folder / "mnist_standardised.npz"
    np.savez(
        path,
        x_train=(train - mean) / deviation, y_train=data.train.y, x_test=(test - mean) / deviation, y_test=data.test.y,
    )  # fmt: skip
    return str(path)


def main() -> None:
    """Run the four settings and print the table, published numbers in brackets (300 rounds)."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 50
    print(f"{rounds} rounds; published, 300 rounds, in brackets")
    print("classes  discrepancy: mean, variance      W: max, median     rounds to 85 %")
    with tempfile.TemporaryDirectory() as folder:
        dataset = standardised(Path(folder))
        for classes, (mean, variance, best, target) in PUBLISHED.items():
            rows = coterie.run(
                dataset=dataset, partition=f"power-law:classes={classes}", model="mclr", clients=1000, fraction=0.02,
                rounds=rounds, epochs=20, batch_size=10, lr=0.03, momentum=0.0, eval_every=1,
            ).history  # fmt: skip
            apart, accuracy = [row["discrepancy"] for row in rows], [100 * row["W"] for row in rows]
            reached = next((row["round"] for row in rows if row["W"] >= 0.85), None)
            print(
                f"{classes:7}  {statistics.mean(apart):.3f} ({mean}), {statistics.pvariance(apart):.4f} ({variance})  "
                f"{max(accuracy):.1f} ({best}), {statistics.median(accuracy):.1f}   {reached} ({target})",
                flush=True,
            )


if __name__ == "__main__":
    main()
