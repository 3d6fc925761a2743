"""From a pooled data set to a federated one: the server's set first, then the clients' parts."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from coterie.data.difficulty import some_of
from coterie.data.federated import Dataset, FederatedData, Index, Phase, Samples, measured
from coterie.data.many_streams import permutations
from coterie.data.numbers import check_partition, scaled
from coterie.data.parts import ClientParts, LabelParts, part_sizes, ranges
from coterie.data.registries import PARTITIONS, Partition
from coterie.errors import CoterieError
from coterie.streams import stream

_SERVER_SAMPLES = 2500
_SERVER_FRACTION = 0.05
TEST_FRACTION = 0.2
"""Of a client's samples, where there are none to test on."""

FEW, MANY, AT_ONCE = 64, 1024, 16_384
"""Samples up to which clients are shuffled together, if there are so many of one size; and how many at a time."""
FEWEST_SAMPLES = 30
"""Training samples of a client, on average, that data are divided into unless the user names a number of clients."""


def divide(
    dataset: Dataset,
    partition_name: str,
    options: Mapping[str, Any],
    clients: int | None,
    seed: int,
    *,
    usual_clients: int = 100,
    server_share: float | None = None,
    surplus: int = 1,
    exchangeable: bool = False,
) -> FederatedData:
    """Divide a pooled data set among clients by a registered partition; without a number, as many as fit.

    The server's set is `server_share` of the training samples, by default 5 %, at most 2,500. It depends on the data
    and the seed only, not on the partition or the number of clients.
    In `train` the clients' parts lie one after the other, and nothing else is there. With a `surplus` of k the data are
    cut into k parts per client, and each client gets one. Where samples of a label must be `exchangeable` between
    clients, partitions that show samples to groups in different ways are refused.
    """
    values = PARTITIONS.validate(partition_name, options)
    dataset, target = scaled(dataset)
    if target is not None:
        check_partition(partition_name)
    server = for_server(dataset.train.y, server_share, seed)
    rest, pool = _without(dataset, server)
    if clients is None:
        clients = fitting_clients(pool, partition_name, values, usual_clients, surplus)
    _check_clients(dataset.name, clients, surplus, len(rest), len(server))
    division = PARTITIONS[partition_name](pool, clients * surplus, stream(seed, "partition"), **values)
    if exchangeable and division.concept is not None:
        raise CoterieError(
            f"partition '{partition_name}' shows samples to groups of clients in different ways, so they can't be "
            "exchanged by difficulty: leave out f_ord"
        )
    parts = checked(division, partition_name, len(rest), clients * surplus)
    parts = ClientParts(parts.offsets - parts.offsets[0], rest[parts.together])  # where they are in all samples
    del pool  # it may be a copy of them
    if surplus > 1:
        division = some_of(replace(division, parts=parts), clients, stream(seed, "surplus"))
        parts = ClientParts.of(division.parts)
    names = _client_names(dataset, partition_name, parts)
    parts, test, test_parts = _with_test_parts(dataset, division, parts, seed)
    train, train_parts = side_by_side(dataset.train, parts)
    reserved = dataset.train[server]
    usual = server if server_share is None else for_server(dataset.train.y, None, seed)
    data = FederatedData(
        name=dataset.name,
        classes=dataset.classes,
        train=train,
        test=test,
        train_parts=train_parts,
        test_parts=test_parts,
        common_test=_shares_test_set(dataset, division),
        server=reserved,
        normalise=dataset.normalisation or measured(dataset.train.x[usual]),
        true_groups=division.true_groups,
        notes=(*dataset.notes, *division.notes),
        class_names=dataset.class_names,
        encoding=dataset.encoding,
        target=target,
        client_names=names,
        drawn_tests=_draws_tests(dataset, division),
    )
    return data if division.concept is None else _with_concept(data, division)


def fitting_clients(
    pool: Dataset, partition_name: str, options: Mapping[str, Any], usual: int, surplus: int = 1
) -> int:
    """Return how many clients a data set is divided among where nobody says.

    The usual number, but no more than leaves each `FEWEST_SAMPLES` training samples, or two; divided by user, no more
    than there are users with enough samples.
    """
    if partition_name == "by-user" and pool.users is not None:
        _, sizes = np.unique(pool.users, return_counts=True)
        return max(1, min(usual, int((sizes >= options["min_samples"]).sum()) // surplus))
    return max(min(2, len(pool.train)), min(usual, len(pool.train) // surplus // FEWEST_SAMPLES))


def _client_names(dataset: Dataset, partition_name: str, parts: ClientParts) -> tuple[str, ...]:
    """Return what clients are called, where each is a user that has a name."""
    if partition_name != "by-user" or dataset.users is None or not dataset.user_names:
        return ()
    return tuple(dataset.user_names[dataset.users[part[0]]] for part in parts)


def _shares_test_set(dataset: Dataset, division: Partition) -> bool:
    """Whether clients are tested on parts of a test set for all."""
    seen_alike = division.concept is None or division.tested_on_labels
    return not _draws_tests(dataset, division) and seen_alike


def _draws_tests(dataset: Dataset, division: Partition) -> bool:
    """Whether clients are tested on a part of their own samples."""
    return division.own_test is not None or dataset.test is None


def _check_clients(name: str, clients: int, surplus: int, samples: int, reserved: int) -> None:
    most = samples // surplus
    if not 1 <= clients <= most:
        cut = f", cut into {surplus} parts for each," if surplus > 1 else ","
        raise CoterieError(
            f"{clients} clients cannot share data set '{name}'{cut} which has {samples} training samples "
            f"besides the server's {reserved}: " + (f"use 1 to {most} clients" if most else "lower partition.surplus")
        )


def _without(dataset: Dataset, reserved: Index) -> tuple[Index, Dataset]:
    """Return the positions of the training samples that are not reserved, and a data set that has only these."""
    kept = np.ones(len(dataset.train), bool)
    kept[reserved] = False
    rest = np.flatnonzero(kept)
    users = None if dataset.users is None else dataset.users[rest]
    attributes = None if dataset.attributes is None else dataset.attributes[rest]
    return rest, replace(dataset, train=dataset.train.chosen(rest), users=users, attributes=attributes)


def _with_test_parts(
    dataset: Dataset, division: Partition, parts: ClientParts, seed: int
) -> tuple[ClientParts, Samples, Sequence[Index]]:
    """Return what each client trains on, the test samples of all, and which of them each client is tested on."""
    if dataset.test is None or _draws_tests(dataset, division):
        share = division.own_test or TEST_FRACTION
        training, testing = all_held_out(parts, share, seed, "test part")
        return training, *side_by_side(dataset.train, testing)
    if division.concept is not None and not division.tested_on_labels:
        # Clients see the test set in different ways, so each gets a share of it.
        shares = np.array_split(stream(seed, "test part").permutation(len(dataset.test)), len(parts))
        return parts, *side_by_side(dataset.test, shares)
    test = dataset.test.chosen(np.argsort(dataset.test.y, kind="stable"))
    groups = None if division.concept is None else division.true_groups
    first = np.zeros(len(parts), np.int64) if groups is None else groups * len(test)
    if dataset.of_numbers:
        test_parts: Sequence[Index] = [np.arange(len(test)) + begin for begin in first]
    else:
        test_parts = _parts_of_own_labels(test.y, dataset.train.y, parts, dataset.classes).moved(first)
    if groups is None:
        return parts, test, test_parts
    copies = np.tile(np.arange(len(test)), int(groups.max()) + 1)  # one for each group
    return parts, test.chosen(copies), test_parts


def for_server(y: Index, share: float | None, seed: int) -> Index:
    """Return positions of the server's samples, balanced over classes, ascending."""
    return balanced(y, server_samples(len(y), share), stream(seed, "server set"), spare_half=True)


def server_samples(pooled: int, share: float | None = None) -> int:
    """Return how many of the pooled training samples the server gets, at least one unless the share is 0.

    >>> server_samples(60_000), server_samples(1_000), server_samples(60_000, 0.1), server_samples(60_000, 0)
    (2500, 50, 6000, 0)
    """
    if share is None:
        return max(1, min(_SERVER_SAMPLES, round(_SERVER_FRACTION * pooled)))
    return max(1, round(share * pooled)) if share else 0


def with_server_share(data: FederatedData, share: float | None) -> FederatedData:
    """Leave the server fewer of the samples that came with divided data; clients' parts stay as they are."""
    count, there = server_samples(len(data.train) + len(data.server), share), len(data.server)
    if share is None or count == there:
        return data
    if count > there:
        raise CoterieError(
            f"server_share = {share:g} would be {count} samples, but data set '{data.name}', which comes divided among "
            f"clients, has {there} for the server: lower it, or leave it out"
        )
    return replace(data, server=data.server[balanced(data.server.y, count, stream(0, "server set"))])


def balanced(y: Index, count: int, rng: np.random.Generator, *, spare_half: bool = False) -> Index:
    """Return positions of `count` samples drawn at random, as even over classes as their sizes allow, ascending.

    Classes give one sample each in turn. With `spare_half` more than half of a class is taken last and only
    if there is no other way, so that a rare class is not lost to those who get the rest. Numbers to predict count
    as one class.
    """
    y = np.zeros(len(y), np.int64) if y.dtype.kind == "f" else y
    sizes = np.bincount(y)
    shuffled = rng.permutation(len(y))
    short = y.astype(np.uint16) if len(sizes) <= 2**16 else y  # of which NumPy sorts many much sooner
    by_class = shuffled[np.argsort(short[shuffled], kind="stable")]
    turn = np.arange(len(y)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    turn[turn >= np.repeat(sizes // 2 if spare_half else sizes, sizes)] += len(y)  # those that are taken last
    by_chance, count = rng.random(len(y)), min(count, len(y))
    able = np.flatnonzero(turn <= np.partition(turn, count - 1)[count - 1]) if count else np.zeros(0, np.int64)
    return np.sort(by_class[able[np.lexsort((by_chance[able], turn[able]))[:count]]])


def checked(division: Partition, name: str, samples: int, clients: int) -> ClientParts:
    """Return the parts that a partition made, checked: it may be a user's own."""
    parts = division.parts if isinstance(division.parts, ClientParts) else [np.asarray(p) for p in division.parts]
    if len(parts) != clients:
        raise CoterieError(f"partition '{name}' made {len(parts)} parts for {clients} clients: it must make one each")
    for client, part in enumerate(() if _all_within(parts, samples) else parts):
        fits = part.ndim == 1 and (len(part) == 0 or part.dtype.kind in "iu")
        if not fits or (len(part) and not 0 <= part.min() <= part.max() < samples):
            raise CoterieError(
                f"partition '{name}' gave client {client} something other than positions from 0 to {samples - 1}"
            )
    if division.own_test is not None and not 0 < division.own_test < 1:
        raise CoterieError(
            f"partition '{name}' holds out {division.own_test} of each client's samples: "
            "it must be a share between 0 and 1"
        )
    return ClientParts.of(parts if isinstance(parts, ClientParts) else [part.astype(np.int64) for part in parts])


def _all_within(parts: Sequence[Index], samples: int) -> bool:
    """Say at once whether parts that lie side by side are all positions among so many samples."""
    if not isinstance(parts, ClientParts):
        return False
    every = parts.together
    return every.ndim == 1 and every.dtype.kind in "iu" and every.size > 0 and 0 <= every.min() <= every.max() < samples


def held_out(part: Index, share: float, rng: np.random.Generator) -> tuple[Index, Index]:
    """Hold out a client's test part; a client with two samples trains on one and is tested on the other."""
    count = held_count(len(part), share)
    shuffled = rng.permutation(part)
    return np.sort(shuffled[count:]), np.sort(shuffled[:count])


def held_count(samples: int, share: float) -> int:
    """Return how many of a client's samples are held out."""
    return min(max(1, round(share * samples)), samples - 1) if samples else 0


def all_held_out(parts: Sequence[Index], share: float, seed: int, purpose: str) -> tuple[ClientParts, ClientParts]:
    """Hold out a part of each client's samples; return what all keep, and what is held out."""
    parts = ClientParts.of(parts)
    sizes, whose = np.unique(parts.sizes, return_inverse=True)
    counts = np.array([held_count(size, share) for size in sizes.tolist()], np.int64)
    kept, held = ClientParts.empty((sizes - counts)[whose]), ClientParts.empty(counts[whose])
    for which, (size, count) in enumerate(zip(sizes.tolist(), counts.tolist(), strict=True)):
        members = np.flatnonzero(whose == which)
        if size > FEW or len(members) < MANY:
            for client in members.tolist():
                kept[client][:], held[client][:] = held_out(parts[client], share, stream(seed, purpose, client))
            continue
        for some in (members[i : i + AT_ONCE] for i in range(0, len(members), AT_ONCE)):
            places = parts.offsets[some, None] + permutations(seed, purpose, some, size)
            shuffled = places if parts.positions is None else parts.positions[places]
            for made, taken in ((held, shuffled[:, :count]), (kept, shuffled[:, count:])):
                made.together[made.offsets[some, None] + np.arange(taken.shape[1])] = np.sort(taken, axis=1)
    return kept, held


def side_by_side(samples: Samples, parts: Sequence[Index]) -> tuple[Samples, ClientParts]:
    """Return the samples of all parts, one part after the other, and where each part now is."""
    return samples.chosen(ClientParts.of(parts).together), ranges(parts)


def _parts_of_own_labels(y_test: Index, y: Index, parts: ClientParts, classes: int) -> LabelParts:
    """Per client, all test samples whose label it has in training (ALGORITHMS 0.4); `y_test` is sorted."""
    owned = np.zeros((len(parts), classes), bool)
    owned[parts.owners, y[parts.together]] = True
    return LabelParts(np.searchsorted(y_test, np.arange(classes + 1)), owned)


def _with_concept(data: FederatedData, division: Partition) -> FederatedData:
    """Let each client see its samples as its group does, later perhaps as the next group does (ALGORITHMS 8.12)."""
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
    train_parts, test_parts = ClientParts.of(data.train_parts), data.test_parts
    if isinstance(test_parts, LabelParts):  # the copy of a group is there for all who see it so
        each = len(data.test) // (groups.max() + 1)
        views = [np.arange(len(data.test)) // each]
        tested: list[Sequence[Index]] = [test_parts.moved(each * (group - groups)) for group in seen[1:]]
    else:
        views = [_per_sample(group, test_parts) for group in seen]
        tested = [ClientParts.of(test_parts).moved(len(data.test)) for _ in seen[1:]]
    later = [
        Phase(int(division.drift_at or 0), train_parts.moved(len(data.train)), parts, group)
        for group, parts in zip(seen[1:], tested, strict=True)
    ]
    tests = [concept(data.test, view) for view in views]
    return replace(
        data,
        train=_joined(trains),
        test=_joined(tests),
        server=server,
        test_views=np.concatenate(views),
        drift=later,
    )


def _joined(pieces: Sequence[Samples]) -> Samples:
    if len(pieces) == 1:
        return pieces[0]
    return Samples(np.concatenate([p.x for p in pieces]), np.concatenate([p.y for p in pieces]))


def _per_sample(group: Index, parts: Sequence[Index]) -> Index:
    """Return the group of each sample, from that of each client; the parts lie one after the other."""
    return np.repeat(group, part_sizes(parts))


def on_validation(data: FederatedData, share: float, seed: int) -> FederatedData:
    """Hold out a share of each client's training samples, and make it the client's test part.

    The test samples themselves are dropped. A client with two training samples keeps one; a client with one keeps it
    and is not tested. Where the data drift, the same samples are held out before and after.
    """
    phases = [data.train_parts, *(phase.train_parts for phase in data.drift)]
    halves = [all_held_out(parts, share, seed, "validation") for parts in phases]
    train, train_parts = side_by_side(data.train, [part for kept, _ in halves for part in kept])
    test, test_parts = side_by_side(data.train, [part for _, held in halves for part in held])
    ends = range(0, len(phases) * data.clients, data.clients)
    trains, tests = ([parts[a : a + data.clients] for a in ends] for parts in (train_parts, test_parts))
    drift = [replace(phase, train_parts=trains[k], test_parts=tests[k]) for k, phase in enumerate(data.drift, start=1)]
    return replace(
        data,
        train=train,
        test=test,
        train_parts=trains[0],
        test_parts=tests[0],
        common_test=False,
        test_views=_views_of_parts(data, test_parts),
        drift=drift,
        drawn_tests=True,
    )


def _views_of_parts(data: FederatedData, test_parts: Sequence[Index]) -> Index | None:
    """Return as which group sees it each test sample is there: those of all clients, one phase after the other."""
    groups = [data.true_groups, *(phase.true_groups for phase in data.drift)]
    known = [group for group in groups if group is not None]
    if data.test_views is None or len(known) < len(groups):
        return None
    return np.repeat(np.concatenate(known), part_sizes(test_parts))
