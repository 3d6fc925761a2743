"""Signatures under public keys of a secure sum, by which no server can put its own in their place: Ed25519."""

import json

from coterie.secure.protocol import PublicKeys

SIGNATURE_BYTES, IDENTITY_BYTES = 64, 32
DOMAIN = b"coterie: keys of a secure sum, version 1\0"
"""With which all begins that is signed here, and nothing else that any program signs."""


def identity_of(secret: bytes) -> str:
    """Return the public half of a key that signs, in hexadecimal digits."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    return Ed25519PrivateKey.from_private_bytes(secret).public_key().public_bytes_raw().hex()


def signed(secret: bytes, federation: str, context: str, client: int, keys: PublicKeys) -> str:
    """Sign a client's public keys for one sum of one federation, in hexadecimal digits."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    content = _content(federation, context, client, keys)
    return Ed25519PrivateKey.from_private_bytes(secret).sign(content).hex()


def is_signed(identity: str, signature: str, federation: str, context: str, client: int, keys: PublicKeys) -> bool:
    """Say whether who has this identity has signed these keys, for this sum and this client.

    >>> keys = PublicKeys(bytes(32), bytes(range(32)))
    >>> identity, signature = identity_of(bytes(32)), signed(bytes(32), "f", "0 1", 5, keys)
    >>> [is_signed(identity, signature, "f", context, 5, keys) for context in ("0 1", "0 2")]
    [True, False]
    """
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    try:
        public = Ed25519PublicKey.from_public_bytes(bytes.fromhex(identity))
        public.verify(bytes.fromhex(signature), _content(federation, context, client, keys))
    except (InvalidSignature, ValueError):
        return False
    return True


def _content(federation: str, context: str, client: int, keys: PublicKeys) -> bytes:
    return DOMAIN + json.dumps([federation, context, client, keys.mask.hex(), keys.share.hex()]).encode()
