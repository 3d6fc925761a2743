"""Key agreement, HKDF, encryption and masks against the vectors of RFC 7748, 5869 and 8439."""

import hmac

import numpy as np
import pytest

pytest.importorskip("cryptography")

from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import ChaCha20

from coterie.secure.keys import SecretKey, decrypted, encrypted, new_pair
from coterie.secure.words import PIECE, add_mask, mask

ALICE = bytes.fromhex("77076d0a7318a57d3c16c17251b26645df4c2f87ebc0992ab177fba51db92c2a")
ALICE_PUBLIC = bytes.fromhex("8520f0098930a754748b7ddcb43ef75a0dbf3a0d26381af4eba4a98eaa9b4e6a")
BOB = bytes.fromhex("5dab087e624a8a4b79e17f8b83800ee66f3bb1292618b6fd1c2f8b27ff88e0eb")
COMMON = bytes.fromhex("4a5d9d5ba4ce2de1728e3bf480350f25e07e21c947d19e3376f09b3c1e161742")
"""RFC 7748, section 6.1."""
STREAM = bytes.fromhex(
    "76b8e0ada0f13d90405d6ae55386bd28bdd219b8a08ded1aa836efcc8b770dc7"
    "da41597c5157488d7724e03fb8d84a376a43b8f41518a11cc387b669b2ee6586"
    "9f07e7be5551387a98ba977c732d080dcb0f29a048e3656912c6533e32ee7aed"
    "29b721769ce64e43d57133b074d839d531ed1f28510afb45ace10a1f4b794d6f"
)
"""RFC 8439, A.1, vectors 1 and 2: key and nonce 0, blocks 0 and 1."""


def hkdf(secret: bytes, info: bytes, length: int = 32) -> bytes:
    """RFC 5869 without salt, up to two blocks."""
    key = hmac.digest(bytes(32), secret, "sha256")
    first = hmac.digest(key, info + b"\1", "sha256")
    return (first + hmac.digest(key, first + info + b"\2", "sha256"))[:length]


def test_agreement_is_x25519_and_hkdf() -> None:
    okm = "8da4e775a563c18f715f802a063c5a31b8a11f5c5ee1879ec3454e5f3c738d2d9d201395faa4b61a96c8"
    assert hkdf(b"\x0b" * 22, b"", 42).hex() == okm  # RFC 5869, test case 3: the oracle is right
    assert SecretKey(ALICE).public == ALICE_PUBLIC
    for purpose in (b"", b"coterie mask 0 1 2 3"):
        assert SecretKey(BOB).agreed(ALICE_PUBLIC, purpose) == hkdf(COMMON, purpose)
        assert SecretKey(ALICE).agreed(SecretKey(BOB).public, purpose) == hkdf(COMMON, purpose)


def test_fresh_pairs_agree_and_differ() -> None:
    a, b = new_pair(), new_pair()
    assert a.secret != b.secret
    assert (
        SecretKey(a.secret).agreed(b.public, b"x")
        == SecretKey(b.secret).agreed(a.public, b"x")
        != SecretKey(a.secret).agreed(b.public, b"y")
    )


def test_a_public_key_that_leads_to_a_known_secret_is_refused() -> None:
    with pytest.raises(ValueError, match="shared key"):
        SecretKey(ALICE).agreed(bytes(32), b"")


def test_masks_are_the_stream_of_chacha20() -> None:
    words = mask(bytes(32), 3, 26)
    assert words.wide.tobytes() + words.narrow.tobytes() == STREAM
    assert (words.wide.dtype, words.narrow.dtype) == (np.uint64, np.uint32)
    longer = mask(bytes(32), 3, 1000)
    assert np.array_equal(longer.narrow[:26], words.narrow)


@pytest.mark.parametrize("numbers", [(5, 2 * PIECE // 4 + 7), (PIECE // 8 + 3, 11), (PIECE // 8, PIECE // 4), (0, 3)])
def test_masks_in_pieces_are_the_whole_stream(numbers: tuple[int, int]) -> None:
    """Against the same cipher asked for all of it at once; taken away again, nothing is left."""
    wide, narrow = numbers
    whole = Cipher(ChaCha20(ALICE, bytes(16)), mode=None).encryptor().update(bytes(8 * wide + 4 * narrow))
    words = mask(ALICE, wide, narrow)
    assert words.wide.astype("<u8").tobytes() + words.narrow.astype("<u4").tobytes() == whole
    add_mask(words, ALICE, -1)
    assert not words.wide.any()
    assert not words.narrow.any()


def test_encryption_notices_changes() -> None:
    message = encrypted(ALICE, b"a share")
    assert decrypted(ALICE, message) == b"a share"
    assert decrypted(BOB, message) is None
    assert decrypted(ALICE, message[:-1] + bytes([message[-1] ^ 1])) is None
    assert decrypted(ALICE, b"") is None
