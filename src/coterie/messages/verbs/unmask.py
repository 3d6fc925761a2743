"""Unmask: the last step of a secure sum (Unmasking)."""

from dataclasses import dataclass, field
from typing import Any

from coterie.messages.envelope import Answer, Request, Verb
from coterie.messages.limits import Limits, error_in_hex
from coterie.messages.params import SENT_IF_SET

SHARE_BYTES = 33


@dataclass(frozen=True)
class UnmaskReply(Answer):
    """A share of one secret of each neighbour that has shared, and of the client itself, in order of clients.

    In hexadecimal digits; empty where the neighbour's message can't be read.
    """

    wire_name = "Shares given"

    shares: tuple[str, ...]


@dataclass(frozen=True)
class Unmask(Verb):
    """Give the share of the mask of each neighbour that survived, and of the key of each other one; never of both."""

    answer_type = UnmaskReply

    survivors: tuple[int, ...]
    """Whose masked input came (U3), in order."""
    messages: tuple[str, ...]
    """What the neighbours that have shared encrypted for this client, in order of neighbours."""
    signatures: tuple[str, ...] | None = field(default=None, metadata=SENT_IF_SET)
    """By which the same neighbours agreed, where clients have identities; empty where one did not."""

    def error_in(self, answer: UnmaskReply, request: Request, limits: Limits) -> str | None:
        """Check that there is a share for each message, and an own one."""
        if len(answer.shares) != len(self.messages) + 1:
            return f"{len(answer.shares)} shares, expected {len(self.messages) + 1}"
        errors = (error_in_hex("a share", share, SHARE_BYTES) for share in answer.shares if share)
        return next((error for error in errors if error), None)

    def largest_answer(self, request: Request, limits: Limits) -> int:
        """Return the digits of all shares, and what stands between them."""
        return (2 * SHARE_BYTES + 8) * (len(self.messages) + 1)

    @classmethod
    def permissions(cls) -> tuple[str, ...]:
        """Name none: the answer depends on no sample."""
        return ()

    def restricted(self) -> dict[str, Any]:
        """Return nothing: who survived, and what neighbours sent, are of a round only."""
        return {}
