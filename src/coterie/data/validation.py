"""Part of the training samples in the place of the test samples: for choosing settings without looking at these."""

from dataclasses import replace

from coterie.data.dividing import held_out, side_by_side
from coterie.data.federated import FederatedData
from coterie.streams import stream


def on_validation(data: FederatedData, share: float, seed: int) -> FederatedData:
    """Hold out a share of each client's training samples, and make it the client's test part.

    The test samples themselves are left behind. Who has two training samples keeps one of them; who has one keeps it
    and is not tested. Where the data drift, the same samples are held out before and after.
    """
    phases = [data.train_parts, *(phase.train_parts for phase in data.drift)]
    halves = [held_out(part, share, stream(seed, "validation", i)) for parts in phases for i, part in enumerate(parts)]
    train, train_parts = side_by_side(data.train, [kept for kept, _ in halves])
    test, test_parts = side_by_side(data.train, [held for _, held in halves])
    ends = range(0, len(phases) * data.clients, data.clients)
    trains, tests = ([parts[a : a + data.clients] for a in ends] for parts in (train_parts, test_parts))
    drift = [replace(phase, train_parts=trains[k], test_parts=tests[k]) for k, phase in enumerate(data.drift, start=1)]
    return replace(
        data, train=train, test=test, train_parts=trains[0], test_parts=tests[0], common_test=False, drift=drift
    )
