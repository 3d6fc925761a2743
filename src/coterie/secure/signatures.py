"""Signatures by which clients know each other, and that they were told the same: Ed25519."""

import json
from typing import NamedTuple

from coterie.secure.protocol import PublicKeys

KEYS = b"coterie: keys of a secure sum, version 1\0"
AGREEMENT = b"coterie: survivors of a secure sum, version 1\0"
"""With which all begins that is signed here, and nothing else that any program signs."""


class Agreement(NamedTuple):
    """What a client was told of a sum before it helps to unmask it."""

    context: str
    clients: tuple[int, ...]
    """Who advertised keys (U1)."""
    question: str
    """What was asked when inputs were sent, which says who shared secrets (U2)."""
    survivors: tuple[int, ...]
    """Whose inputs are in the sum (U3)."""


def keys_text(federation: str, context: str, client: int, keys: PublicKeys) -> bytes:
    """Return what a client signs of its public keys, for one sum of one federation."""
    return KEYS + json.dumps([federation, context, client, keys.mask.hex(), keys.share.hex()]).encode()


def agreement_text(federation: str, client: int, agreement: Agreement) -> bytes:
    """Return what a client signs before it helps to unmask a sum."""
    told = agreement.context, sorted(agreement.clients), agreement.question, sorted(agreement.survivors)
    return AGREEMENT + json.dumps([federation, client, *told]).encode()


def identity_of(secret: bytes) -> str:
    """Return the public half of a key that signs, in hexadecimal digits."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    return Ed25519PrivateKey.from_private_bytes(secret).public_key().public_bytes_raw().hex()


def signed(secret: bytes, text: bytes) -> str:
    """Sign a text, in hexadecimal digits."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    return Ed25519PrivateKey.from_private_bytes(secret).sign(text).hex()


def is_signed(identity: str, signature: str, text: bytes) -> bool:
    """Say whether who has this identity has signed a text.

    >>> keys = PublicKeys(bytes(32), bytes(range(32)))
    >>> identity, signature = identity_of(bytes(32)), signed(bytes(32), keys_text("f", "0 1", 5, keys))
    >>> [is_signed(identity, signature, keys_text("f", context, 5, keys)) for context in ("0 1", "0 2")]
    [True, False]
    """
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    try:
        public = Ed25519PublicKey.from_public_bytes(bytes.fromhex(identity))
        public.verify(bytes.fromhex(signature), text)
    except (InvalidSignature, ValueError):
        return False
    return True
