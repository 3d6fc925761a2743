"""Unmask: the last step of a secure sum."""

from coterie.client.peers import Peers
from coterie.client.protection import Withheld
from coterie.client.request_handler import RequestHandler
from coterie.client.sessions import SecureSession
from coterie.errors import counted
from coterie.messages import Unmask, UnmaskReply
from coterie.secure import reveal, threshold


def answer(handler: RequestHandler, verb: Unmask) -> UnmaskReply:
    """Give one share for each client of the neighbourhood: of the mask of a survivor, or of the key of another.

    The client answers once in a round, and has fixed who shared before it sent its input: so nobody gets both.
    """
    session, survivors = handler.session, frozenset(verb.survivors)
    session.check(survivors)
    me, sharers = session.secrets, frozenset(session.sharers)
    near = [j for j in me.neighbours if j in sharers]
    if len(near) != len(verb.messages):
        raise Withheld(f"{len(verb.messages)} messages of {len(near)} neighbours")
    if handler.peers is not None:
        _check_agreement(handler.peers, session, verb, near)
    messages = dict(zip(near, map(bytes.fromhex, verb.messages), strict=True))
    shares = reveal(me, messages, survivors, session.clients)
    return UnmaskReply(tuple(shares[j].hex() if j in shares else "" for j in sorted([me.id, *near])))


def _check_agreement(peers: Peers, session: SecureSession, verb: Unmask, near: list[int]) -> None:
    """Refuse to unmask what two thirds of the neighbourhood have not signed as this client has."""
    if not session.agreed or {*session.agreed} != {*verb.survivors}:
        raise Withheld("this client has not signed that these are the survivors of a secure sum")
    given = verb.signatures or ()
    if len(given) != len(near):
        raise Withheld(f"{len(given)} signatures of {len(near)} neighbours")
    others = {j: signature for j, signature in zip(near, given, strict=True) if signature}
    alike, least = 1 + peers.count_signed(others, session.agreement), threshold(1 + len(session.secrets.neighbours))
    if alike < least:
        raise Withheld(
            f"the same survivors and question are signed by {counted(alike, 'client')}, where {least} must have signed"
        )
