"""Certificates and keys for a trial on one machine; those of real machines are made as docs/deploy.md says."""

import datetime
import ipaddress
from pathlib import Path
from typing import Any

from coterie.files import make_folder, write_whole

DAYS = 2
"""For which they hold."""


def write_certificates(folder: Path) -> None:
    """Write an authority's certificate, ``ca.crt``, and what it signed for this machine, ``server.pem`` and its key."""
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.hazmat.primitives.serialization import Encoding, PrivateFormat

    make_folder(folder)
    own, of_server = (ec.generate_private_key(ec.SECP384R1()) for _ in range(2))
    authority = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "Coterie, a trial")])
    server = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "localhost")])
    here = [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
    root = _certificate(authority, authority, own.public_key(), [
        (x509.BasicConstraints(ca=True, path_length=0), True),
        (x509.KeyUsage(False, False, False, False, False, True, True, False, False), True),
    ]).sign(own, _hash())  # fmt: skip
    leaf = _certificate(server, authority, of_server.public_key(), [
        (x509.BasicConstraints(ca=False, path_length=None), True),
        (x509.SubjectAlternativeName(here), False),
        (x509.AuthorityKeyIdentifier.from_issuer_public_key(own.public_key()), False),
    ]).sign(own, _hash())  # fmt: skip
    write_whole(folder / "ca.crt", root.public_bytes(Encoding.PEM))
    write_whole(folder / "server.pem", leaf.public_bytes(Encoding.PEM))
    _write_private(folder / "server.key", of_server, PrivateFormat.TraditionalOpenSSL)


def write_node_key(path: Path) -> None:
    """Write a key by which a SuperLink knows a node, and beside it the public half, ``.pub``, as ssh-keygen does."""
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.hazmat.primitives.serialization import Encoding, PrivateFormat, PublicFormat

    make_folder(path.parent)
    key = ec.generate_private_key(ec.SECP384R1())
    _write_private(path, key, PrivateFormat.OpenSSH)
    public = key.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH)
    write_whole(path.with_name(path.name + ".pub"), public + b"\n")


def _certificate(subject: Any, issuer: Any, key: Any, extensions: list[tuple[Any, bool]]) -> Any:
    from cryptography import x509

    now = datetime.datetime.now(datetime.UTC)
    made = x509.CertificateBuilder(subject_name=subject, issuer_name=issuer, public_key=key)
    made = made.serial_number(x509.random_serial_number())
    made = made.not_valid_before(now - datetime.timedelta(hours=1)).not_valid_after(now + datetime.timedelta(days=DAYS))
    for extension, critical in [*extensions, (x509.SubjectKeyIdentifier.from_public_key(key), False)]:
        made = made.add_extension(extension, critical)
    return made


def _write_private(path: Path, key: Any, form: Any) -> None:
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption

    content = key.private_bytes(Encoding.PEM, form, NoEncryption())
    write_whole(path, content, mode=0o600)


def _hash() -> Any:
    from cryptography.hazmat.primitives import hashes

    return hashes.SHA384()
