"""Shares: step 1 of a secure sum."""

from coterie.client.protection import Withheld
from coterie.client.request_handler import RequestHandler
from coterie.messages import Shares, SharesReply
from coterie.messages.masking import LEAST
from coterie.secure import PublicKeys, neighbours, share_keys


def answer(handler: RequestHandler, verb: Shares) -> SharesReply:
    """Share secrets with the neighbours, whom no server chooses: the graph follows from who takes part."""
    request, session, clients = handler.request, handler.session, verb.clients
    if handler.id not in clients or len({*clients}) != len(clients) or len(clients) < LEAST:
        raise Withheld(f"a secure sum of {len({*clients})} clients: it takes {LEAST}, and this one among them")
    near = neighbours(clients, request.seed, request.round)[handler.id]
    keys = [PublicKeys(*map(bytes.fromhex, both)) for both in zip(verb.masks, verb.shares, strict=False)]
    if not len(near) == len(verb.masks) == len(verb.shares) or len({*keys}) != len(keys):
        raise Withheld("the keys are not those of this client's neighbours")
    session.me, messages = share_keys(session.secrets, dict(zip(near, keys, strict=True)))
    session.clients = clients
    return SharesReply(tuple(message.hex() for message in messages.values()))
