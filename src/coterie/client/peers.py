"""Whom a site takes for the other clients of a secure sum: by the identities that sign their keys."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

from coterie.bounded import LARGEST_JSON, parse_json, read_bytes
from coterie.errors import CoterieError
from coterie.files import make_folder, write_whole
from coterie.messages import ClientId
from coterie.secure import PublicKeys
from coterie.secure.signatures import Agreement, agreement_text, identity_of, is_signed, keys_text, signed


class SignedKeys(NamedTuple):
    """Public keys of a client, with who signed them."""

    keys: PublicKeys
    signer: str
    """The identity: an Ed25519 key in hexadecimal digits."""
    signature: str


@dataclass(frozen=True)
class Peers:
    """Signs a site's own keys, and judges those of others.

    The first identity under which a client's number comes is its own for good, in this federation. Where the
    site's owner has listed identities, no other is taken.
    """

    federation: str
    secret: bytes = field(repr=False)
    """Of its own identity."""
    file: Path
    """Where the identities of others are kept."""
    listed: frozenset[str] = frozenset()
    """Those that are taken; none: whoever comes first under a number."""

    @cached_property
    def identity(self) -> str:
        """Its own."""
        return identity_of(self.secret)

    def sign(self, context: str, client: ClientId, keys: PublicKeys) -> SignedKeys:
        """Sign the site's own keys for one sum."""
        return SignedKeys(keys, self.identity, signed(self.secret, keys_text(self.federation, context, client, keys)))

    def sign_agreement(self, client: ClientId, agreement: Agreement) -> str:
        """Sign what the site was told of a sum."""
        return signed(self.secret, agreement_text(self.federation, client, agreement))

    def count_signed(self, others: Mapping[ClientId, str], agreement: Agreement) -> int:
        """Count the other clients by whose identities this is signed."""
        known = self._known()
        return sum(
            is_signed(known.get(client, ""), signature, agreement_text(self.federation, client, agreement))
            for client, signature in others.items()
        )

    def error_in(self, context: str, others: Mapping[ClientId, SignedKeys]) -> str | None:
        """Say why keys are not believed to be those of other clients; what is believed is kept first."""
        known = self._known()
        names = {identity: client for client, identity in known.items()}
        for client, told in others.items():
            if not is_signed(told.signer, told.signature, keys_text(self.federation, context, client, told.keys)):
                return f"the keys of client {client} are not signed for this sum"
            if self.listed and told.signer not in self.listed:
                return f"the keys of client {client} are signed by {told.signer}, which is not among peers of site.toml"
            if known.get(client, told.signer) != told.signer:
                return f"the keys of client {client} are signed by another than before"
            if told.signer == self.identity or names.get(told.signer, client) != client:
                return f"the keys of client {client} are signed by one who is another client"
            known[client], names[told.signer] = told.signer, client
        self._keep(known)
        return None

    def _known(self) -> dict[ClientId, str]:
        if not self.file.exists():
            return {}
        try:
            told = parse_json(read_bytes(self.file, LARGEST_JSON))
            return {int(client): str(identity) for client, identity in told.items()}
        except (ValueError, AttributeError, RecursionError):
            raise CoterieError(f"'{self.file}' is damaged: put back a copy, or leave the federation") from None

    def _keep(self, known: Mapping[ClientId, str]) -> None:
        if dict(known) != self._known():
            make_folder(self.file.parent)
            write_whole(self.file, json.dumps({str(client): known[client] for client in sorted(known)}).encode())
