"""Shares: step 1 of a secure sum (ShareKeys)."""

from dataclasses import dataclass, field
from typing import Any

from coterie.messages.envelope import Answer, Request, Verb
from coterie.messages.limits import Limits, error_in_hex
from coterie.messages.params import SENT_IF_SET

MESSAGE_BYTES = 82
"""Of two shares of 33 bytes, encrypted, with a tag of 16."""


@dataclass(frozen=True)
class SharesReply(Answer):
    """What each neighbour is sent, encrypted for it, in hexadecimal digits and in order of neighbours."""

    wire_name = "Shares made"

    messages: tuple[str, ...]


@dataclass(frozen=True)
class Shares(Verb):
    """Divide a mask and a key among the neighbours, whom the client finds itself among those named."""

    answer_type = SharesReply

    clients: tuple[int, ...]
    """Who advertised keys (U1), in order."""
    masks: tuple[str, ...]
    """The neighbours' public keys for masks, in order of neighbours."""
    shares: tuple[str, ...]
    """Their public keys for shares."""
    ahead: bool = False
    """For the next round: then it goes with `Unmask`, and saves that round an exchange."""
    signers: tuple[str, ...] | None = field(default=None, metadata=SENT_IF_SET)
    """The identities that signed the neighbours' keys, where clients have some."""
    signatures: tuple[str, ...] | None = field(default=None, metadata=SENT_IF_SET)

    def error_in(self, answer: SharesReply, request: Request, limits: Limits) -> str | None:
        """Check that there is a message of the right length for each neighbour."""
        if len(answer.messages) != len(self.masks):
            return f"{len(answer.messages)} messages to {len(self.masks)} neighbours"
        errors = (error_in_hex("a message", message, MESSAGE_BYTES) for message in answer.messages)
        return next((error for error in errors if error), None)

    def largest_answer(self, request: Request, limits: Limits) -> int:
        """Return the digits of all messages, and what stands between them."""
        return (2 * MESSAGE_BYTES + 8) * len(self.masks)

    @classmethod
    def permissions(cls) -> tuple[str, ...]:
        """Name none: the answer depends on no sample."""
        return ()

    def restricted(self) -> dict[str, Any]:
        """Return nothing: who takes part, and their keys, are of a round only."""
        return {}
