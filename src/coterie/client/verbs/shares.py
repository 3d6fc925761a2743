"""Shares: step 1 of a secure sum."""

from coterie.client.peers import SignedKeys
from coterie.client.protection import Withheld
from coterie.client.request_handler import RequestHandler
from coterie.messages import Shares, SharesReply
from coterie.messages.masking import LEAST
from coterie.secure import PublicKeys, neighbours, share_keys


def answer(handler: RequestHandler, verb: Shares) -> SharesReply:
    """Share secrets with the neighbours, whom no server chooses: the graph follows from who takes part."""
    session, clients = handler.session.at(verb.ahead), verb.clients
    if session.clients:
        raise Withheld(f"the secrets of round {session.round} of secure sums have been shared: this is done once")
    if handler.id not in clients or len({*clients}) != len(clients) or len(clients) < LEAST:
        raise Withheld(f"a secure sum of {len({*clients})} clients: it takes {LEAST}, and this one among them")
    near = neighbours(clients, handler.request.seed, session.round)[handler.id]
    try:
        keys = [PublicKeys(*map(bytes.fromhex, both)) for both in zip(verb.masks, verb.shares, strict=True)]
        if len(near) != len(keys) or len({*keys}) != len(keys):
            raise Withheld("the keys are not those of this client's neighbours")
        if handler.peers is not None:
            by = zip(keys, verb.signers or (), verb.signatures or (), strict=True)
            told = {j: SignedKeys(*each) for j, each in zip(near, by, strict=True)}
            if error := handler.peers.error_in(session.secrets.context, told):
                raise Withheld(error)
        session.me, messages = share_keys(session.secrets, dict(zip(near, keys, strict=True)), clients)
    except ValueError:  # no digits, too few of them, a point that leads to a known secret, or no signatures
        raise Withheld("what should be the keys of this client's neighbours are none") from None
    session.clients = clients
    return SharesReply(tuple(message.hex() for message in messages.values()))
