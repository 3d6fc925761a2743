"""Agree: the step of a secure sum in which sites make sure that all of them were told the same."""

from coterie.client.protection import Withheld
from coterie.client.request_handler import RequestHandler
from coterie.messages import Agree, AgreeReply


def answer(handler: RequestHandler, verb: Agree) -> AgreeReply:
    """Sign who survived, once in a round: no other list is signed, and no other sum unmasked."""
    session = handler.session
    if handler.peers is None:
        raise Withheld("this client has no identity by which it could sign")
    session.check(verb.survivors)
    session.agreed = tuple(sorted({*verb.survivors}))
    return AgreeReply(handler.peers.sign_agreement(handler.id, session.agreement))
