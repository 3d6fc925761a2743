"""MIX-4: clients of four image data sets, who form four true groups (PACFL; ALGORITHMS 8.10).

All images become 3 x 32 x 32 bytes: grey ones are padded with black and repeated in the three channels.

The reference code normalises each of the four data sets by constants of its own. Here an image does not say which
one it is from, and an image to be classified later could not; but grey ones can be told from photographs by
looking at them. So grey ones are normalised by the published constants, which USPS and Fashion-MNIST share,
and photographs by the means of those of CIFAR-10 and SVHN, which differ little (by 0.13 deviations at most
from the own ones). One normalisation for all would be simpler, but networks learn more slowly with it: the
photographs, which are not black for the most part, would come out with little contrast.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Annotated

import numpy as np
import numpy.typing as npt
from annotated_types import Ge

from coterie.data.dividing import balanced, server_samples
from coterie.data.federated import Array, Dataset, FederatedData, Index, Normalisation, Samples
from coterie.data.normalisation import PUBLISHED
from coterie.data.partitions.counting import cut, dealt
from coterie.data.registries import DATASETS, divided_dataset
from coterie.errors import CoterieError
from coterie.streams import stream

_SHARES = {"usps": 14, "cifar10": 32, "svhn": 26, "fashion_mnist": 28}
"""Of 100 clients, how many have samples of which data set; labels are numbered on in this order."""
_CLASSES = 10
_SIDE = 32
_FEWEST = 10
_LEFT_OVER = 26
"""One in so many samples of a data set is not given to clients: USPS still has enough for 14 times 500."""

_FRAME = np.pad(np.zeros((28, 28), bool), 2, constant_values=True)
"""Pixels that are black in all grey images, as the larger ones are padded by two."""
_GREY = PUBLISHED["usps"]
_COLOUR = Normalisation(255.0, (0.4645, 0.4630, 0.4597), (0.2002, 0.2002, 0.1990))


@divided_dataset("mix-4", clients=100, made_of=tuple(_SHARES))
def mix_4(
    clients: int,
    seed: int,
    *,
    samples: Annotated[int, Ge(_FEWEST), "Samples of each client."] = 500,
) -> FederatedData:
    """MIX-4: clients of USPS, CIFAR-10, SVHN or Fashion-MNIST (14, 32, 26, 28 of 100), 40 classes, four true groups.

    Clients have equally many samples of each class, those of USPS in its proportions, as it has too few of some
    classes. If there are too few samples for so many clients, all get fewer. A client is tested on the whole
    test part of its own data set. The server's set is drawn from what the clients leave over.
    """
    numbers = _clients_of_each(clients)
    pools = [_read(name) for name in _SHARES]
    labels = [train.y for train, _ in pools]
    each = _samples_each([len(y) for y in labels], clients, samples)
    parts = [
        (_proportional if name == "usps" else _even)(y, number, each, stream(seed, "partition", source))
        for source, (name, y, number) in enumerate(zip(_SHARES, labels, numbers, strict=True))
    ]
    for_server = _for_server(labels, parts, stream(seed, "server set"))
    tested = _ranges([len(test) for _, test in pools])
    train, test, server = (
        _Album(sum(map(len, lists))) for lists in ([part for own in parts for part in own], tested, for_server)
    )
    for source, own in enumerate(parts):
        own_train, own_test = pools.pop(0)  # which is then let go: all of them together are large
        train.add(own_train, np.concatenate(own), source)
        test.add(own_test, np.argsort(own_test.y, kind="stable"), source)
        server.add(own_train, for_server[source], source)
    return FederatedData(
        name="mix-4",
        classes=_CLASSES * len(_SHARES),
        train=train.samples,
        test=test.samples,
        train_parts=_ranges([len(part) for own in parts for part in own]),
        test_parts=[own for own, number in zip(tested, numbers, strict=True) for _ in range(number)],
        common_test=True,
        server=server.samples,
        normalise=normalised,
        true_groups=np.repeat(np.arange(len(_SHARES)), numbers),
        notes=_notes(parts, each, samples),
    )


def normalised(raw: Array) -> npt.NDArray[np.float32]:
    """Return raw images, (n, 3, 32, 32), normalised; grey ones are known by equal channels and a black frame."""
    x = _COLOUR(raw)
    likely = np.flatnonzero(~raw[:, 0, 0].any(axis=1))  # few photographs have a black first row, which is quickly seen
    looked_at = raw[likely]
    grey = ~looked_at[:, :, _FRAME].any(axis=(1, 2)) & (looked_at == looked_at[:, :1]).all(axis=(1, 2, 3))
    x[likely[grey]] = _GREY(looked_at[grey])
    return x


def _clients_of_each(clients: int) -> list[int]:
    """Divide the clients among the data sets in the papers' proportions, by largest remainders."""
    if clients < len(_SHARES):
        raise CoterieError(
            f"data set 'mix-4' has clients of {len(_SHARES)} data sets, which cannot be {clients} clients: "
            f"use at least {len(_SHARES)}"
        )
    whole = sum(_SHARES.values())
    numbers = [clients * share // whole for share in _SHARES.values()]
    remainders = [clients * share % whole for share in _SHARES.values()]
    for source in np.argsort(np.negative(remainders), kind="stable")[: clients - sum(numbers)]:
        numbers[source] += 1
    return numbers


def _read(name: str) -> tuple[Samples, Samples]:
    """Return the training and the test part of one of the data sets, which must be images that fit."""
    pool: Dataset = DATASETS[name](**DATASETS.validate(name, {}))
    x = pool.train.x
    fits = x.dtype == np.uint8 and x.ndim == 4 and x.shape[1] in (1, 3) and max(x.shape[2:]) <= _SIDE
    if not fits or pool.classes != _CLASSES or pool.test is None:
        raise CoterieError(
            f"data set 'mix-4' needs '{name}' as grey or colour images of bytes, at most {_SIDE} x {_SIDE}, in "
            f"{_CLASSES} classes, with a test part, but it has inputs of type {x.dtype} and shape {pool.shape} in "
            f"{pool.classes} classes, {'without' if pool.test is None else 'with'} a test part"
        )
    return pool.train, pool.test


def _samples_each(sizes: Sequence[int], clients: int, wanted: int) -> int:
    """Return how many samples each client can have; some of each data set are left over for the server."""

    def possible(clients: int) -> int:
        numbers = _clients_of_each(clients)
        return min((size - max(1, size // _LEFT_OVER)) // number for size, number in zip(sizes, numbers, strict=True))

    if possible(clients) >= _FEWEST:
        return min(wanted, possible(clients))
    fewer = next((number for number in range(clients - 1, len(_SHARES) - 1, -1) if possible(number) >= _FEWEST), None)
    raise CoterieError(
        f"data set 'mix-4' cannot give at least {_FEWEST} samples to each of {clients} clients: "
        + (f"use at most {fewer} clients" if fewer else "the files of its data sets are too small")
    )


def _even(y: Index, clients: int, each: int, rng: np.random.Generator) -> list[Index]:
    """Give all clients equally many samples of each class, or what there is."""
    labels, stock = np.unique(y, return_counts=True)
    odd = np.arange(clients)[:, None] * (each % len(labels)) + np.arange(each % len(labels))
    table = np.full((clients, len(labels)), each // len(labels))
    table[np.arange(clients)[:, None], odd % len(labels)] += 1  # the odd samples are of one class after the other
    for label in np.flatnonzero(table.sum(axis=0) > stock):
        table[:, label] = cut(table[:, label] / table[:, label].sum(), stock[label])
    return dealt(y, labels, table, rng)


def _proportional(y: Index, clients: int, each: int, rng: np.random.Generator) -> list[Index]:
    """Give all clients equally many samples, of each class in its proportion."""
    place = np.empty(len(y))
    for label in np.unique(y):  # the samples of a class lie at even distances from 0 to 1, in random order
        positions = rng.permutation(np.flatnonzero(y == label))
        place[positions] = (np.arange(len(positions)) + rng.random()) / len(positions)
    return list(np.sort(np.argsort(place)[: clients * each].reshape(clients, each), axis=1))


def _for_server(labels: Sequence[Index], parts: Sequence[Sequence[Index]], rng: np.random.Generator) -> list[Index]:
    """Draw the server's samples from what clients leave over, as even over all classes as that allows."""
    left = [np.setdiff1d(np.arange(len(y)), np.concatenate(own)) for y, own in zip(labels, parts, strict=True)]
    y = np.concatenate([_CLASSES * source + labels[source][positions] for source, positions in enumerate(left)])
    drawn = np.zeros(len(y), bool)
    drawn[balanced(y, server_samples(sum(map(len, labels))), rng)] = True
    return [positions[drawn[place]] for positions, place in zip(left, _ranges([len(p) for p in left]), strict=True)]


class _Album:
    """Colour images of one size, to which those of one data set after the other are added."""

    def __init__(self, size: int) -> None:
        self.samples = Samples(np.zeros((size, 3, _SIDE, _SIDE), np.uint8), np.zeros(size, np.int64))
        self.filled = 0

    def add(self, samples: Samples, positions: Index, source: int) -> None:
        """Add some of a data set: padded with black, grey in all three channels, the labels numbered on."""
        height, width = samples.x.shape[2:]
        top, left = (_SIDE - height) // 2, (_SIDE - width) // 2
        place = slice(self.filled, self.filled + len(positions))
        self.samples.x[place, :, top : top + height, left : left + width] = samples.x[positions]
        self.samples.y[place] = _CLASSES * source + samples.y[positions]
        self.filled = place.stop


def _ranges(sizes: Sequence[int]) -> list[Index]:
    """Return positions of parts that lie one after the other."""
    return [np.arange(a, b) for a, b in pairwise(np.cumsum([0, *sizes]))]


def _notes(parts: Sequence[Sequence[Index]], each: int, wanted: int) -> list[str]:
    notes = []
    if each < wanted:
        notes.append(
            f"data set 'mix-4': there are too few samples for so many clients, so each has {each}, not {wanted}"
        )
    for name, own in zip(_SHARES, parts, strict=True):
        fewest = min(map(len, own))
        if fewest < each:
            notes.append(
                f"data set 'mix-4': '{name}' has too few samples of some classes, "
                f"so its clients have {fewest} to {max(map(len, own))} samples, not {each}"
            )
    return notes
