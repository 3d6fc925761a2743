"""How a site proves its name: it signs its introduction with a key of its own, for one server only.

The key is made from the site's secret and the name of the federation, so that no two federations can compare notes.
What is signed holds the server's certificate and a number that the server has just made up: neither an introduction
that was overheard, nor one that another server got from the site, is of use anywhere else. It begins with what it is
for, and the number has one form only, so that no server can have anything else signed.
"""

import hashlib
import json
import re
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from coterie.errors import CoterieError
from coterie.files import make_folder
from coterie.privacy.secret_file import secret_in

FEDERATION = re.compile(r"[0-9a-f]{16}")
"""The name of a federation, made up when its run begins."""
KEY, SIGNATURE = re.compile(r"[0-9a-f]{64}"), re.compile(r"[0-9a-f]{128}")
NONCE = re.compile(r"[0-9a-f]{32}")
"""The number that a server makes up for one introduction."""
NO_CERTIFICATE = "no certificate"
OF_AUTHORITY = (
    "is an authority's: others that have one of it can pass proofs on; name the server's own (--ssl-certfile)"
)
"""What is said of a certificate that does not tell one server from all others."""
DOMAIN = b"coterie: introduction of a site, version 2\0"
"""With which all begins that sites sign; nothing else that any program signs begins so."""


def new_nonce() -> str:
    """Make up the number for one introduction."""
    return secrets.token_hex(16)


def fingerprint(certificate: Path | None) -> str:
    """Return what tells a certificate, or a chain of them, from all others; PEM files only."""
    if certificate is None:
        return NO_CERTIFICATE
    from cryptography.hazmat.primitives.serialization import Encoding
    from cryptography.x509 import load_pem_x509_certificates

    try:
        content = certificate.read_bytes()
        chain = [part.public_bytes(Encoding.DER) for part in load_pem_x509_certificates(content)]
    except OSError as error:
        raise CoterieError(f"the certificate '{certificate}' can't be read: {error.strerror}") from None
    except ValueError:
        raise CoterieError(f"'{certificate}' is not a certificate in PEM format") from None
    return hashlib.sha256(b"".join(chain)).hexdigest()


def secret_of(state: Path) -> str:
    """Return what only the site with this state folder knows; it is made up at first use."""
    make_folder(state)
    return secret_in(state / "secret", "remove it and give the site another name")


def is_authority(certificate: Path) -> bool:
    """Say whether a certificate is one by which others are signed, so that more servers than one may be known by it."""
    from cryptography.x509 import BasicConstraints, ExtensionNotFound, load_pem_x509_certificates

    fingerprint(certificate)  # refuses what is none
    try:
        constraints = load_pem_x509_certificates(certificate.read_bytes())[0].extensions
        return constraints.get_extension_for_class(BasicConstraints).value.ca
    except ExtensionNotFound:
        return False


def derived(secret: str, federation: str, purpose: str, size: int) -> bytes:
    """Return bytes that only who knows the secret can make, others for each federation and purpose."""
    content = f"{purpose} {federation}".encode()
    return hashlib.blake2b(content, key=secret.encode(), digest_size=size).digest()


def identity_secret(secret: str) -> bytes:
    """Return the key by which a site signs keys of secure sums: one in all federations, so that others can list it."""
    return derived(secret, "", "identity", 32)


def check_nonce(nonce: str) -> None:
    """Raise a ValueError unless this is what servers make up."""
    if not NONCE.fullmatch(nonce):
        raise ValueError("a nonce has 32 letters 0-9a-f: nothing else is signed")


def signed(
    introduction: Mapping[str, Any], secret: str, federation: str, certificate: str, nonce: str
) -> dict[str, Any]:
    """Return an introduction with the site's public key and its signature; refuse a nonce that is not one."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    check_nonce(nonce)
    key = Ed25519PrivateKey.from_private_bytes(derived(secret, federation, "sign", 32))
    content = _content(introduction, federation, certificate, nonce)
    return {**introduction, "key": key.public_key().public_bytes_raw().hex(), "signature": key.sign(content).hex()}


def error_in_signature(introduction: Mapping[str, Any], federation: str, certificate: str, nonce: str) -> str | None:
    """Say why an introduction does not prove who it comes from."""
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    key, signature = str(introduction.get("key")), str(introduction.get("signature"))
    if not KEY.fullmatch(key) or not SIGNATURE.fullmatch(signature) or not NONCE.fullmatch(nonce):
        return "gives no proof of who it is"
    try:
        public = Ed25519PublicKey.from_public_bytes(bytes.fromhex(key))
        public.verify(bytes.fromhex(signature), _content(introduction, federation, certificate, nonce))
    except (InvalidSignature, ValueError):
        return (
            "gives a proof that is not for this server: 'certificate' of its site.toml and of [server] in "
            "federation.toml must name the same certificate"
        )
    return None


def _content(introduction: Mapping[str, Any], federation: str, certificate: str, nonce: str) -> bytes:
    name, samples, tests = (introduction.get(key) for key in ("name", "samples", "tests"))
    return DOMAIN + json.dumps([federation, certificate, nonce, str(name), samples, tests]).encode()
