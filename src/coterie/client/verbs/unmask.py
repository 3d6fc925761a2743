"""Unmask: step 3 of a secure sum."""

from coterie.client.protection import Withheld
from coterie.client.request_handler import RequestHandler
from coterie.messages import Unmask, UnmaskReply
from coterie.secure import reveal, threshold


def answer(handler: RequestHandler, verb: Unmask) -> UnmaskReply:
    """Give one share for each client of the neighbourhood: of the mask of a survivor, or of the key of another.

    The client answers once in a round, and has fixed who shared before it sent its input: so nobody gets both.
    """
    session, survivors = handler.session, frozenset(verb.survivors)
    me, sharers = session.secrets, frozenset(session.sharers)
    if not {me.id} <= survivors <= sharers:
        raise Withheld("the survivors of a secure sum are some who shared secrets, and this client is among them")
    if len(survivors) < session.minimum:
        raise Withheld(f"{len(survivors)} survivors of a secure sum, where {session.minimum} are the fewest")
    if len(survivors & {me.id, *me.neighbours}) < threshold(1 + len(me.neighbours)):
        raise Withheld("too few of this client's neighbours survived")
    near = [j for j in me.neighbours if j in sharers]
    if len(near) != len(verb.messages):
        raise Withheld(f"{len(verb.messages)} messages of {len(near)} neighbours")
    messages = dict(zip(near, map(bytes.fromhex, verb.messages), strict=True))
    shares = reveal(me, messages, survivors, session.clients)
    return UnmaskReply(tuple(shares[j].hex() if j in shares else "" for j in sorted([me.id, *near])))
