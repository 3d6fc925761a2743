"""Clients of very different sizes: real people (LEAF), and FedGroup's MNIST and FEMNIST (ALGORITHMS 8.9)."""

from typing import Annotated

import numpy as np
from annotated_types import Ge, Gt, Le, Lt

from coterie.data.federated import Dataset, Index
from coterie.data.partitions.by_attribute import attribute_groups
from coterie.data.partitions.counting import Owned, Shares, Table, by_owner, dealt, unowned_note
from coterie.data.registries import Partition, partition
from coterie.errors import CoterieError

TestShare = Annotated[float, Gt(0), Lt(1), "Share of each client's samples that is held out to test it."]


@partition("power-law")
def power_law(
    data: Dataset,
    clients: int,
    rng: np.random.Generator,
    *,
    classes: Annotated[int, Ge(1), "Labels that each client has."] = 2,
    sigma: Annotated[float, Ge(0), Le(20), "Deviation of the logarithm of shares: the larger, the more uneven."] = 2.0,
    min_samples: Annotated[int, Ge(1), "Samples of each of its labels that each client has at least."] = 5,
    test_share: TestShare = 0.1,
) -> Partition:
    """Client u has the labels u, u + 1, ..., with sizes that follow a power law, as FedGroup divides MNIST.

    Of each of its labels a client gets `min_samples` first, and a log-normal share of the rest, rounded down;
    the few samples that rounding leaves over, half a sample per client and label on average, are not used.
    FedGroup pools the training and the test part of MNIST; here the training part alone is divided, without
    the server's set, and each client is tested on a share of its own samples.
    """
    y = data.train.y
    labels, sizes = np.unique(y, return_counts=True)
    owned = _consecutive("power-law", clients, len(labels), classes)
    _check_stock("power-law", owned, labels, sizes, min_samples, "min_samples")
    weights = np.where(owned, rng.lognormal(0.0, sigma, owned.shape), 0.0)
    table = min_samples * owned + _shared(weights, sizes - min_samples * owned.sum(axis=0))
    notes = unowned_note("power-law", labels, sizes, table)
    return Partition(dealt(y, labels, table, rng), own_test=test_share, notes=notes)


@partition("femnist-200")
def femnist_200(
    data: Dataset,
    clients: int,
    rng: np.random.Generator,
    *,
    classes: Annotated[int, Ge(1), "Labels that each client has."] = 3,
    labels: Annotated[int, Ge(1), "Labels in use, the first ones; the samples of others are left out."] = 10,
    per_label: Annotated[int, Ge(1), "Samples of a label that are used at most."] = 4000,
    test_share: TestShare = 0.1,
) -> Partition:
    """Client u has the labels u, u + 1, u + 2 of the first ten, and a log-normal size, as FedGroup divides FEMNIST.

    Sizes are LogNormal(4, 1) + 5, in equal parts for its labels, at least 2 samples each. FedGroup has 200
    clients. Where a label has not enough samples for all, what its owners want beyond 2 is cut down in proportion.
    """
    y = data.train.y
    used, sizes = np.unique(y, return_counts=True)
    used, sizes = used[:labels], np.minimum(sizes[:labels], per_label)
    owned = _consecutive("femnist-200", clients, len(used), classes)
    _check_stock("femnist-200", owned, used, sizes, 2)
    wanted = np.floor((rng.lognormal(4.0, 1.0, clients) + 5) / classes)
    beyond = np.where(owned, np.maximum(wanted - 2, 0)[:, None], 0.0)
    left = sizes - 2 * owned.sum(axis=0)
    table = 2 * owned + np.where(beyond.sum(axis=0) <= left, beyond.astype(np.int64), _shared(beyond, left))
    notes = unowned_note("femnist-200", used, sizes, table)
    return Partition(dealt(y, used, table, rng), own_test=test_share, notes=notes)


def _consecutive(name: str, clients: int, labels: int, each: int) -> Owned:
    """Return who has which labels: client u those from u on, the first following the last."""
    if each > labels:
        raise CoterieError(f"partition '{name}': classes = {each}, but there are {labels} labels: use at most {labels}")
    return (np.arange(labels) - np.arange(clients)[:, None]) % labels < each


def _check_stock(name: str, owned: Owned, labels: Index, sizes: Index, minimum: int, option: str | None = None) -> None:
    """Refuse what leaves an owner of a label with fewer samples of it than the minimum, which may be an option."""
    owners = owned.sum(axis=0)
    short = np.flatnonzero(minimum * owners > sizes)
    if len(short) == 0:
        return
    enough = int((minimum * np.cumsum(owned, axis=0) <= sizes).all(axis=1).sum())
    remedies = [f"at most {enough} clients"] if enough else []
    fewer = int((sizes // np.maximum(owners, 1))[owners > 0].min())
    if option and fewer:
        remedies.append(f"{option} = {fewer}")
    worst = short[np.argmax(owners[short] * minimum - sizes[short])]
    raise CoterieError(
        f"partition '{name}': {owners[worst]} of {len(owned)} clients have the label {labels[worst]}, with at least "
        f"{minimum} samples of it each, but there are {sizes[worst]}: "
        f"use {', or '.join(remedies) or 'fewer classes per client'}"
    )


def _shared(weights: Shares, sizes: Index) -> Table:
    """Return how many samples of each label each client gets if they are shared by weight, rounded down."""
    total = weights.sum(axis=0)
    return np.floor(weights * (sizes / np.where(total > 0, total, 1.0))).astype(np.int64)


@partition("by-user")
def by_user(
    data: Dataset,
    clients: int,
    rng: np.random.Generator,
    *,
    min_samples: Annotated[int, Ge(1), "Users with fewer samples are left out."] = 10,
    test_share: TestShare = 0.2,
    group_by: Annotated[
        int | str | None,
        "Attributes, by name or column, with + between them: a user's group is what most samples have.",
    ] = None,
) -> Partition:
    """Every client is one user, such as a writer, with all samples that this user made.

    The users are drawn at random from those with enough samples, and keep their order. What the users made
    differs from person to person, so each client is tested on samples of its own, also where the data set
    has a test part.
    """
    if data.users is None:
        raise CoterieError(
            f"partition 'by-user' needs to know who made each sample, which data set '{data.name}' does not say: "
            "use another partition, or add 'user_train' to the .npz file"
        )
    users, user_of_sample, sizes = np.unique(data.users, return_inverse=True, return_counts=True)
    eligible = np.flatnonzero(sizes >= min_samples)
    if clients > len(eligible):
        largest_first = np.sort(sizes)[::-1]
        remedies = [f"at most {len(eligible)} clients"] if len(eligible) else []
        if clients <= len(users):
            remedies.append(f"min_samples = {largest_first[clients - 1]}")
        elif not remedies:
            remedies.append(f"at most {len(users)} clients and min_samples = {largest_first[-1]}")
        raise CoterieError(
            f"partition 'by-user': data set '{data.name}' has {len(eligible)} users with at least {min_samples} "
            f"samples, too few for {clients} clients: use {', or '.join(remedies)}"
        )
    drawn = np.sort(rng.permutation(eligible)[:clients])
    client_of_user = np.full(len(users), -1)
    client_of_user[drawn] = np.arange(clients)
    notes = []
    if clients < len(users):
        fewer = len(users) - len(eligible)
        notes.append(
            f"partition 'by-user': {clients} of {len(users)} users were drawn"
            + (f"; {fewer} with fewer than {min_samples} samples were left out before" if fewer else "")
        )
    parts = by_owner(client_of_user[user_of_sample], clients)
    groups = None if group_by is None else attribute_groups(data, str(group_by), parts, "by-user")
    return Partition(parts, groups, own_test=test_share, notes=notes)
