"""Sums of which the server sees no summand, as pure functions: SecAgg+ and what it is made of.

Nothing here asks a client or sends anything. Verbs and the federation use it.
"""

from coterie.secure.graph import degree, neighbours, threshold
from coterie.secure.keys import is_public_key
from coterie.secure.protocol import (
    Participant,
    PublicKeys,
    TooFewShares,
    advertise_keys,
    masked_input,
    remaining_masks,
    reveal,
    share_keys,
)
from coterie.secure.words import Words, decode, encode, zeros

__all__ = [
    "Participant",
    "PublicKeys",
    "TooFewShares",
    "Words",
    "advertise_keys",
    "decode",
    "degree",
    "encode",
    "is_public_key",
    "masked_input",
    "neighbours",
    "remaining_masks",
    "reveal",
    "share_keys",
    "threshold",
    "zeros",
]
