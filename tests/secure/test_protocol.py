"""The sum equals the plain one whoever drops out when; else it stays masked."""

from collections.abc import Collection, Mapping, Sequence
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("cryptography")

from coterie.secure import (
    TooFewShares,
    Words,
    advertise_keys,
    masked_input,
    neighbours,
    remaining_masks,
    reveal,
    share_keys,
    threshold,
    zeros,
)

SIZE = (2, 3)
AFTER = ("keys", "shares", "input", "end")
"""After which step a client is gone."""


def inputs(clients: Collection[int], seed: int = 0) -> dict[int, Words]:
    rng = np.random.default_rng(seed)
    return {
        i: Words(rng.integers(0, 2**64, SIZE[0], np.uint64), rng.integers(0, 2**32, SIZE[1], np.uint32))
        for i in clients
    }


def plain_sum(x: Mapping[int, Words], clients: Collection[int]) -> tuple[list[int], list[int]]:
    """In Python's integers."""
    wide = [sum(int(x[i].wide[p]) for i in clients) % 2**64 for p in range(SIZE[0])]
    return wide, [sum(int(x[i].narrow[p]) for i in clients) % 2**32 for p in range(SIZE[1])]


def run(last: Mapping[int, str], x: Mapping[int, Words], round: int = 1) -> tuple[Words, list[int]]:
    """Carry the protocol out, each client being gone after its last step; return the sum, and of whom."""
    people = {i: advertise_keys(i, f"0 {round}") for i in last}
    keys, graph = {i: public for i, (_, public) in people.items()}, neighbours([*last], 0, round)
    u2 = [i for i in last if last[i] != "keys"]
    shared = {i: share_keys(people[i][0], {j: keys[j] for j in graph[i]}) for i in u2}
    u3 = [i for i in u2 if last[i] != "shares"]
    total = zeros(*SIZE)
    for i in u3:
        total.add(masked_input(shared[i][0], x[i], u2))
    u4 = [i for i in u3 if last[i] != "input"]
    revealed = {i: reveal(shared[i][0], {j: shared[j][1][i] for j in graph[i] if j in u2}, u3) for i in u4}
    total.add(remaining_masks(graph, {i: keys[i] for i in u2}, f"0 {round}", u3, revealed, SIZE), -1)
    return total, u3


def check(last: Mapping[int, str]) -> bool:
    """Compare the sum with the plain one; say whether there is one, which must be as the numbers of holders say."""
    x, graph = inputs(last), neighbours([*last], 0, 1)
    helping = {i for i in last if last[i] == "end"}
    u3 = {i for i in last if last[i] in ("input", "end")}
    needed = [j for j in last if j in u3 or (last[j] == "shares" and u3 & {*graph[j]})]
    possible = all(len(helping & {j, *graph[j]}) >= threshold(1 + len(graph[j])) for j in needed)
    try:
        total, survivors = run(last, x)
    except TooFewShares:
        assert not possible, last
        return False
    assert possible, last
    assert (total.wide.tolist(), total.narrow.tolist()) == plain_sum(x, survivors), last
    return True


@pytest.mark.integration
@pytest.mark.parametrize("n", [2, 3])
def test_every_pattern_of_drop_outs(n: int) -> None:
    outcomes = [check(dict(zip((7, 2, 30), pattern, strict=False))) for pattern in product(AFTER, repeat=n)]
    assert any(outcomes)
    assert not all(outcomes)


@pytest.mark.slow
@pytest.mark.parametrize("n", [4, 5, 6])
def test_every_pattern_of_drop_outs_of_more(n: int) -> None:
    assert sum(check(dict(enumerate(pattern))) for pattern in product(AFTER, repeat=n))


@pytest.mark.integration
@settings(max_examples=4, deadline=None)
@given(st.data())
def test_random_drop_outs_of_many(data: st.DataObject) -> None:
    n = data.draw(st.integers(7, 60) | st.integers(61, 100))
    steps = data.draw(st.lists(st.sampled_from((*AFTER, *["end"] * 12)), min_size=n, max_size=n))
    check(dict(zip(range(0, 3 * n, 3), steps, strict=True)))


def test_it_restores_nothing_from_too_few_or_wrong_shares() -> None:
    x, last = inputs(range(5)), dict.fromkeys(range(5), "end")
    with pytest.raises(TooFewShares, match="3 of the 4 shares"):
        run({**last, 0: "input", 1: "input"}, x)
    people = {i: advertise_keys(i, "0 1") for i in range(5)}
    keys, graph = {i: public for i, (_, public) in people.items()}, neighbours(range(5), 0, 1)
    shared = {i: share_keys(people[i][0], {j: keys[j] for j in graph[i]}) for i in range(5)}
    revealed = {i: reveal(shared[i][0], {j: shared[j][1][i] for j in graph[i]}, range(4)) for i in range(4)}
    revealed[2] = {**revealed[2], 4: revealed[1][4]}  # a share of another point
    with pytest.raises(TooFewShares, match="client 4 do not fit"):
        remaining_masks(graph, keys, "0 1", range(4), revealed, SIZE)


def test_who_was_sent_other_bytes_gives_no_share_of_them() -> None:
    people = {i: advertise_keys(i, "0 1") for i in range(3)}
    keys, graph = {i: public for i, (_, public) in people.items()}, neighbours(range(3), 0, 1)
    shared = {i: share_keys(people[i][0], {j: keys[j] for j in graph[i]}) for i in range(3)}
    right = {j: shared[j][1][0] for j in (1, 2)}
    assert reveal(shared[0][0], right, range(3)).keys() == {0, 1, 2}
    changed = bytes([right[1][0] ^ 1]) + right[1][1:]
    assert reveal(shared[0][0], {**right, 1: changed}, range(3)).keys() == {0, 2}
    assert reveal(shared[0][0], {**right, 1: shared[1][1][2]}, range(3)).keys() == {0, 2}  # meant for another


def differences(of: Sequence[Words], base: Words) -> list[int]:
    return [int((words.narrow - base.narrow)[0]) for words in of]


def test_what_a_client_sends_depends_on_fresh_secrets_in_every_round() -> None:
    """The same input looks new each time; without the own mask, or without neighbours, it would not."""
    x = inputs([0, 1, 2])
    seen = []
    for round in (1, 2):
        people = {i: advertise_keys(i, f"0 {round}") for i in range(3)}
        keys, graph = {i: public for i, (_, public) in people.items()}, neighbours(range(3), 0, round)
        me = share_keys(people[0][0], {j: keys[j] for j in graph[0]})[0]
        seen += [masked_input(me, x[0], (0, 1, 2)), masked_input(me, x[0], (0,)), x[0]]
    assert len(set(differences(seen, x[0]))) == 5  # the plain input twice
