"""Synthetic(alpha, beta): data sets that are computed, client by client, when somebody looks at them."""

import threading
from collections import OrderedDict
from typing import Annotated, Literal

import numpy as np
from annotated_types import Ge, Le

from coterie.data.dividing import balanced, for_server, held_count, held_out, server_samples
from coterie.data.federated import Array, FederatedData, Index, Normalisation, Samples
from coterie.data.on_demand import MEMORY, LazyArray
from coterie.data.parts import ClientParts
from coterie.data.registries import divided_dataset
from coterie.errors import CoterieError
from coterie.streams import stream

_FEATURES = 60
_CLASSES = 10
_FEWEST = 50
"""Samples that a client draws at least."""
_TEST_SHARE = 0.1
_SAMPLE_BYTES = _FEATURES * 4 + 8

FROM_CLIENTS = 10_000
"""Clients up to which the server's set is taken from theirs."""
_FURTHER = 100
"""Clients of which the server's set is drawn above that, at least."""
_SPREAD = 4
"""Samples drawn for each one of the server's above that, of which it gets those that make it most even."""


@divided_dataset("synthetic", clients=100)
def synthetic(
    clients: int,
    seed: int,
    server_share: float | None = None,
    *,
    alpha: Annotated[float, Ge(0), Le(1000), "How much the clients' models differ."] = 1.0,
    beta: Annotated[float, Ge(0), Le(1000), "How much the clients' inputs differ."] = 1.0,
) -> FederatedData:
    """Synthetic(alpha, beta): computed vectors of 60 features in 10 classes, a model per client, sizes by a power law.

    What a client has depends on the seed and its number only, not on how many clients there are, but for the
    samples that the server gets; above 10,000 clients the server gets none of theirs, but those of further clients that
    are there for nothing else. A tenth of each client's samples is held out to test it. Inputs are used as they are,
    without normalisation. Beyond 256 MB samples are computed when they are used.
    """
    if clients < 1:
        raise CoterieError(f"data set 'synthetic' cannot have {clients} clients: use at least 1")
    made = SyntheticClients(seed, alpha, beta, clients)
    if clients > FROM_CLIENTS:
        server = _further(made, server_samples(int(made.sizes.sum()), server_share))
    else:
        server, y, tested = _taken(made, server_share)
    train, train_parts = made.part("train")
    test, test_parts = made.part("test")
    if clients <= FROM_CLIENTS:  # what clients may be lent is in memory, and all labels are known
        train = Samples(train.x[:] if made.nbytes <= MEMORY else train.x, made.labels(y, "train"))
        test = Samples(tested, made.labels(y, "test"))
    return FederatedData(
        name="synthetic",
        classes=_CLASSES,
        train=train,
        test=test,
        train_parts=train_parts,
        test_parts=test_parts,
        common_test=False,
        server=server,
        normalise=Normalisation(1.0, (0.0,), (1.0,)),
        lends_tests=clients <= FROM_CLIENTS,
        drawn_tests=True,
    )


class SyntheticClients:
    """All clients' samples, of which the last ones that were used are kept."""

    def __init__(self, seed: int, alpha: float, beta: float, clients: int) -> None:
        self.seed, self.alpha, self.beta = seed, alpha, beta
        self.sizes = np.array([_size(stream(seed, "synthetic", client)) for client in range(clients)], np.int64)
        self.taken: dict[int, Index] = {}
        """Which of a client's samples are the server's."""
        self._kept: OrderedDict[int, Samples] = OrderedDict()
        self._kept_samples, self._lock = 0, threading.Lock()

    @property
    def nbytes(self) -> int:
        """Bytes of all samples."""
        return int(self.sizes.sum()) * _SAMPLE_BYTES

    def drawn(self, client: int) -> Samples:
        """Return all that a client has drawn."""
        with self._lock:
            if client in self._kept:
                self._kept.move_to_end(client)
                return self._kept[client]
        samples = draw_client(self.alpha, self.beta, stream(self.seed, "synthetic", client))
        with self._lock:
            if client not in self._kept:
                self._kept[client] = samples
                self._kept_samples += len(samples)
            while self._kept_samples * _SAMPLE_BYTES > MEMORY and len(self._kept) > 1:
                self._kept_samples -= len(self._kept.popitem(last=False)[1])
        return samples

    def places(self, client: int, part: Literal["train", "test"]) -> Index:
        """Return which of the samples that a client has drawn it trains on, or is tested on."""
        own = np.delete(np.arange(self.sizes[client]), self.taken.get(client, np.zeros(0, np.int64)))
        return held_out(own, _TEST_SHARE, stream(self.seed, "test part", client))[part == "test"]

    def part(self, part: Literal["train", "test"]) -> tuple[Samples, ClientParts]:
        """Return all samples to train or to test on, client after client, none of which is drawn for that."""
        left = self.sizes.copy()
        for client, places in self.taken.items():
            left[client] -= len(places)
        tests = np.array([held_count(size, _TEST_SHARE) for size in left.tolist()], np.int64)
        sizes = tests if part == "test" else left - tests
        offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes)])
        x, y = (_ClientRows(self, part, of, offsets).as_array() for of in ("x", "y"))
        return Samples(x, y), ClientParts(offsets)

    def labels(self, y: Index, part: Literal["train", "test"]) -> Index:
        """Return the labels of all samples of a part, from those of all that clients have drawn."""
        begins = np.cumsum(self.sizes) - self.sizes
        chosen = [begins[client] + self.places(client, part) for client in range(len(self.sizes))]
        labels: Index = y[np.concatenate(chosen)]
        return labels


class _ClientRows(LazyArray):
    """The inputs or the labels of all clients, one client after the other."""

    def __init__(self, clients: SyntheticClients, part: Literal["train", "test"], of: str, offsets: Index) -> None:
        inputs = of == "x"
        super().__init__((int(offsets[-1]), *((_FEATURES,) if inputs else ())), np.float32 if inputs else np.int64)
        self._clients, self._part, self._inputs, self._offsets = clients, part, inputs, offsets

    @property
    def nbytes(self) -> int:
        """Those of what is kept of all clients, counted once."""
        return min(self._clients.nbytes, MEMORY) if self._inputs and self._part == "train" else 0

    def rows(self, positions: Index) -> Array:
        """Draw the samples of those clients whose rows these are."""
        found = np.empty((len(positions), *self.shape[1:]), self.dtype)
        owners = np.searchsorted(self._offsets, positions, side="right") - 1
        order = np.argsort(owners, kind="stable")
        begins = np.flatnonzero(np.diff(owners[order], prepend=-1))
        for places in np.split(order, begins[1:]) if len(order) else []:
            client = int(owners[places[0]])
            drawn = self._clients.drawn(client)
            own = self._clients.places(client, self._part)[positions[places] - self._offsets[client]]
            found[places] = drawn.x[own] if self._inputs else drawn.y[own]
        return found


def _taken(made: SyntheticClients, share: float | None) -> tuple[Samples, Index, Array]:
    """Take the server's samples from the clients'.

    Return them, the labels of all that clients have drawn, and the inputs that they are then tested on.
    """
    labels, tested = [], []
    for client in range(len(made.sizes)):
        drawn = made.drawn(client)
        labels.append(drawn.y)
        tested.append(drawn.x[made.places(client, "test")])
    y, ends = np.concatenate(labels), np.cumsum(made.sizes)
    positions = for_server(y, share, made.seed)
    owners = np.searchsorted(ends, positions, side="right")
    x = np.empty((len(positions), _FEATURES), np.float32)
    for client in np.unique(owners).tolist():
        own, drawn = positions[owners == client] - (ends[client] - made.sizes[client]), made.drawn(client)
        if len(own) == made.sizes[client]:
            raise CoterieError(
                f"data set 'synthetic': server_share = {share:g} leaves client {client} without samples: lower it"
            )
        x[owners == client], made.taken[client] = drawn.x[own], own
        tested[client] = drawn.x[made.places(client, "test")]
    return Samples(x, y[positions]), y, np.concatenate(tested)


def _further(made: SyntheticClients, count: int) -> Samples:
    """Draw a server's set that is nobody's: of further clients, as even over classes as can be."""
    clients = range(max(_FURTHER, -(-_SPREAD * count // _FEWEST)) if count else 0)
    drawn = [draw_client(made.alpha, made.beta, stream(made.seed, "synthetic server", k), _FEWEST) for k in clients]
    x = np.concatenate([np.zeros((0, _FEATURES), np.float32), *(samples.x for samples in drawn)])
    y = np.concatenate([np.zeros(0, np.int64), *(samples.y for samples in drawn)])
    pool = Samples(x, y)
    return pool[balanced(y, count, stream(made.seed, "server set"))]


def _size(rng: np.random.Generator) -> int:
    """Draw how many samples a client has."""
    return int(rng.lognormal(4.0, 2.0)) + _FEWEST


def draw_client(alpha: float, beta: float, rng: np.random.Generator, most: int | None = None) -> Samples:
    """Draw a client's size, its model ``argmax(x W + b)``, where its inputs lie, and its inputs, or the first of them.

    alpha and beta are standard deviations, as in the code that published numbers were made with.
    """
    size = _size(rng)
    centre = rng.normal(0.0, alpha)
    weights = rng.normal(centre, 1.0, (_FEATURES, _CLASSES))
    bias = rng.normal(centre, 1.0, _CLASSES)
    mean = rng.normal(rng.normal(0.0, beta), 1.0, _FEATURES)
    variance = np.arange(1, _FEATURES + 1) ** -1.2
    x = rng.normal(mean, np.sqrt(variance), (min(size, most or size), _FEATURES)).astype(np.float32)
    return Samples(x, np.argmax(x @ weights + bias, axis=1))
