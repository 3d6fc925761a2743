"""Keys: step 0 of a secure sum (AdvertiseKeys)."""

from dataclasses import dataclass
from typing import Any

from coterie.messages.envelope import Answer, Request, Verb
from coterie.messages.limits import Limits, error_in_hex

KEY_BYTES = 32


@dataclass(frozen=True)
class KeysReply(Answer):
    """The public keys of a client, in hexadecimal digits; they are of one round only."""

    wire_name = "Keys advertised"

    mask: str
    share: str


@dataclass(frozen=True)
class Keys(Verb):
    """Make two fresh pairs of keys for a secure sum, and advertise the public ones."""

    answer_type = KeysReply

    ahead: bool = False
    """For the next round: then it goes with `MaskedTrain`, and saves that round an exchange."""

    def error_in(self, answer: KeysReply, request: Request, limits: Limits) -> str | None:
        """Check the length of both keys."""
        return error_in_hex("mask", answer.mask, KEY_BYTES) or error_in_hex("share", answer.share, KEY_BYTES)

    def largest_answer(self, request: Request, limits: Limits) -> int:
        """Return the digits of both keys."""
        return 4 * KEY_BYTES

    @classmethod
    def permissions(cls) -> tuple[str, ...]:
        """Name none: the answer depends on no sample."""
        return ()

    def restricted(self) -> dict[str, Any]:
        """Return nothing: keys tell nothing of samples, whatever round they are for."""
        return {}
