"""MIX-4: clients of four image data sets, who form four true groups (PACFL; ALGORITHMS 8.10).

All images become 3 x 32 x 32 bytes: grey ones are padded with black and repeated in the three channels.

The reference code normalises each of the four data sets by constants of its own. Here grey images are told from
photographs: grey ones are normalised by the published constants, which USPS and Fashion-MNIST share, and photographs by
the means of those of CIFAR-10 and SVHN, which differ little (by 0.13 deviations at most from the own ones).
"""

from typing import Annotated

import numpy as np
from annotated_types import Ge

from coterie.data.federated import Dataset, FederatedData, Normalisation
from coterie.data.mixing import FEWEST, GreyOrColour, Source, clients_of_each, mixture, padding
from coterie.data.normalisation import PUBLISHED
from coterie.data.registries import DATASETS, divided_dataset
from coterie.errors import CoterieError

SHARES = {"usps": 14, "cifar10": 32, "svhn": 26, "fashion_mnist": 28}
"""Of 100 clients, how many have samples of which data set; labels are numbered on in this order."""
_CLASSES = 10
_SIDE = 32
_NORMALISED = GreyOrColour(
    PUBLISHED["usps"],
    Normalisation(255.0, (0.4645, 0.4630, 0.4597), (0.2002, 0.2002, 0.1990)),
    padding((_SIDE, _SIDE), (28, 28)),
)


@divided_dataset("mix-4", clients=100, made_of=tuple(SHARES))
def mix_4(
    clients: int,
    seed: int,
    *,
    samples: Annotated[int, Ge(FEWEST), "Samples of each client."] = 500,
) -> FederatedData:
    """MIX-4: clients of USPS, CIFAR-10, SVHN or Fashion-MNIST (14, 32, 26, 28 of 100), 40 classes, four true groups.

    Clients have equally many samples of each class, those of USPS in its proportions, as it has too few of some
    classes. If there are too few samples for so many clients, all get fewer. A client is tested on the whole
    test part of its own data set. The server's set is drawn from what the clients leave over.
    """
    clients_of_each("mix-4", clients, list(SHARES.values()))  # before data are read
    sources = [_read(name) for name in SHARES]
    shape = (3, _SIDE, _SIDE)
    return mixture("mix-4", sources, clients, seed, samples, shape=shape, normalise=_NORMALISED)


def _read(name: str) -> Source:
    """Return one of the data sets, which must be images that fit."""
    pool: Dataset = DATASETS[name](**DATASETS.validate(name, {}))
    x = pool.train.x
    fits = x.dtype == np.uint8 and x.ndim == 4 and x.shape[1] in (1, 3) and max(x.shape[2:]) <= _SIDE
    if not fits or pool.classes != _CLASSES or pool.test is None:
        raise CoterieError(
            f"data set 'mix-4' needs '{name}' as grey or colour images of bytes, at most {_SIDE} x {_SIDE}, in "
            f"{_CLASSES} classes, with a test part, but it has inputs of type {x.dtype} and shape {pool.shape} in "
            f"{pool.classes} classes, {'without' if pool.test is None else 'with'} a test part"
        )
    return Source(name, pool.train, pool.test, _CLASSES, SHARES[name], proportional=name == "usps")
