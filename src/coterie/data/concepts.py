"""Concept shift and drift: groups of clients that see the same samples in their own ways (ALGORITHMS 8.12)."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from coterie.data.federated import FederatedData, Index, Phase, Samples
from coterie.data.registries import Partition


def turned(samples: Samples, group: Index) -> Samples:
    """Group g sees the images turned counter-clockwise by g right angles."""
    x = samples.x.copy()
    for turns in np.unique(group % 4):
        chosen = group % 4 == turns
        x[chosen] = np.rot90(x[chosen], turns, axes=(2, 3))
    return Samples(x, samples.y)


def renamed(names: Index, samples: Samples, group: Index) -> Samples:
    """Group g calls class c by the name ``names[g, c]``."""
    return Samples(samples.x, names[group, samples.y])


def with_concept(data: FederatedData, division: Partition) -> FederatedData:
    """Let each client see its samples as its group does, later perhaps as the next group does."""
    concept, groups = division.concept, division.true_groups
    if concept is None or groups is None:
        return data
    server = data.server
    if division.on_server:
        # The server's set represents the union: within each class the ways follow each other in turn.
        turn = np.empty(len(server), np.int64)
        turn[np.argsort(server.y, kind="stable")] = np.arange(len(server)) % (groups.max() + 1)
        server = concept(server, turn)
    seen = [groups]
    if division.drift_at is not None:
        seen.append((groups + 1) % (groups.max() + 1))
    trains = [concept(data.train, _per_sample(group, data.train_parts)) for group in seen]
    tests = [concept(data.test, _per_sample(group, data.test_parts)) for group in seen]
    later = [
        Phase(
            int(division.drift_at or 0),
            [part + len(data.train) for part in data.train_parts],
            [part + len(data.test) for part in data.test_parts],
            group,
        )
        for group in seen[1:]
    ]
    return replace(data, train=_joined(trains), test=_joined(tests), server=server, drift=later)


def _joined(pieces: Sequence[Samples]) -> Samples:
    if len(pieces) == 1:
        return pieces[0]
    return Samples(np.concatenate([p.x for p in pieces]), np.concatenate([p.y for p in pieces]))


def _per_sample(group: Index, parts: Sequence[Index]) -> Index:
    """Return the group of each sample, from that of each client."""
    of_sample = np.empty(sum(map(len, parts)), np.int64)
    for client, part in enumerate(parts):
        of_sample[part] = group[client]
    return of_sample
