"""Test parts of many clients, who are shuffled together, are those that each would have alone."""

import numpy as np
import pytest

from coterie.data import many_streams
from coterie.data.dividing import MANY, all_held_out, held_out
from coterie.data.many_streams import permutations
from coterie.data.parts import ClientParts
from coterie.streams import stream


@pytest.mark.parametrize("n", [0, 1, 2, 5, 23, 64])
def test_shuffles_of_many_streams_are_those_of_each(n: int) -> None:
    clients = np.array([*range(200), 2**31, 2**32 - 1])
    alone = [stream(7, "test part", client).permutation(n).tolist() for client in clients.tolist()]
    assert permutations(7, "test part", clients, n).tolist() == alone
    assert many_streams._as_numpy_does()  # else each was made alone here too


@pytest.mark.parametrize("seed", [2**40, 0])
def test_a_seed_that_does_not_fit_and_another_numpy_are_no_obstacle(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(many_streams, "_as_numpy_does", lambda: False)
    clients = np.arange(3)
    alone = [stream(seed, "test part", client).permutation(9).tolist() for client in clients]
    assert permutations(seed, "test part", clients, 9).tolist() == alone


@pytest.mark.parametrize("side_by_side", [True, False])
def test_parts_of_clients_of_several_sizes_are_those_that_each_has_alone(side_by_side: bool) -> None:
    rng = np.random.default_rng(0)
    sizes = rng.permutation(np.repeat([0, 1, 2, 20, 70], [2, 5, MANY + 50, MANY + 70, 3]))
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    parts = ClientParts(offsets, None if side_by_side else rng.permutation(offsets[-1]))
    kept, held = all_held_out(parts, 0.2, 3, "test part")
    assert (len(kept), len(held)) == (len(sizes), len(sizes))
    for client, part in enumerate(parts):
        training, testing = held_out(part, 0.2, stream(3, "test part", client))
        assert np.array_equal(kept[client], training)
        assert np.array_equal(held[client], testing)
