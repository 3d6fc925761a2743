"""Certificates and keys of a trial: a TLS handshake with them, and files that others can't read."""

import ssl
from contextlib import suppress
from pathlib import Path

import pytest

pytest.importorskip("cryptography", reason="it comes with Flower: pip install 'coterie[flower]'")

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from coterie.deploy.keys import write_certificates, write_node_key


def shaken_hands(folder: Path, name: str) -> str | None:
    """The version of TLS on which a client and a server with these certificates agree."""
    here, there = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT), ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    here.verify_flags |= ssl.VERIFY_X509_STRICT
    here.load_verify_locations(folder / "ca.crt")
    there.load_cert_chain(folder / "server.pem", folder / "server.key")
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = here.wrap_bio(to_client, to_server, server_hostname=name)
    server = there.wrap_bio(to_server, to_client, server_side=True)
    for _ in range(4):
        for side in (client, server):
            with suppress(ssl.SSLWantReadError):
                side.do_handshake()
    return client.version()


@pytest.mark.parametrize("name", ["127.0.0.1", "localhost"])
def test_the_server_of_a_trial_is_believed(tmp_path: Path, name: str) -> None:
    write_certificates(tmp_path / "keys")
    assert shaken_hands(tmp_path / "keys", name) == "TLSv1.3"


def test_no_other_is(tmp_path: Path) -> None:
    for which in ("a", "b"):
        write_certificates(tmp_path / which)
    (tmp_path / "b" / "ca.crt").write_bytes((tmp_path / "a" / "ca.crt").read_bytes())
    with pytest.raises(ssl.SSLCertVerificationError):
        shaken_hands(tmp_path / "b", "127.0.0.1")
    with pytest.raises(ssl.SSLCertVerificationError):
        shaken_hands(tmp_path / "a", "fl.example.org")


def test_a_key_of_a_node_has_two_halves(tmp_path: Path) -> None:
    write_node_key(tmp_path / "keys" / "site-1")
    own = serialization.load_ssh_private_key((tmp_path / "keys" / "site-1").read_bytes(), None)
    public = serialization.load_ssh_public_key((tmp_path / "keys" / "site-1.pub").read_bytes())
    assert isinstance(own, ec.EllipticCurvePrivateKey)
    assert (own.public_key(), own.curve.name) == (public, "secp384r1")


def test_private_halves_are_for_their_owner(tmp_path: Path) -> None:
    write_certificates(tmp_path)
    write_node_key(tmp_path / "site-1")
    assert {(tmp_path / name).stat().st_mode & 0o777 for name in ("server.key", "site-1")} == {0o600}
