"""What every data source resolves to: clients with training and test parts, the server's set, and a normalisation."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from coterie.data.on_demand import choose
from coterie.data.tables.encoding import TableEncoding

Array = npt.NDArray[Any]
Index = npt.NDArray[np.int64]
Normaliser = Callable[[Array], npt.NDArray[np.float32]]
"""From raw inputs, (n, *shape), to what networks see, (n, *another shape)."""


@dataclass(frozen=True)
class Samples:
    """Raw inputs (n, *shape), in the units of their source, and labels (n,) that start at 0.

    Where numbers are to be predicted, `y` holds floats instead. Either may be a `LazyArray`, which is indexed as an
    array is; `np.asarray` takes all of it into memory.
    """

    x: Array
    y: Array

    def __len__(self) -> int:
        return len(self.y)

    def __getitem__(self, index: Any) -> "Samples":
        return Samples(self.x[index], self.y[index])

    def chosen(self, positions: Index) -> "Samples":
        """Return the samples at positions, without reading inputs that are in a file."""
        return Samples(choose(self.x, positions), self.y[positions])


@dataclass(frozen=True)
class Normalisation:
    """From raw inputs to what networks see: ``(x / scale - mean) / std``, per channel for images."""

    scale: float
    mean: tuple[float, ...]
    std: tuple[float, ...]

    def __call__(self, raw: Array) -> npt.NDArray[np.float32]:
        """Return raw inputs, (n, channels, height, width) or (n, features), normalised."""
        std = np.asarray(self.std, np.float32)
        factor: npt.NDArray[np.float32] = np.float32(1.0) / (np.float32(self.scale) * std)
        offset: npt.NDArray[np.float32] = np.asarray(self.mean, np.float32) / std
        x = raw.astype(np.float32)
        by_pixel = x.transpose(0, 2, 3, 1) if x.ndim == 4 else x  # most images lie so in memory
        if x.ndim == 4 and len(x) and by_pixel.flags.c_contiguous:
            rows = by_pixel.reshape(len(x), -1)  # long rows of factors, instead of three at a time
            repeats = rows.shape[1] // len(factor)
            rows *= np.tile(factor, repeats)
            rows -= np.tile(offset, repeats)
            return x
        per_channel = (1, -1) + (1,) * (raw.ndim - 2)
        x *= factor.reshape(per_channel)
        x -= offset.reshape(per_channel)
        return x


@dataclass(frozen=True)
class Dataset:
    """A pooled, labelled data set, before it is divided among clients."""

    name: str
    train: Samples
    test: Samples | None
    classes: int
    normalisation: Normaliser | None = None
    """None: made from the server's set when the data are divided."""
    users: npt.NDArray[np.int64] | None = None
    """Who made each training sample, where that is known."""
    attributes: npt.NDArray[np.bool_] | None = None
    """What else each training sample has or lacks, where that is known, (n, attributes)."""
    attribute_names: tuple[str, ...] = ()
    """Of the columns of `attributes`; none: they go by their numbers."""
    class_names: tuple[str, ...] = ()
    """What the labels stand for, in their order; none: it is not known."""
    encoding: TableEncoding | None = None
    """How rows became inputs, where it is made of a table."""
    notes: tuple[str, ...] = ()
    """What the user should know of how it was read, a sentence each."""
    user_names: tuple[str, ...] = ()
    """What `users` are called, by their numbers; none: it is not known."""

    @property
    def of_numbers(self) -> bool:
        """Whether numbers are to be predicted, not classes; there is then one output, and `classes` is 1."""
        return self.train.y.dtype.kind == "f"

    @property
    def shape(self) -> tuple[int, ...]:
        """Of one raw input: (channels, height, width), (features,), or (length,) for text."""
        return tuple(self.train.x.shape[1:])


@dataclass(frozen=True)
class Phase:
    """From a round on the clients hold other samples: concept drift."""

    start: int
    train_parts: Sequence[Index]
    test_parts: Sequence[Index]
    true_groups: npt.NDArray[np.int64] | None = None


@dataclass(frozen=True)
class FederatedData:
    """A data set divided among clients."""

    name: str
    classes: int
    train: Samples
    test: Samples
    train_parts: Sequence[Index]
    """Per client, positions in `train`."""
    test_parts: Sequence[Index]
    """Per client, positions in `test`."""
    common_test: bool
    """True: `test` is a test set for all, in which the clients' parts may overlap. False: it consists of them."""
    server: Samples
    """Reserved before the clients get theirs, and the same in every run."""
    normalise: Normaliser
    true_groups: npt.NDArray[np.int64] | None = None
    test_views: Index | None = None
    """As which true group sees it each sample of `test` is there, where groups see samples in different ways."""
    drift: Sequence[Phase] = ()
    """What changes later, in order of rounds."""
    notes: Sequence[str] = ()
    """What the user should know of how the data were divided, a sentence each."""
    lends_tests: bool = True
    """Whether simulated clients may be given test samples of labels that they lack; not where a site is rehearsed."""
    standardise: bool = False
    """Whether clients agree on mean and deviation of their inputs, in place of those in `normalise`."""
    class_names: tuple[str, ...] = ()
    """What the labels stand for, in their order; none: it is not known."""
    encoding: TableEncoding | None = None
    """How rows became inputs, where the data are a table's."""
    target: tuple[float, float] | None = None
    """Mean and deviation of numbers to predict, in which all `y` are; None: they are labels."""
    later: "Sequence[FederatedData]" = ()
    """Clients that come when training is over, with samples of their own, one after the other; not among the above."""
    client_names: tuple[str, ...] = ()
    """What clients are called, where each is a user that has a name."""
    drawn_tests: bool = False
    """Whether clients' test parts were drawn from their own samples, as they are where data have no test part.

    One sample more of a client may then put another in its place among those for training, and what is private needs
    more noise.
    """

    @property
    def all_clients(self) -> int:
        """How many clients there are when all have come."""
        return self.clients + sum(newcomers.clients for newcomers in self.later)

    @property
    def shape(self) -> tuple[int, ...]:
        """Of one input as networks see it: (channels, height, width), (features,) or (length, features)."""
        return tuple(self.normalise(self.train.x[:1]).shape[1:])

    @property
    def final_groups(self) -> npt.NDArray[np.int64] | None:
        """The true groups at the end."""
        return self.drift[-1].true_groups if self.drift else self.true_groups

    @property
    def clients(self) -> int:
        """How many clients there are."""
        return len(self.train_parts)

    @property
    def nbytes(self) -> int:
        """Bytes of all raw arrays."""
        return sum(part.x.nbytes + part.y.nbytes for part in (self.train, self.test, self.server))


_GREY = Normalisation(255.0, (0.1307,), (0.3081,))

# The constants of the reference code (ALGORITHMS 0.3), which published numbers were made with.
PUBLISHED = {
    "mnist": _GREY,
    "fashion_mnist": _GREY,
    "usps": _GREY,
    "cifar10": Normalisation(255.0, (0.4914, 0.4822, 0.4465), (0.2023, 0.1994, 0.2010)),
    "cifar100": Normalisation(255.0, (0.507, 0.487, 0.441), (0.267, 0.256, 0.276)),
    "svhn": Normalisation(255.0, (0.4376821, 0.4437697, 0.47280442), (0.19803012, 0.20101562, 0.19703614)),
}


def published(name: str, raw: Array) -> Normalisation | None:
    """Return the published constants of a data set, if the inputs are the images that they were made for."""
    constants = PUBLISHED.get(name)
    fits = constants is not None and raw.dtype == np.uint8 and raw.ndim == 4 and raw.shape[1] == len(constants.mean)
    return constants if fits else None


def measured(raw: Array) -> Normalisation:
    """Return the normalisation measured on inputs: images per channel, vectors per feature.

    Bytes are taken as shades 0..255. The features of a vector of bytes are pixels, which share one unit and
    so one mean and deviation; a pixel that is nearly always black would else be blown up. What does not vary
    at all is only shifted.
    """
    pixels = raw.dtype == np.uint8
    scale = 255.0 if pixels else 1.0
    x = raw.astype(np.float64) / scale
    axes = (0, 1) if pixels and x.ndim == 2 else (0, *range(2, x.ndim))
    mean, std = np.atleast_1d(x.mean(axes)), np.atleast_1d(x.std(axes))
    std = np.where(std > 1e-6 * np.abs(mean), std, 1.0)
    return Normalisation(scale, tuple(mean.tolist()), tuple(std.tolist()))


def channels_of(shape: Sequence[int], dtype: Any) -> int:
    """Return how many means `measured` has for raw inputs of a shape.

    >>> channels_of((3, 32, 32), "uint8"), channels_of((20,), "float32"), channels_of((784,), "uint8")
    (3, 20, 1)
    """
    return 1 if np.dtype(dtype) == np.uint8 and len(shape) == 1 else shape[0]
