"""Keys that two clients agree on without the server: X25519, HKDF, and ChaCha20-Poly1305 for what one sends the other.

The package `cryptography` does all of it, and is imported when it is needed: ``pip install 'coterie[secure]'``.
"""

from typing import NamedTuple

KEY_BYTES = 32
ONCE = bytes(12)
"""The nonce: every key encrypts one message."""


class KeyPair(NamedTuple):
    """A secret key of X25519, and the public key that belongs to it."""

    secret: bytes
    public: bytes


class SecretKey:
    """A secret key that agrees with many others; making it ready takes as long as to agree once."""

    def __init__(self, secret: bytes) -> None:
        from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

        self._key = X25519PrivateKey.from_private_bytes(secret)

    @property
    def public(self) -> bytes:
        """The public key that belongs to it."""
        return self._key.public_key().public_bytes_raw()

    def agreed(self, public: bytes, purpose: bytes) -> bytes:
        """Return the key that it and another's public key lead to, for one purpose: HKDF of what X25519 gives.

        Raise a ValueError for a public key that would lead to a known one.
        """
        from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PublicKey
        from cryptography.hazmat.primitives.hashes import SHA256
        from cryptography.hazmat.primitives.kdf.hkdf import HKDF

        common = self._key.exchange(X25519PublicKey.from_public_bytes(public))
        return HKDF(SHA256(), KEY_BYTES, salt=None, info=purpose).derive(common)


def new_pair() -> KeyPair:
    """Make a fresh pair, from the randomness of the system."""
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

    key = X25519PrivateKey.generate()
    return KeyPair(key.private_bytes_raw(), key.public_key().public_bytes_raw())


def is_public_key(public: bytes) -> bool:
    """Say whether others can agree on a key with whoever has this public one: some points lead to a known key.

    >>> is_public_key(bytes([9, *bytes(31)])), is_public_key(bytes(32)), is_public_key(b"short")
    (True, False, False)
    """
    try:
        SecretKey(new_pair().secret).agreed(public, b"")
    except ValueError:
        return False
    return True


def encrypted(key: bytes, text: bytes) -> bytes:
    """Encrypt the one message of a key, so that a change of it is noticed."""
    from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

    return ChaCha20Poly1305(key).encrypt(ONCE, text, None)


def decrypted(key: bytes, message: bytes) -> bytes | None:
    """Return what was encrypted, None where that was under another key or has been changed."""
    from cryptography.exceptions import InvalidTag
    from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

    try:
        return ChaCha20Poly1305(key).decrypt(ONCE, message, None)
    except InvalidTag:
        return None
