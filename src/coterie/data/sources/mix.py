"""A mixture of any image data sets, whose clients form a true group per data set (ALGORITHMS 8.10, generalised)."""

from typing import Annotated, Literal

import numpy as np
from annotated_types import Ge

from coterie.data.federated import Dataset, FederatedData, Normalisation, Samples
from coterie.data.loading import read_pooled
from coterie.data.mixing import FEWEST, Source, clients_of_each, mixture
from coterie.data.registries import divided_dataset
from coterie.errors import CoterieError
from coterie.streams import stream

_TEST_SHARE = 0.2


@divided_dataset("mix", clients=100, made_of_option="of")
def mix(
    clients: int,
    seed: int,
    *,
    of: Annotated[str, "Data sets, by name or path, with + between them: usps+cifar10."],
    shares: Annotated[
        int | str | None, "Clients of each, in proportion, in the same order: 1+3; none: equally many."
    ] = None,
    samples: Annotated[int, Ge(FEWEST), "Samples of each client."] = 500,
    labels: Annotated[
        Literal["apart", "shared"], "Number labels on from one data set to the next, or take equal ones as the same."
    ] = "apart",
) -> FederatedData:
    """Clients of several image data sets (mix:of=usps+cifar10), a true group per data set; mix-4 is one such.

    Images get the shape of the largest: smaller ones are padded with black, and grey ones are repeated in three
    channels where others have colours. Clients have equally many samples of each class, or, if over 2 % would be
    missing for that, in the proportions of their data set. If there are too few samples for so many clients, all get
    fewer. A client is tested on the whole test part of its data set, for which 20 % are held out where it has none.
    The server's set is drawn from what the clients leave over.
    """
    names = of.split("+")
    parts = _shares(names, shares)
    clients_of_each("mix", clients, parts)  # before data are read
    sources = [_read(name, share, seed, i) for i, (name, share) in enumerate(zip(names, parts, strict=True))]
    return mixture("mix", sources, clients, seed, samples, shared_labels=labels == "shared")


def _shares(names: list[str], shares: int | str | None) -> list[int]:
    """Read how many clients each data set gets, in proportion."""
    if len(set(names)) < len(names) or "" in names:
        raise CoterieError(f"data set 'mix': of = '{'+'.join(names)}' should name each data set once: usps+cifar10")
    if shares is None:
        return [1] * len(names)
    pieces = str(shares).split("+")
    if len(pieces) != len(names) or not all(piece.isdecimal() and int(piece) > 0 for piece in pieces):
        example = "+".join(str(i + 1) for i in range(len(names)))
        raise CoterieError(
            f"data set 'mix': shares = '{shares}' should be {len(names)} whole numbers above 0, one for each data set: "
            f"{example}"
        )
    return [int(piece) for piece in pieces]


def _read(name: str, share: int, seed: int, number: int) -> Source:
    """Return a data set of images."""
    pool: Dataset = read_pooled(name)
    x = pool.train.x
    if not (x.dtype == np.uint8 and x.ndim == 4 and x.shape[1] in (1, 3)):
        raise CoterieError(
            f"data set 'mix' needs '{name}' as grey or colour images of bytes, but it has inputs of type {x.dtype} and "
            f"shape {pool.shape}: leave it out"
        )
    own = pool.normalisation
    scale = own.scale if isinstance(own, Normalisation) else 255.0
    train = _in_shades(pool.train, scale)
    if pool.test is not None:
        return Source(name, train, _in_shades(pool.test, scale), pool.classes, share)
    order = stream(seed, "test part", number).permutation(len(train))
    count = max(1, round(_TEST_SHARE * len(train)))
    return Source(name, train[np.sort(order[count:])], train[np.sort(order[:count])], pool.classes, share)


def _in_shades(samples: Samples, scale: float) -> Samples:
    """Bring images to shades 0..255, where white is another number, as in the digits of scikit-learn."""
    if scale == 255.0:
        return samples
    return Samples(np.round(samples.x * np.float32(255.0 / scale)).astype(np.uint8), samples.y)
