"""What the server holds of the first two steps of secure sums: public keys, and shares that it can't read.

Where the same clients take part again, both steps of the next round ride on the last two of this one.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from coterie.messages import ClientId, KeysReply, Shares, SharesReply
from coterie.secure import PublicKeys, neighbours


@dataclass
class SharedSecrets:
    """The keys of the clients of one sum, and what they sent each other."""

    seed: int
    round: int
    keys: dict[ClientId, KeysReply] = field(default_factory=dict)
    """Of those that advertised some (U1), in order."""
    messages: dict[ClientId, dict[ClientId, str]] = field(default_factory=dict)
    """What those that shared secrets (U2) encrypted for their neighbours."""

    @property
    def lost(self) -> bool:
        """Whether nothing but who it was is known, since clients were killed with the server, as in simulations."""
        return not self.keys

    @property
    def signed(self) -> bool:
        """Whether clients have identities, by which they sign what they are told."""
        return any(keys.signature for keys in self.keys.values())

    @cached_property
    def graph(self) -> dict[ClientId, tuple[ClientId, ...]]:
        """Who is whose neighbour, once all keys are there."""
        return neighbours([*self.keys], self.seed, self.round)

    @property
    def context(self) -> str:
        """What names the sum, as clients do."""
        return f"{self.seed} {self.round}"

    @property
    def public_keys(self) -> dict[ClientId, PublicKeys]:
        """Of those that shared secrets."""
        told = {client: self.keys[client] for client in self.messages}
        return {c: PublicKeys(bytes.fromhex(keys.mask), bytes.fromhex(keys.share)) for c, keys in told.items()}

    def question(self, client: ClientId, ahead: bool = False) -> Shares:
        """Return what lets a client share its secrets: the keys of its neighbours."""
        near = [self.keys[j] for j in self.graph[client]]
        masks, shares = (tuple(getattr(keys, name) for keys in near) for name in ("mask", "share"))
        if not any(keys.signature for keys in near):
            return Shares(tuple(self.keys), masks, shares, ahead)
        signers, signatures = (tuple(getattr(keys, name) or "" for keys in near) for name in ("signer", "signature"))
        return Shares(tuple(self.keys), masks, shares, ahead, signers, signatures)

    def note(self, client: ClientId, answer: SharesReply) -> None:
        """Take what a client sends its neighbours."""
        self.messages[client] = dict(zip(self.graph[client], answer.messages, strict=True))

    def received(self, client: ClientId) -> dict[ClientId, str]:
        """Return what the neighbours that shared secrets sent a client."""
        return {j: self.messages[j][client] for j in self.graph[client] if j in self.messages}


class SecretsAhead:
    """What clients have shared ahead of a round, group by group."""

    def __init__(self) -> None:
        self._prepared: list[SharedSecrets] = []

    def add(self, secrets: SharedSecrets) -> None:
        """Keep what is for the next round."""
        self._prepared.append(secrets)

    def take(self, clients: Collection[ClientId], round: int) -> SharedSecrets | None:
        """Return what exactly these clients have shared for this round; what is for earlier ones is forgotten."""
        self._prepared = [secrets for secrets in self._prepared if secrets.round >= round]
        found = [s for s in self._prepared if s.round == round and s.messages.keys() == {*clients}]
        return found[0] if found else None

    def save(self, whole: bool) -> list[dict[str, Any]]:
        """Return it as plain data; but for who it was, nothing where clients are killed with the server."""
        return [
            {
                "seed": secrets.seed,
                "round": secrets.round,
                "keys": dict(secrets.keys) if whole else {},
                "messages": secrets.messages if whole else {client: {} for client in secrets.messages},
            }
            for secrets in self._prepared
        ]

    def load(self, state: Collection[Mapping[str, Any]]) -> None:
        """Restore what `save` returned."""
        self._prepared = [SharedSecrets(**entry) for entry in state]
