"""Federations made of several image data sets: each client has samples of one of them, which is its true group.

All images get one shape, that of the largest: smaller ones are padded with black, and grey ones are repeated in three
channels if others have colours.

Networks see images of grey and of colour normalised in two ways, if there are both. An image does not say which data
set it is from, and an image to be classified later could not; but grey ones can be told from photographs by looking at
them. One normalisation for all would be simpler, but networks learn more slowly with it: the photographs, which are not
black for the most part, would come out with little contrast.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from coterie.data.dividing import balanced, server_samples
from coterie.data.federated import Array, FederatedData, Index, Normalisation, Normaliser, Samples, measured
from coterie.data.partitions.counting import cut, dealt
from coterie.data.parts import ranges
from coterie.errors import CoterieError
from coterie.streams import stream

FEWEST = 10
"""Samples that a client has at least."""
_LEFT_OVER = 26
"""One in so many samples of a data set is not given to clients: USPS still has enough for 14 times 500."""

_SHORT = 0.02
"""The share of their samples that clients may lack to have equally many of each class."""


@dataclass(frozen=True)
class Source:
    """A data set to be mixed with others."""

    name: str
    train: Samples
    test: Samples
    classes: int
    share: int
    """Of the clients, in proportion to the others' shares."""
    proportional: bool | None = None
    """Whether clients have classes in its proportions, not equally many of each; None: if it has too few of some."""


def mixture(
    name: str,
    sources: list[Source],
    clients: int,
    seed: int,
    samples: int,
    *,
    shared_labels: bool = False,
    shape: tuple[int, int, int] | None = None,
    normalise: Normaliser | None = None,
) -> FederatedData:
    """Divide clients among data sets, and give each so many samples of its own.

    Where there are too few samples, all clients get fewer. A client is tested on the whole test part of its data set.
    The server's set is drawn from what the clients leave over. Labels are numbered on from one data set to the next, or
    with `shared_labels` mean the same in all. Images get the `shape` of the largest by default, and by default the
    normalisation is measured on the server's. The list of sources is emptied on the way, as all of them together are
    large.
    """
    labels = [source.train.y for source in sources]
    shares = [source.share for source in sources]
    numbers = clients_of_each(name, clients, shares)
    per_client = _samples_per_client(name, [len(y) for y in labels], clients, shares, samples)
    parts = [_parts(sources[i], numbers[i], per_client, stream(seed, "partition", i)) for i in range(len(sources))]
    counted = [0 if shared_labels else source.classes for source in sources]
    offsets = np.cumsum([0, *counted[:-1]]).tolist()
    for_server = _for_server(labels, offsets, parts, stream(seed, "server set"))
    tested = ranges([source.test for source in sources])
    classes = max(offset + source.classes for offset, source in zip(offsets, sources, strict=True))
    names, grey = [source.name for source in sources], [source.train.x.shape[1] == 1 for source in sources]
    largest = np.max([source.train.x.shape[1:] for source in sources], axis=0).tolist()
    frame = np.max([s.train.x.shape[2:] if g else (0, 0) for s, g in zip(sources, grey, strict=True)], axis=0)
    train, test, server = (
        _Album(sum(map(len, lists)), shape or largest)
        for lists in ([part for of_source in parts for part in of_source], tested, for_server)
    )
    for i, of_source in enumerate(parts):
        source = sources.pop(0)
        train.add(source.train, np.concatenate(of_source), offsets[i])
        test.add(source.test, np.argsort(source.test.y, kind="stable"), offsets[i])
        server.add(source.train, for_server[i], offsets[i])
    is_grey = np.repeat(grey, [len(drawn) for drawn in for_server])
    return FederatedData(
        name=name,
        classes=classes,
        train=train.samples,
        test=test.samples,
        train_parts=ranges([part for of_source in parts for part in of_source]),
        test_parts=[test_part for test_part, number in zip(tested, numbers, strict=True) for _ in range(number)],
        common_test=True,
        server=server.samples,
        normalise=normalise
        or measured_normaliser(server.samples.x[is_grey], server.samples.x[~is_grey], (int(frame[0]), int(frame[1]))),
        true_groups=np.repeat(np.arange(len(parts)), numbers),
        notes=_notes(name, names, parts, per_client, samples),
    )


@dataclass(frozen=True)
class GreyOrColour:
    """Normalises grey images, known by equal channels and a black frame, in another way than photographs."""

    grey: Normalisation
    colour: Normalisation
    frame: npt.NDArray[np.bool_]
    """(height, width): pixels that are black in all grey images, as these are padded."""

    def __call__(self, raw: Array) -> npt.NDArray[np.float32]:
        """Return raw images, (n, 3, height, width), normalised."""
        x = self.colour(raw)
        likely = np.arange(len(raw))
        if self.frame[0].all():  # few photographs have a black first row, which is quickly seen
            likely = np.flatnonzero(~raw[:, 0, 0].any(axis=1))
        looked_at = raw[likely]
        grey = ~looked_at[:, :, self.frame].any(axis=(1, 2)) & (looked_at == looked_at[:, :1]).all(axis=(1, 2, 3))
        x[likely[grey]] = self.grey(looked_at[grey])
        return x


def measured_normaliser(grey: Array, colour: Array, size: tuple[int, int]) -> Normaliser:
    """Return a normaliser measured on images of the server: one for grey ones of this size and one for the others."""
    if len(grey) == 0 or len(colour) == 0:
        return measured(np.concatenate([grey, colour]))
    return GreyOrColour(measured(grey), measured(colour), padding((colour.shape[2], colour.shape[3]), size))


def padding(shape: tuple[int, int], inner: tuple[int, int]) -> npt.NDArray[np.bool_]:
    """Return which pixels of an image are padding around a smaller one."""
    frame = np.ones(shape, bool)
    frame[_centre(shape, inner)] = False
    return frame


def clients_of_each(name: str, clients: int, shares: Sequence[int]) -> list[int]:
    """Divide the clients among the data sets by their shares, by largest remainders; each gets one at least."""
    if clients < len(shares):
        raise CoterieError(
            f"data set '{name}' has clients of {len(shares)} data sets, which cannot be {clients} clients: "
            f"use at least {len(shares)}"
        )
    whole = sum(shares)
    numbers = [clients * share // whole for share in shares]
    remainders = [clients * share % whole for share in shares]
    for source in np.argsort(np.negative(remainders), kind="stable")[: clients - sum(numbers)]:
        numbers[source] += 1
    while 0 in numbers:
        numbers[numbers.index(max(numbers))] -= 1
        numbers[numbers.index(0)] += 1
    return numbers


def _samples_per_client(name: str, sizes: Sequence[int], clients: int, shares: Sequence[int], asked_for: int) -> int:
    """Return how many samples each client can have; some of each data set are left over for the server."""

    def possible(clients: int) -> int:
        numbers = clients_of_each(name, clients, shares)
        return min((size - max(1, size // _LEFT_OVER)) // number for size, number in zip(sizes, numbers, strict=True))

    if possible(clients) >= FEWEST:
        return min(asked_for, possible(clients))
    fewer = next((number for number in range(clients - 1, len(shares) - 1, -1) if possible(number) >= FEWEST), None)
    raise CoterieError(
        f"data set '{name}' cannot give at least {FEWEST} samples to each of {clients} clients: "
        + (f"use at most {fewer} clients" if fewer else "the files of its data sets are too small")
    )


def _parts(source: Source, clients: int, per_client: int, rng: np.random.Generator) -> Sequence[Index]:
    """Divide a data set among its clients."""
    stock, total = np.unique(source.train.y, return_counts=True)[1], clients * per_client
    in_proportion = source.proportional
    if in_proportion is None:  # if equally many of each class would leave many clients short
        in_proportion = np.maximum(total / len(stock) - stock, 0).sum() > _SHORT * total
    return (proportional if in_proportion else even)(source.train.y, clients, per_client, rng)


def even(y: Index, clients: int, per_client: int, rng: np.random.Generator) -> Sequence[Index]:
    """Give all clients equally many samples of each class, or as many as there are."""
    labels, stock = np.unique(y, return_counts=True)
    odd = np.arange(clients)[:, None] * (per_client % len(labels)) + np.arange(per_client % len(labels))
    table = np.full((clients, len(labels)), per_client // len(labels))
    table[np.arange(clients)[:, None], odd % len(labels)] += 1  # the odd samples are of one class after the other
    for label in np.flatnonzero(table.sum(axis=0) > stock):
        table[:, label] = cut(table[:, label] / table[:, label].sum(), stock[label])
    return dealt(y, labels, table, rng)


def proportional(y: Index, clients: int, per_client: int, rng: np.random.Generator) -> list[Index]:
    """Give all clients equally many samples, of each class in its proportion."""
    place = np.empty(len(y))
    for label in np.unique(y):  # the samples of a class lie at even distances from 0 to 1, in random order
        positions = rng.permutation(np.flatnonzero(y == label))
        place[positions] = (np.arange(len(positions)) + rng.random()) / len(positions)
    return list(np.sort(np.argsort(place)[: clients * per_client].reshape(clients, per_client), axis=1))


def _for_server(
    labels: Sequence[Index], offsets: Sequence[int], parts: Sequence[Sequence[Index]], rng: np.random.Generator
) -> list[Index]:
    """Draw the server's samples from what clients leave over, as even over all classes as that allows."""
    left = [np.setdiff1d(np.arange(len(y)), np.concatenate(taken)) for y, taken in zip(labels, parts, strict=True)]
    y = np.concatenate([offset + y[positions] for offset, y, positions in zip(offsets, labels, left, strict=True)])
    drawn = np.zeros(len(y), bool)
    drawn[balanced(y, server_samples(sum(map(len, labels))), rng)] = True
    return [positions[drawn[place]] for positions, place in zip(left, ranges(left), strict=True)]


class _Album:
    """Images of one shape, to which those of one data set after the other are added."""

    def __init__(self, size: int, shape: Sequence[int]) -> None:
        self.samples = Samples(np.zeros((size, *shape), np.uint8), np.zeros(size, np.int64))
        self.filled = 0

    def add(self, samples: Samples, positions: Index, offset: int) -> None:
        """Add some of a data set: padded with black, grey in all channels, the labels raised."""
        shape = self.samples.x.shape[2:]
        place = slice(self.filled, self.filled + len(positions))
        rows, columns = _centre((shape[0], shape[1]), (samples.x.shape[2], samples.x.shape[3]))
        self.samples.x[place, :, rows, columns] = samples.x[positions]
        self.samples.y[place] = offset + samples.y[positions]
        self.filled = place.stop


def _centre(shape: tuple[int, int], inner: tuple[int, int]) -> tuple[slice, slice]:
    """Return where a smaller image lies in a larger one."""
    top, left = (shape[0] - inner[0]) // 2, (shape[1] - inner[1]) // 2
    return slice(top, top + inner[0]), slice(left, left + inner[1])


def _notes(
    name: str, names: Sequence[str], parts: Sequence[Sequence[Index]], per_client: int, asked_for: int
) -> list[str]:
    notes = []
    if per_client < asked_for:
        notes.append(
            f"data set '{name}': there are too few samples for so many clients, so each has {per_client}, not "
            f"{asked_for}"
        )
    for source, of_source in zip(names, parts, strict=True):
        sizes = [len(part) for part in of_source]
        if min(sizes) < per_client:
            notes.append(
                f"data set '{name}': '{source}' has too few samples of some classes, "
                f"so its clients have {min(sizes)} to {max(sizes)} samples, not {per_client}"
            )
    return notes
