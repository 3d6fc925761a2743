"""Agree: a step of a secure sum before the last (ConsistencyCheck), where clients have identities, as sites have."""

from dataclasses import dataclass
from typing import Any

from coterie.messages.envelope import Answer, Request, Verb
from coterie.messages.limits import Limits, error_in_hex

SIGNATURE_BYTES = 64


@dataclass(frozen=True)
class AgreeReply(Answer):
    """A signature under who survived, and under what the client was asked in the steps before."""

    wire_name = "Agreed"

    signature: str
    """In hexadecimal digits."""


@dataclass(frozen=True)
class Agree(Verb):
    """Sign who survived: only what most neighbours have signed alike is unmasked."""

    answer_type = AgreeReply

    survivors: tuple[int, ...]
    """Whose masked input came (U3)."""

    def error_in(self, answer: AgreeReply, request: Request, limits: Limits) -> str | None:
        """Check the length; only other clients can judge who signed."""
        return error_in_hex("signature", answer.signature, SIGNATURE_BYTES)

    def largest_answer(self, request: Request, limits: Limits) -> int:
        """Return the digits of a signature."""
        return 2 * SIGNATURE_BYTES

    @classmethod
    def permissions(cls) -> tuple[str, ...]:
        """Name none: the answer depends on no sample."""
        return ()

    def restricted(self) -> dict[str, Any]:
        """Return nothing: who survived is of a round only."""
        return {}
