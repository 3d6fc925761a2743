"""Keys: step 0 of a secure sum."""

from coterie.client.request_handler import RequestHandler
from coterie.messages import Keys, KeysReply
from coterie.secure import advertise_keys


def answer(handler: RequestHandler, verb: Keys) -> KeysReply:
    """Make two fresh pairs of keys for this round."""
    request, session = handler.request, handler.session
    session.me, keys = advertise_keys(handler.id, f"{request.seed} {request.round}")
    return KeysReply(keys.mask.hex(), keys.share.hex())
