"""Parts of chosen difficulty, by order or by noise, and of chosen size (dissertation ch. 2; ALGORITHMS 6)."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from coterie.data.federated import FederatedData, Index, Samples
from coterie.data.registries import Partition
from coterie.errors import CoterieError
from coterie.streams import stream

Floats = npt.NDArray[np.float64]


def by_difficulty(
    y: Index, losses: Floats, parts: Sequence[Index], f_ord: float, rng: np.random.Generator
) -> list[Index]:
    """Exchange samples between parts, so that the first ones hold the easiest (dissertation, Alg. 2).

    `y` and `losses` are those of all samples, `parts` positions among them. Of the N_ic samples of class c that part i
    has, ⌊f_ord·N_ic⌋ come from one band of difficulty: bands of all parts stand one after the other, in the order of
    parts, in the list Q_c of the class's samples by increasing loss. What the bands leave over is dealt out at random.
    With f_ord = 1 the parts are the bands, with 0 all is chance; how many samples of each class a part has stays.

    >>> y, losses = np.zeros(4, int), np.array([0.3, 0.1, 0.2, 0.4])
    >>> by_difficulty(y, losses, [np.array([0, 1]), np.array([2, 3])], 1.0, np.random.default_rng(0))
    [array([1, 2]), array([0, 3])]
    """
    held = np.sort(np.concatenate([*parts, np.zeros(0, np.int64)]))
    taken: list[list[Index]] = [[] for _ in parts]
    for label in np.unique(y[held]):
        of_label = held[y[held] == label]
        Q = of_label[np.argsort(losses[of_label], kind="stable")]
        N = np.array([np.count_nonzero(y[part] == label) for part in parts])
        begins = np.cumsum(N) - N
        ordered = np.floor(f_ord * N + 1e-9).astype(np.int64)
        bands = [np.arange(begin, begin + count) for begin, count in zip(begins, ordered, strict=True)]
        rest = rng.permutation(np.delete(Q, np.concatenate(bands)))
        ends = np.cumsum(N - ordered)
        for part, (band, left) in enumerate(zip(bands, np.split(rest, ends[:-1]), strict=True)):
            taken[part] += [Q[band], left]
    return [np.sort(np.concatenate([*pieces, held[:0]])) for pieces in taken]


def spread(losses: Floats, parts: Sequence[Index]) -> Floats:
    """Return the standard deviation of the losses in each part, (parts,); 0 for one without samples.

    It is small where samples are alike in difficulty: the consistency of a client.
    """
    return np.array([losses[part].std() if len(part) else 0.0 for part in parts])


def with_noise(data: FederatedData, largest: float, seed: int) -> FederatedData:
    """Add Gaussian noise to clients' training samples, the more the later the client (dissertation, 2.6.3).

    Client i of N gets noise of the deviation i/(N − 1) · `largest`: the first stays as it is. The unit is white for
    bytes, which stay shades from black to white; for other numbers, the deviation of all training inputs. Test samples
    and the server's have no noise.
    """
    x = np.asarray(data.train.x)
    if x.dtype != np.uint8 and not np.issubdtype(x.dtype, np.floating):
        raise CoterieError(
            f"noise = {largest:g}: the inputs of data set '{data.name}' are {x.dtype}, no shades: leave it out"
        )
    noisy, unit = x.copy(), 255.0 if x.dtype == np.uint8 else float(x.std(dtype=np.float64))
    for parts in (data.train_parts, *(phase.train_parts for phase in data.drift)):
        for client, part in enumerate(parts):
            deviation = largest * unit * client / max(len(parts) - 1, 1)
            added = x[part] + deviation * stream(seed, "noise", client).standard_normal(x[part].shape)
            noisy[part] = np.clip(np.rint(added), 0, 255) if x.dtype == np.uint8 else added
    note = f"noise in the training samples has a deviation of 0 for the first client, of {largest:g} for the last"
    return replace(data, train=Samples(noisy, data.train.y), notes=(*data.notes, note))


def some_of(division: Partition, clients: int, rng: np.random.Generator) -> Partition:
    """Keep as many parts as there are clients, drawn at random and in their order (the data-amount experiment)."""
    kept = np.sort(rng.permutation(len(division.parts))[:clients])
    unused = sum(map(len, division.parts)) - sum(len(division.parts[i]) for i in kept)
    note = f"{clients} of {len(division.parts)} parts were given to the clients; {unused:,} samples are with nobody"
    return replace(
        division,
        parts=[division.parts[i] for i in kept],
        true_groups=None if division.true_groups is None else division.true_groups[kept],
        notes=(*division.notes, note),
    )
