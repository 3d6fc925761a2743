"""Keys: step 0 of a secure sum."""

from coterie.client.protection import Withheld
from coterie.client.request_handler import RequestHandler
from coterie.messages import Keys, KeysReply
from coterie.secure import advertise_keys


def answer(handler: RequestHandler, verb: Keys) -> KeysReply:
    """Make two fresh pairs of keys for this round, or for the next."""
    session = handler.session.at(verb.ahead)
    if session.answers:
        raise Withheld(f"in round {session.round} of secure sums this client has sent its input: no keys are made anew")
    session.me, keys = advertise_keys(handler.id, f"{handler.request.seed} {session.round}")
    if handler.peers is None:
        return KeysReply(keys.mask.hex(), keys.share.hex())
    by = handler.peers.sign(session.me.context, handler.id, keys)
    return KeysReply(keys.mask.hex(), keys.share.hex(), by.signer, by.signature)
