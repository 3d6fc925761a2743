"""SecAgg+ (Bell et al., CCS 2020, after Bonawitz et al., CCS 2017): a sum of which nobody sees the summands.

The steps are the paper's. U1 are the clients that advertised keys, U2 those of them that shared secrets, U3 those that
sent a masked input, the survivors, and U4 those that helped to unmask the sum:

    y_i = x_i + PRG(b_i) + Σ_{j > i} PRG(s_ij) − Σ_{j < i} PRG(s_ij)      over the neighbours j in U2

Of a survivor its b_i is restored, of a client that shared and then dropped out its mask key, from which the s_ij
follow; never both. Two pairs of keys: were the one that is restored also that of the encrypted shares, the server
could read the shares that its owner held.

A server that is not honest could tell clients different things. So what a client shares can be read only by those who
were told of the same U1 (`clients`), and masks of two clients cancel only if both were asked the same (`question`).
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import NamedTuple

from coterie.secure.graph import threshold
from coterie.secure.keys import SecretKey, decrypted, encrypted, new_pair
from coterie.secure.shamir import SHARE_BYTES, combine, split
from coterie.secure.words import Words, add_mask, zeros

Graph = Mapping[int, Sequence[int]]
"""The neighbours of each client."""


class PublicKeys(NamedTuple):
    """What a client advertises."""

    mask: bytes
    share: bytes


@dataclass(frozen=True)
class Participant:
    """What a client keeps to itself in one round, and to nobody else in any other."""

    id: int
    context: str
    """Names the sum: keys that are agreed on hold for no other."""
    mask_key: bytes = field(repr=False)
    share_key: bytes = field(repr=False)
    seed: bytes = field(default=b"", repr=False)
    """b_i."""
    own_shares: bytes = field(default=b"", repr=False)
    """Those of its own secrets that it holds itself."""
    neighbours: Mapping[int, PublicKeys] = field(default_factory=dict)


class TooFewShares(Exception):
    """A secret of which too few holders gave their shares, or wrong ones: the sum stays masked."""


def holders(graph: Graph, client: int) -> list[int]:
    """Return who holds shares of a client's secrets: its neighbours and itself, in order."""
    return sorted([client, *graph[client]])


def advertise_keys(id: int, context: str) -> tuple[Participant, PublicKeys]:
    """Step 0: make two fresh pairs of keys, and advertise the public ones."""
    masks, shares = new_pair(), new_pair()
    return Participant(id, context, masks.secret, shares.secret), PublicKeys(masks.public, shares.public)


def share_keys(
    me: Participant, keys: Mapping[int, PublicKeys], clients: Collection[int] = ()
) -> tuple[Participant, dict[int, bytes]]:
    """Step 1: draw b_i, and divide it and the mask key among the neighbours, whose keys these are, and oneself.

    Return what each neighbour is sent, encrypted for it. Keys that are none raise a ValueError, also those that only
    the next step will need.
    """
    mask_key, share_key = SecretKey(me.mask_key), SecretKey(me.share_key)
    for j in keys:
        _mask_key(mask_key, keys[j].mask, me.context, me.id, j)
    seed, who = new_pair().secret, sorted([me.id, *keys])
    least = threshold(len(who))
    both = zip(split(me.mask_key, len(who), least), split(seed, len(who), least), strict=True)
    shares = dict(zip(who, (key_share + seed_share for key_share, seed_share in both), strict=True))
    context = _among(me.context, clients)
    sent = {j: encrypted(_share_key(share_key, keys[j].share, context, me.id, j), shares[j]) for j in keys}
    return replace(me, seed=seed, own_shares=shares[me.id], neighbours=dict(keys)), sent


def masked_input(me: Participant, x: Words, sharers: Collection[int], question: str = "") -> Words:
    """Step 2: hide an input behind the own mask, and one for each neighbour in U2, which the neighbour's cancels."""
    y, secret = Words(x.wide.copy(), x.narrow.copy()), SecretKey(me.mask_key)
    add_mask(y, me.seed)
    for j, keys in me.neighbours.items():
        if j in sharers:
            common = _mask_key(secret, keys.mask, f"{me.context} {question}", me.id, j)
            add_mask(y, common, 1 if me.id < j else -1)
    return y


def reveal(
    me: Participant, messages: Mapping[int, bytes], survivors: Collection[int], clients: Collection[int] = ()
) -> dict[int, bytes]:
    """Step 3: of each neighbour in U2, and of oneself, give the share of b_j if it survived, else that of its key.

    `messages` are what the neighbours in U2 encrypted in step 1; what can't be read is left out.
    """
    shares, secret, context = {me.id: me.own_shares}, SecretKey(me.share_key), _among(me.context, clients)
    for j, message in messages.items():
        text = decrypted(_share_key(secret, me.neighbours[j].share, context, j, me.id), message)
        if text is not None and len(text) == 2 * SHARE_BYTES:
            shares[j] = text
    return {j: both[SHARE_BYTES:] if j in survivors else both[:SHARE_BYTES] for j, both in sorted(shares.items())}


def remaining_masks(
    graph: Graph,
    keys: Mapping[int, PublicKeys],
    context: str,
    survivors: Collection[int],
    revealed: Mapping[int, Mapping[int, bytes]],
    size: tuple[int, int],
    question: str = "",
) -> Words:
    """Step 4, the server's: return what is left of the masks in the sum of what the survivors sent.

    `keys` are those of U2, `revealed` what each of U4 gave in step 3, by whose secret it is a share of.
    """
    total = zeros(*size)
    for j in keys:
        if j in survivors:
            add_mask(total, _restored(graph, j, revealed))
            continue
        orphaned = [i for i in graph[j] if i in survivors]
        if not orphaned:
            continue
        secret = SecretKey(_restored(graph, j, revealed))
        if secret.public != keys[j].mask:
            raise TooFewShares(f"the shares of the key of client {j} do not fit")
        for i in orphaned:
            add_mask(total, _mask_key(secret, keys[i].mask, f"{context} {question}", i, j), 1 if i < j else -1)
    return total


def _restored(graph: Graph, client: int, revealed: Mapping[int, Mapping[int, bytes]]) -> bytes:
    """Return a secret of a client from as many shares as that takes."""
    who = holders(graph, client)
    least = threshold(len(who))
    given = {position: revealed[i][client] for position, i in enumerate(who) if client in revealed.get(i, {})}
    if len(given) < least:
        raise TooFewShares(f"{len(given)} of the {least} shares that a secret of client {client} takes")
    return combine(dict(list(given.items())[:least]))


def _among(context: str, clients: Collection[int]) -> str:
    """Name a sum of these clients."""
    return f"{context} of {sha256(repr(sorted(clients)).encode()).hexdigest()}"


def _mask_key(secret: SecretKey, public: bytes, context: str, i: int, j: int) -> bytes:
    """Return s_ij, which is s_ji."""
    return secret.agreed(public, f"coterie mask {context} {min(i, j)} {max(i, j)}".encode())


def _share_key(secret: SecretKey, public: bytes, context: str, sender: int, receiver: int) -> bytes:
    """Return the key of what one client sends the other."""
    return secret.agreed(public, f"coterie shares {context} {sender} {receiver}".encode())
