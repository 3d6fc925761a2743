"""Keys: step 0 of a secure sum (AdvertiseKeys)."""

from dataclasses import dataclass, field
from typing import Any

from coterie.messages.envelope import Answer, Request, Verb
from coterie.messages.limits import Limits, error_in_hex
from coterie.messages.params import SENT_IF_SET

KEY_BYTES = 32


@dataclass(frozen=True)
class KeysReply(Answer):
    """The public keys of a client, in hexadecimal digits; they are of one round only."""

    wire_name = "Keys advertised"

    mask: str
    share: str
    signer: str | None = field(default=None, metadata=SENT_IF_SET)
    """The identity that signs them, where clients have one, as sites have."""
    signature: str | None = field(default=None, metadata=SENT_IF_SET)


@dataclass(frozen=True)
class Keys(Verb):
    """Make two fresh pairs of keys for a secure sum, and advertise the public ones."""

    answer_type = KeysReply

    ahead: bool = False
    """For the next round: then it goes with `MaskedTrain`, and saves that round an exchange."""

    def error_in(self, answer: KeysReply, request: Request, limits: Limits) -> str | None:
        """Check the length of both keys, and of a signature; only other clients can judge who signed."""
        return (
            error_in_hex("mask", answer.mask, KEY_BYTES)
            or error_in_hex("share", answer.share, KEY_BYTES)
            or (answer.signer is not None and error_in_hex("signer", answer.signer, KEY_BYTES))
            or (answer.signature is not None and error_in_hex("signature", answer.signature, 2 * KEY_BYTES))
            or None
        )

    def largest_answer(self, request: Request, limits: Limits) -> int:
        """Return the digits of both keys, of an identity and of a signature."""
        return 10 * KEY_BYTES

    @classmethod
    def permissions(cls) -> tuple[str, ...]:
        """Name none: the answer depends on no sample."""
        return ()

    def restricted(self) -> dict[str, Any]:
        """Return nothing: keys tell nothing of samples, whatever round they are for."""
        return {}
