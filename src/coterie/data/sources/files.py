"""The data sets that come in files: an .npz file of their name, or the original files in a folder of their name."""

from typing import Any

from coterie.data.catalogue import where
from coterie.data.federated import Dataset
from coterie.data.readers.celeba import Attribute, Limit
from coterie.data.readers.celeba import Size as FaceSize
from coterie.data.readers.cifar import Labels
from coterie.data.readers.formats import FORMATS, recognise
from coterie.data.readers.idx import Split
from coterie.data.readers.leaf import Tokens, Vectors
from coterie.data.readers.plays import MinCharacters, Stride
from coterie.data.readers.stl10 import Size
from coterie.data.registries import DATASETS, dataset
from coterie.errors import CoterieError

_PLAIN = {
    "mnist": "MNIST: handwritten digits, 60,000 + 10,000 grey images of 28 x 28 in 10 classes.",
    "fashion_mnist": "Fashion-MNIST: articles of clothing, 60,000 + 10,000 grey images of 28 x 28 in 10 classes.",
    "usps": "USPS: digits of zip codes, 7,291 + 2,007 grey images of 16 x 16 in 10 classes.",
    "cifar10": "CIFAR-10: objects and animals, 50,000 + 10,000 colour images of 32 x 32 in 10 classes.",
    "femnist": "FEMNIST of LEAF: handwritten letters and digits by writer, grey images of 28 x 28 in 62 classes.",
    "svhn": "SVHN: house numbers, 73,257 + 26,032 colour images of 32 x 32 in 10 classes.",
}


def stored(name: str, **options: Any) -> Dataset:
    """Read a data set of the catalogue from where it is; an option that its file cannot have must be the usual one."""
    recognised = recognise(where(name))
    accepted = FORMATS.options(recognised.format)
    for option, value in options.items():
        if option not in accepted and value != DATASETS.options(name)[option].default:
            raise CoterieError(
                f"data set '{name}': {option} = {value!r} has no meaning for {recognised.files.place}: leave it out"
            )
    return recognised.read(name, {option: value for option, value in options.items() if option in accepted})


def _register(name: str, summary: str) -> None:
    def read() -> Dataset:
        return stored(name)

    read.__doc__, read.__qualname__ = summary, name
    dataset(name, file=f"{name}.npz")(read)


for _name, _summary in _PLAIN.items():
    _register(_name, _summary)


@dataset("emnist", file="emnist.npz")
def emnist(*, split: Split = "balanced") -> Dataset:
    """EMNIST: handwritten letters and digits, 112,800 + 18,800 grey images of 28 x 28 in 47 classes (balanced)."""
    return stored("emnist", split=split)


@dataset("cifar100", file="cifar100.npz")
def cifar100(*, labels: Labels = "fine") -> Dataset:
    """CIFAR-100: objects and animals, 50,000 + 10,000 colour images of 32 x 32 in 100 classes."""
    return stored("cifar100", labels=labels)


@dataset("stl10", file="stl10.npz")
def stl10(*, size: Size = 32) -> Dataset:
    """STL-10: objects and animals, 5,000 + 8,000 colour images of 96 x 96, made 32 x 32, in 10 classes."""
    return stored("stl10", size=size)


@dataset("sent140", file="sent140.npz")
def sent140(*, tokens: Tokens = 25, vectors: Vectors = None) -> Dataset:
    """Sent140 of LEAF: tweets by account, 25 words with GloVe's vectors, in 2 classes."""
    return stored("sent140", tokens=tokens, vectors=vectors)


@dataset("shakespeare", file="shakespeare.npz")
def shakespeare(*, min_characters: MinCharacters = 1000, stride: Stride = 10) -> Dataset:
    """Shakespeare's plays by role: windows of 80 characters and the one that follows, in 80 classes."""
    return stored("shakespeare", min_characters=min_characters, stride=stride)


@dataset("celeba", file="celeba.npz")
def celeba(*, attribute: Attribute = "Smiling", size: FaceSize = 32, limit: Limit = None) -> Dataset:
    """CelebA: faces by person, 202,599 colour images, made 32 x 32, in 2 classes by an attribute."""
    return stored("celeba", attribute=attribute, size=size, limit=limit)
