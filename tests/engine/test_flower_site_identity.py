"""Who a site is: what proves its name to one server is of no use to another."""

import datetime
import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("flwr", reason="needs the extra: pip install 'coterie[flower]'")

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID
from flower_sites import PlayedGrid, node_of, write_app

import coterie
from coterie.deploy.deployment import make_site, serve
from coterie.deploy.preview import check
from coterie.deploy.terms import read_site, read_terms
from coterie.engine.flower.identity import NO_CERTIFICATE, derived, fingerprint, signed
from coterie.engine.flower.site_registry import SiteRegistry
from coterie.errors import CoterieError

OURS = "0" * 32


def nonce(number: int) -> str:
    return f"{number:032x}"


def write_certificate(path: Path, name: str, authority: bool | None = None) -> Path:
    key, now = ec.generate_private_key(ec.SECP256R1()), datetime.datetime.now(datetime.UTC)
    who = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    builder = x509.CertificateBuilder(who, who, key.public_key(), x509.random_serial_number())
    if authority is not None:
        builder = builder.add_extension(x509.BasicConstraints(authority, None), critical=True)
    made = builder.not_valid_before(now).not_valid_after(now + datetime.timedelta(days=1)).sign(key, hashes.SHA256())
    path.write_bytes(made.public_bytes(Encoding.PEM))
    return path


@pytest.fixture
def site(tmp_path: Path) -> Any:
    """A site whose SuperNode is connected to the server of another federation's owner."""
    write_app(tmp_path / "app", 1, algorithm="fedavg")
    file = tmp_path / "site-0" / "site.toml"
    write_certificate(tmp_path / "site-0" / "theirs.crt", "theirs")
    file.write_text(file.read_text() + 'certificate = "theirs.crt"\n')
    return make_site(read_terms(tmp_path / "app"), read_site(file))


def test_a_proof_that_another_server_fetched_is_refused(site: Any, tmp_path: Path) -> None:
    """It greets the site with our federation's name and our nonce, and passes on what it hears."""
    ours = SiteRegistry(certificate=fingerprint(write_certificate(tmp_path / "ours.crt", "ours")))
    relayed = site.introduce(ours.federation, OURS)
    clients, refused = ours.register({1: relayed}, {1: OURS})
    assert clients == {}
    assert "a proof that is not for this server" in refused[1]
    theirs = SiteRegistry(federation=ours.federation, certificate=fingerprint(site.certificate))
    assert theirs.register({1: relayed}, {1: OURS}) == ({1: 0}, {})


def test_an_introduction_serves_once(site: Any) -> None:
    registry = SiteRegistry(certificate=fingerprint(site.certificate))
    overheard = site.introduce(registry.federation, nonce(1))
    assert registry.register({1: overheard}, {1: nonce(1)})[0] == {1: 0}
    assert registry.register({2: overheard}, {2: nonce(2)})[0] == {}
    assert registry.register({2: overheard}, {})[0] == {}
    assert registry.register({3: site.introduce(registry.federation, nonce(3))}, {3: nonce(3)})[0] == {3: 0}


@pytest.mark.parametrize(
    "change", [{"samples": 10**6}, {"name": "site-9"}, {"signature": "0" * 128}, {"key": "0" * 64}]
)
def test_nothing_that_is_signed_can_be_changed(site: Any, change: dict[str, Any]) -> None:
    registry = SiteRegistry(certificate=fingerprint(site.certificate))
    said = {**site.introduce(registry.federation, OURS), **change}
    assert registry.register({1: said}, {1: OURS})[0] == {}


def test_another_key_under_a_known_name_is_somebody_else(site: Any) -> None:
    registry = SiteRegistry(certificate=fingerprint(site.certificate))
    registry.register({1: site.introduce(registry.federation, OURS)}, {1: OURS})
    impostor = {"name": site.name, "samples": 5, "tests": 5, "problem": ""}
    said = signed(impostor, "f" * 32, registry.federation, registry.certificate, OURS)
    assert "without its secret" in registry.register({2: said}, {2: OURS})[1][2]


@pytest.mark.parametrize(
    "nonce", ["", "n", "0" * 31, "0" * 33, "A" * 32, "0" * 31 + "\n", "0" * 32 + "\n", "g" * 32, "', 'site-9', 1, 1)"]
)
def test_a_site_signs_no_nonce_of_another_form(site: Any, nonce: str) -> None:
    """Whatever a server writes there, it would have a signature of."""
    registry = SiteRegistry(certificate=fingerprint(site.certificate))
    with pytest.raises(ValueError, match="32 letters 0-9a-f"):
        site.introduce(registry.federation, nonce)
    assert not (site.state / registry.federation).exists()
    said = site.introduce(registry.federation, OURS)
    assert registry.register({1: said}, {1: nonce})[0] == {}


def test_what_is_signed_says_what_it_is_for(site: Any) -> None:
    said = site.introduce("f" * 16, OURS)
    content = ["f" * 16, fingerprint(site.certificate), OURS, site.name, said["samples"], said["tests"]]
    key = Ed25519PublicKey.from_public_bytes(bytes.fromhex(said["key"]))
    meant = b"coterie: introduction of a site, version 2\0" + json.dumps(content).encode()
    key.verify(bytes.fromhex(said["signature"]), meant)
    with pytest.raises(InvalidSignature):
        key.verify(bytes.fromhex(said["signature"]), json.dumps(content).encode())


def test_what_is_derived_from_a_secret_depends_on_all_of_its_address() -> None:
    made = {
        derived(secret, federation, purpose, 32)
        for secret in ("a" * 32, "b" * 32)
        for federation in ("0" * 16, "1" * 16)
        for purpose in ("sign", "streams")
    }
    assert len(made) == 8


def test_a_certificate_is_told_by_its_content(tmp_path: Path) -> None:
    a, b = (write_certificate(tmp_path / name, name) for name in ("a", "b"))
    assert fingerprint(a) == fingerprint(a) != fingerprint(b) != fingerprint(None) == NO_CERTIFICATE
    (tmp_path / "chain").write_bytes(a.read_bytes() + b.read_bytes())
    assert fingerprint(tmp_path / "chain") not in (fingerprint(a), fingerprint(b))
    (tmp_path / "text").write_text("not a certificate")
    with pytest.raises(CoterieError, match="not a certificate in PEM format"):
        fingerprint(tmp_path / "text")
    with pytest.raises(CoterieError, match="can't be read: No such file"):
        fingerprint(tmp_path / "nowhere")


@pytest.mark.integration
@pytest.mark.parametrize("authority", [True, False, None])
def test_a_certificate_of_an_authority_is_pointed_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], authority: bool | None
) -> None:
    """Another server may have one of the same authority, and pass proofs on; both sides are told."""
    certificate = write_certificate(tmp_path / "it.crt", "it", authority)
    write_app(tmp_path / "app", 1, algorithm="fedavg", server={"certificate": str(certificate)}, training={"rounds": 1})
    file = tmp_path / "site-0" / "site.toml"
    file.write_text(f'{file.read_text()}certificate = "{certificate}"\n')
    [proof] = [line for line in check(tmp_path / "app", file) if line.startswith("the proof")]
    grid = PlayedGrid()
    grid.nodes[1] = node_of(tmp_path / "app", site=str(file))
    serve(grid, read_terms(tmp_path / "app"))
    for told in (proof, capsys.readouterr().out):
        assert ("is an authority's" in told) == (authority is True)
        assert ("name the server's own" in told) == (authority is True)


@pytest.mark.integration
def test_a_federation_whose_sites_and_server_name_their_certificate(tmp_path: Path) -> None:
    certificate = write_certificate(tmp_path / "ca.crt", "ours")
    write_app(
        tmp_path / "app", 3, algorithm="fedavg", training={"rounds": 1},
        server={"certificate": str(certificate), "min_clients": 2},
    )  # fmt: skip
    other = write_certificate(tmp_path / "other.crt", "theirs")
    grid = PlayedGrid()
    for client, named in enumerate((certificate, certificate, other)):
        file = tmp_path / f"site-{client}" / "site.toml"
        file.write_text(f'{file.read_text()}certificate = "{named}"\n')
        grid.nodes[client + 1] = node_of(tmp_path / "app", site=str(file))
    serve(grid, read_terms(tmp_path / "app"))
    result = coterie.Result.load(tmp_path / "run")
    assert len(result.per_client["L"]) == 2
    [event] = result.events
    assert event["kind"] == "turned away"
    assert "'site-2' gives a proof that is not for this server" in event["example"]
