"""PyTorch's data sets become arrays, sample by sample."""

from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import Dataset, IterableDataset, TensorDataset

from coterie.data.in_memory import hold
from coterie.errors import CoterieError

X, Y = torch.randn(40, 3, generator=torch.Generator().manual_seed(0)), torch.arange(40) % 4


class Pairs(Dataset[tuple[Any, Any]]):
    def __init__(self, x: Any, y: Any) -> None:
        self.x, self.y = x, y

    def __len__(self) -> int:
        return len(self.y)

    def __getitem__(self, position: int) -> tuple[Any, Any]:
        return self.x[position], self.y[position]


class Endless(IterableDataset[int]):
    def __iter__(self) -> Any:
        return iter(range(3))


@pytest.mark.parametrize(
    "given",
    [
        TensorDataset(X, Y),
        Pairs(X, Y),
        Pairs(X.numpy(), Y.tolist()),
        torch.utils.data.Subset(TensorDataset(X, Y), range(40)),
    ],
)
def test_a_data_set_is_its_arrays(given: Any) -> None:
    data = hold(given).read()
    assert np.array_equal(data.train.x, X.numpy())
    assert np.array_equal(data.train.y, Y.numpy())
    assert hold(given) is hold((X.numpy(), Y.numpy()))


def test_a_pair_is_to_train_and_test_on() -> None:
    data = hold((TensorDataset(X[:30], Y[:30]), Pairs(X[30:], Y[30:]))).read()
    assert data.test is not None
    assert np.array_equal(data.test.x, X[30:].numpy())
    assert len(data.train) == 30


def test_texts_as_labels_are_named() -> None:
    assert hold(Pairs(X, ["b", "a"] * 20)).read().class_names == ("a", "b")


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        (Endless(), "IterableDataset has no number of samples"),
        (TensorDataset(X), "of 1 tensors: give two"),
        (Pairs(X, X), "label of shape"),
        (Pairs([X[0], X[1][:2]], [0, 1]), "2 shapes"),
        (Pairs(X[:0], []), "no samples"),
        (TensorDataset(X.bfloat16(), Y), r"a tensor of torch\.bfloat16.* is no array: convert it"),
        (Pairs(X.bfloat16(), Y), r"a tensor of torch\.bfloat16"),
        (Pairs(X, torch.rand(40) > 0.5), "labels must be integers"),
    ],
)
def test_what_does_not_fit_is_refused_in_a_sentence(given: Any, reason: str) -> None:
    with pytest.raises(CoterieError, match=reason):
        hold(given)
