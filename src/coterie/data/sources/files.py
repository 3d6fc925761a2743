"""The data sets that are read from ``.npz`` files of their name, in the folder COTERIE_DATA."""

from __future__ import annotations

from coterie.data.federated import Dataset
from coterie.data.folder import find
from coterie.data.readers.npz import read_npz
from coterie.data.registries import dataset

_SUMMARIES = {
    "mnist": "MNIST: handwritten digits, 60,000 + 10,000 grey images of 28 x 28 in 10 classes.",
    "fashion_mnist": "Fashion-MNIST: articles of clothing, 60,000 + 10,000 grey images of 28 x 28 in 10 classes.",
    "usps": "USPS: digits of zip codes, 7,291 + 2,007 grey images of 16 x 16 in 10 classes.",
    "cifar10": "CIFAR-10: objects and animals, 50,000 + 10,000 colour images of 32 x 32 in 10 classes.",
    "cifar100": "CIFAR-100: objects and animals, 50,000 + 10,000 colour images of 32 x 32 in 100 classes.",
    "svhn": "SVHN: house numbers, 73,257 + 26,032 colour images of 32 x 32 in 10 classes.",
}


def _register(name: str, summary: str) -> None:
    def read() -> Dataset:
        return read_npz(find(f"{name}.npz"))

    read.__doc__, read.__qualname__ = summary, name
    dataset(name, file=f"{name}.npz")(read)


for _name, _summary in _SUMMARIES.items():
    _register(_name, _summary)
