"""Mixtures of image data sets, whose clients form a true group per data set: any, and MIX-4 (PACFL; ALGORITHMS 8.10).

MIX-4's images all become 3 x 32 x 32 bytes: grey ones are padded with black and repeated in the three channels. The
reference code normalises each of the four data sets by constants of its own. Here grey images are told from
photographs: grey ones are normalised by the published constants, which USPS and Fashion-MNIST share, and photographs by
the means of those of CIFAR-10 and SVHN, which differ little (by 0.13 deviations at most from the own ones).
"""

from typing import Annotated, Literal

import numpy as np
from annotated_types import Ge

from coterie.data.federated import PUBLISHED, Array, FederatedData, Normalisation, Samples
from coterie.data.loading import read_pooled
from coterie.data.mixing import FEWEST, GreyOrColour, Source, clients_of_each, mixture, padding
from coterie.data.registries import divided_dataset
from coterie.errors import CoterieError
from coterie.streams import stream

_TEST_SHARE = 0.2
SHARES = {"usps": 14, "cifar10": 32, "svhn": 26, "fashion_mnist": 28}
"""Of 100 clients, how many have samples of which data set; labels are numbered on in this order."""
_CLASSES = 10
_SIDE = 32
_NORMALISED = GreyOrColour(
    PUBLISHED["usps"],
    Normalisation(255.0, (0.4645, 0.4630, 0.4597), (0.2002, 0.2002, 0.1990)),
    padding((_SIDE, _SIDE), (28, 28)),
)

SamplesEach = Annotated[int, Ge(FEWEST), "Samples of each client."]


@divided_dataset("mix", clients=100, made_of_option="of")
def mix(
    clients: int,
    seed: int,
    *,
    of: Annotated[str, "Data sets, by name or path, with + between them: usps+cifar10."],
    shares: Annotated[
        int | str | None, "Clients of each, in proportion, in the same order: 1+3; none: equally many."
    ] = None,
    samples: SamplesEach = 500,
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
    pool = read_pooled(name)
    x = pool.train.x
    if not _are_images(x):
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


@divided_dataset("mix-4", clients=100, made_of=tuple(SHARES))
def mix_4(clients: int, seed: int, *, samples: SamplesEach = 500) -> FederatedData:
    """MIX-4: clients of USPS, CIFAR-10, SVHN or Fashion-MNIST (14, 32, 26, 28 of 100), 40 classes, four true groups.

    Clients have equally many samples of each class, those of USPS in its proportions, as it has too few of some
    classes. If there are too few samples for so many clients, all get fewer. A client is tested on the whole
    test part of its own data set. The server's set is drawn from what the clients leave over.
    """
    clients_of_each("mix-4", clients, list(SHARES.values()))  # before data are read
    sources = [_read_mix_4(name) for name in SHARES]
    shape = (3, _SIDE, _SIDE)
    return mixture("mix-4", sources, clients, seed, samples, shape=shape, normalise=_NORMALISED)


def _read_mix_4(name: str) -> Source:
    """Return one of the data sets, which must be images that fit."""
    pool = read_pooled(name)
    x = pool.train.x
    if not _are_images(x) or max(x.shape[2:]) > _SIDE or pool.classes != _CLASSES or pool.test is None:
        raise CoterieError(
            f"data set 'mix-4' needs '{name}' as grey or colour images of bytes, at most {_SIDE} x {_SIDE}, in "
            f"{_CLASSES} classes, with a test part, but it has inputs of type {x.dtype} and shape {pool.shape} in "
            f"{pool.classes} classes, {'without' if pool.test is None else 'with'} a test part"
        )
    return Source(name, pool.train, pool.test, _CLASSES, SHARES[name], proportional=name == "usps")


def _are_images(x: Array) -> bool:
    """Whether inputs are grey or colour images of bytes."""
    return x.dtype == np.uint8 and x.ndim == 4 and x.shape[1] in (1, 3)
