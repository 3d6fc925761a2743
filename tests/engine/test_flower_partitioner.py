"""Our partitions as partitioners of Flower Datasets."""

from typing import Any

import numpy as np
import pytest

pytest.importorskip("flwr_datasets", reason="needs the extra: pip install 'coterie[flower-datasets]'")

import datasets
from flwr_datasets.partitioner import IidPartitioner

from coterie.data import PARTITIONS, load
from coterie.engine.flower.partitioner import CoteriePartitioner
from coterie.errors import CoterieError


@pytest.fixture(scope="module")
def digits() -> Any:
    data = load("digits", clients=1, seed=0).train
    return datasets.Dataset.from_dict(
        {"image": data.x[:, 0], "label": data.y, "writer": [f"w{k % 40}" for k in range(len(data.y))]},
        features=datasets.Features(
            {
                "image": datasets.Array2D((8, 8), "uint8"),
                "label": datasets.ClassLabel(num_classes=10),
                "writer": datasets.Value("string"),
            }
        ),
    )


def divided(dataset: Any, *arguments: Any, **settings: Any) -> CoteriePartitioner:
    made = CoteriePartitioner(*arguments, **settings)
    made.dataset = dataset
    return made


def test_labels_are_skewed_and_nothing_is_lost(digits: Any) -> None:
    made = divided(digits, "label-skew", 20, {"rho": 0.2}, seed=3)
    parts = [made.load_partition(k) for k in range(made.num_partitions)]
    assert all(len(set(part["label"])) == 2 for part in parts)
    assert sum(map(len, parts)) == len(digits)
    again = divided(digits, "label-skew", 20, {"rho": 0.2}, seed=3)
    assert all(part["label"] == again.load_partition(k)["label"] for k, part in enumerate(parts))
    other = divided(digits, "label-skew", 20, {"rho": 0.2}, seed=4)
    assert any(part["label"] != other.load_partition(k)["label"] for k, part in enumerate(parts))


@pytest.mark.parametrize("name", sorted(set(PARTITIONS) - {"rotated", "permuted", "femnist-200", "given-labels"}))
def test_every_partition_that_only_divides(digits: Any, name: str) -> None:
    made = divided(digits, name, 10, user="writer", inputs="image")
    parts = [made.load_partition(k) for k in range(10)]
    assert len(parts) == 10
    assert all(isinstance(part, datasets.Dataset) and part.column_names == digits.column_names for part in parts)
    assert made.true_groups is None or len(made.true_groups) == 10


def test_users_stay_together(digits: Any) -> None:
    made = divided(digits, "by-user", 40, user="writer")
    assert sorted(set(made.load_partition(k)["writer"]).pop() for k in range(40)) == sorted(f"w{k}" for k in range(40))


def test_labels_that_are_words(digits: Any) -> None:
    named = digits.remove_columns("label").add_column("kind", [f"kind {k % 3}" for k in range(len(digits))])
    made = divided(named, "label-skew", 6, {"rho": 0.34}, partition_by="kind")
    assert all(len(set(made.load_partition(k)["kind"])) == 1 for k in range(6))


def test_it_is_used_as_those_of_flower_are(digits: Any) -> None:
    ours, theirs = divided(digits, "iid", 7), IidPartitioner(num_partitions=7)
    theirs.dataset = digits
    sizes = [[len(made.load_partition(k)) for k in range(made.num_partitions)] for made in (ours, theirs)]
    assert np.ptp(sizes[0]) <= 1
    assert sum(sizes[0]) == sum(sizes[1])


@pytest.mark.parametrize(
    ("arguments", "settings", "told"),
    [
        (("label-skew", 5, {"rho": 2}), {}, "rho"),
        (("lable-skew", 5), {}, "did you mean 'label-skew'"),
        (("rotated", 5), {}, "in different ways, which Flower Datasets has no place for"),
        (("label-skew", 5, {"rho": 0.2}), {"partition_by": "class"}, "no column 'class': there are image, label"),
        (("iid", 99_999), {}, "can't be divided into 99999 partitions"),
        (("sc-niid", 5), {}, r"looks at images: name their column, inputs='image'"),
    ],
)
def test_mistakes_are_told(digits: Any, arguments: Any, settings: Any, told: str) -> None:
    with pytest.raises(CoterieError, match=told):
        divided(digits, *arguments, **settings).load_partition(0)
    with pytest.raises(ValueError, match="0 to 4, not 5"):
        divided(digits, "iid", 5).load_partition(5)
