"""One client is one real person (LEAF; ALGORITHMS 8.9)."""

from typing import Annotated

import numpy as np
from annotated_types import Ge, Gt, Lt

from coterie.data.federated import Dataset
from coterie.data.partitions.counting import by_owner
from coterie.data.registries import Partition, partition
from coterie.errors import CoterieError


@partition("by-user")
def by_user(
    data: Dataset,
    clients: int,
    rng: np.random.Generator,
    *,
    min_samples: Annotated[int, Ge(1), "Users with fewer samples are left out."] = 10,
    test_share: Annotated[float, Gt(0), Lt(1), "Share of each client's samples that is held out to test it."] = 0.2,
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
    return Partition(by_owner(client_of_user[user_of_sample], clients), own_test=test_share, notes=notes)
