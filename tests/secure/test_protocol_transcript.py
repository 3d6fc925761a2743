"""What a server that records everything can make of it: nothing that depends on one input beyond the sum.

From all that it was sent it takes the masks that it can restore. What is left of each input must be uniform, and new in
every round, whatever the input was. Broken protocols show that the test would notice.
"""

from collections.abc import Callable, Sequence

import numpy as np
import pytest

pytest.importorskip("cryptography")

from coterie.secure import (
    Participant,
    PublicKeys,
    Words,
    advertise_keys,
    masked_input,
    neighbours,
    remaining_masks,
    reveal,
    share_keys,
    zeros,
)
from coterie.secure.shamir import combine
from coterie.secure.words import mask

SIZE = (4096, 4096)
"""Numbers modulo 2⁶⁴, and modulo 2³²."""
CLIENTS = range(5)
Broken = Callable[[Participant, Words, Sequence[int]], Words]


class Round:
    """One sum of five clients, of whom the last drops out after sharing; and what the server has seen of it."""

    def __init__(self, x: Sequence[Words], send: Broken = masked_input, people: "Round | None" = None) -> None:
        if people is None:
            advertised = {i: advertise_keys(i, "0 1") for i in CLIENTS}
            self.keys: dict[int, PublicKeys] = {i: keys for i, (_, keys) in advertised.items()}
            self.graph = neighbours(CLIENTS, 0, 1)
            near = {i: {j: self.keys[j] for j in self.graph[i]} for i in CLIENTS}
            self.shared = {i: share_keys(advertised[i][0], near[i]) for i in CLIENTS}
        else:
            self.keys, self.graph, self.shared = people.keys, people.graph, people.shared
        self.survivors = CLIENTS[:-1]
        self.y = {i: send(self.shared[i][0], x[i], CLIENTS) for i in self.survivors}

    def given(self, i: int, survivors: Sequence[int]) -> dict[int, bytes]:
        """What a client gives in the last step."""
        return reveal(self.shared[i][0], {j: self.shared[j][1][i] for j in self.graph[i]}, survivors)

    def sum(self) -> Words:
        total = zeros(*SIZE)
        for y in self.y.values():
            total.add(y)
        revealed = {i: self.given(i, self.survivors) for i in self.survivors}
        total.add(remaining_masks(self.graph, self.keys, "0 1", self.survivors, revealed, SIZE), -1)
        return total

    def residue(self, i: int) -> Words:
        """What is left of an input without the own mask, which the server restores of each survivor."""
        revealed = {holder: self.given(holder, self.survivors)[i] for holder in self.survivors}
        return minus(self.y[i], mask(combine(dict(list(revealed.items())[:4])), *SIZE))


def inputs(spread: int) -> list[Words]:
    """Small numbers of which all have the same sum, whatever the spread between clients is."""
    values = [1000 + spread * sign for sign in (1, -1, 2, -2, 0)]
    return [constant(value) for value in values]


def constant(value: int) -> Words:
    return Words(np.full(SIZE[0], value % 2**64, np.uint64), np.full(SIZE[1], value % 2**32, np.uint32))


def minus(a: Words, b: Words) -> Words:
    return Words(a.wide - b.wide, a.narrow - b.narrow)


def same(a: Words, b: Words) -> bool:
    return a.wide.tolist() == b.wide.tolist() and a.narrow.tolist() == b.narrow.tolist()


def uniform(words: Words) -> bool:
    """Chi-square of the upper four bits: beyond 60, with 15 degrees of freedom, in fewer than one of a million."""
    upper = (words.wide >> np.uint64(60)).astype(int), (words.narrow >> 28).astype(int)
    expected = len(words.narrow) / 16
    counts = np.stack([np.bincount(bits, minlength=16) for bits in upper])
    return bool((np.square(counts - expected).sum(axis=1) / expected < 60).all())


def leaks(first: Round, second: Round) -> bool:
    """Whether anything in two rounds tells of one client."""
    left = [[round.residue(i) for i in round.survivors] for round in (first, second)]
    return not all(map(uniform, (*left[0], *left[1], *map(minus, *left))))


@pytest.mark.integration
def test_nothing_is_left_of_an_input_but_the_sum() -> None:
    first, second = Round(inputs(0)), Round(inputs(300))
    assert not leaks(first, second)
    assert same(first.sum(), constant(4000))
    assert same(second.sum(), constant(4000))


def without_neighbours(me: Participant, x: Words, sharers: Sequence[int]) -> Words:
    return masked_input(me, x, [me.id])


@pytest.mark.integration
def test_the_test_notices_masks_that_are_left_out_or_used_twice() -> None:
    sound = Round(inputs(300))
    assert leaks(sound, Round(inputs(300), without_neighbours))
    assert leaks(sound, Round(inputs(0), people=sound))
    assert uniform(
        minus(sound.y[0], mask(sound.shared[0][0].seed, *SIZE))
    )  # what the own mask adds to: without it a late input would be open


def without_one(me: Participant, x: Words, sharers: Sequence[int]) -> Words:
    """Leave out the mask that clients 0 and 1 have in common."""
    others = {0: 1, 1: 0}
    return masked_input(me, x, [j for j in sharers if j != others.get(me.id)])


def open_to_helpers(seen: Round, i: int, helpers: Sequence[int]) -> Words:
    """What is left of an input if neighbours tell the server the masks that they have in common with a client."""
    me = seen.shared[i][0]
    alone = masked_input(me, zeros(*SIZE), [i])
    common = minus(masked_input(me, zeros(*SIZE), [i, *helpers]), alone)  # as the helpers would make them
    return minus(seen.residue(i), common)


@pytest.mark.integration
def test_one_neighbour_that_does_not_help_the_server_hides_an_input() -> None:
    """And the test notices that one mask is left out: then the input itself is there, though the sum is the same."""
    sound, broken = Round(inputs(300)), Round(inputs(300), without_one)
    assert same(sound.sum(), constant(4000))
    assert same(broken.sum(), constant(4000))
    for i, other in ((0, 1), (1, 0)):
        helpers = [j for j in CLIENTS if j not in (i, other)]
        assert uniform(open_to_helpers(sound, i, helpers))
        assert same(open_to_helpers(broken, i, helpers), inputs(300)[i])


def without_own(me: Participant, x: Words, sharers: Sequence[int]) -> Words:
    masked = masked_input(me, x, sharers)
    return minus(masked, mask(me.seed, *SIZE)) if me.id == 0 else masked


@pytest.mark.integration
def test_without_its_own_mask_an_input_would_be_open_to_who_says_that_it_came_late() -> None:
    """Its key is restored as that of one who dropped out; then the input comes after all. Such a sum is wrong, too."""
    x = inputs(300)
    for send, shown in ((masked_input, False), (without_own, True)):
        seen = Round(x, send)
        key = combine({i: seen.given(i, [1, 2, 3])[0] for i in CLIENTS[1:]})
        thief = Participant(0, "0 1", key, b"", bytes(32), b"", {j: seen.keys[j] for j in CLIENTS[1:]})
        common = minus(masked_input(thief, zeros(*SIZE), CLIENTS), mask(bytes(32), *SIZE))
        left = minus(seen.y[0], common)
        assert same(left, x[0]) == shown
        assert uniform(left) != shown
        assert same(seen.sum(), constant(4000)) != shown


@pytest.mark.integration
def test_both_shares_of_a_client_would_open_its_input() -> None:
    """Why a client answers once: told also that client 0 has not survived, its neighbours open what it sent."""
    x, others = inputs(300), CLIENTS[1:]
    seen = Round(x)
    key = combine({i: seen.given(i, [1, 2, 3])[0] for i in others})  # holder i of five is at position i
    thief = Participant(0, "0 1", key, b"", bytes(32), b"", {j: seen.keys[j] for j in others})
    masks = minus(masked_input(thief, zeros(*SIZE), CLIENTS), mask(bytes(32), *SIZE))
    assert same(minus(seen.residue(0), masks), x[0])
