"""Who belongs to a federation: names of sites, the numbers by which methods know them, and how they prove it.

The roll lies in the run folder as ``sites.json``. A site has made up a secret when it first came, and proves each time
that it knows it; the roll holds a digest of the proof. Who comes with a known name and another proof is somebody else.
"""

from __future__ import annotations

import hashlib
import json
import re
import secrets
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from coterie.errors import CoterieError
from coterie.files import write_whole
from coterie.messages import ClientId
from coterie.messages.limits import MOST_SAMPLES

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


@dataclass
class Entry:
    """A site as the server knows it."""

    client: ClientId
    digest: str
    samples: int


@dataclass
class SiteRegistry:
    """All sites that have ever come, by name."""

    path: Path | None = None
    federation: str = field(default_factory=lambda: secrets.token_hex(8))
    """Tells this run from others, so that a site keeps their states apart."""
    sites: dict[str, Entry] = field(default_factory=dict)
    next: ClientId = 0
    """The number of the next site that comes: also where an entry was removed by hand, nobody gets that of another."""
    agreed: dict[str, Any] = field(default_factory=dict)
    """What samples are, at all sites alike."""

    @classmethod
    def open(cls, path: Path, agreed: Mapping[str, Any] | None = None) -> SiteRegistry:
        """Read the roll of a run that goes on, or begin one; `agreed` is what samples are, which must stay the same."""
        agreed = dict(agreed or {})
        if not path.exists():
            roll = cls(path, agreed=agreed)
            roll._write()
            return roll
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
            sites = {name: Entry(**entry) for name, entry in content["sites"].items()}
            roll = cls(path, content["federation"], sites, content["next"], content["agreed"])
        except (json.JSONDecodeError, KeyError, TypeError) as error:
            raise CoterieError(f"'{path}' is damaged ({error}): put back a copy, or start the run anew") from None
        if changed := [key for key in agreed if roll.agreed.get(key) != agreed[key]]:
            before, now = ({key: what.get(key) for key in changed} for what in (roll.agreed, agreed))
            raise CoterieError(
                f"[samples] was {before} when the run of '{path.parent}' began, and is {now}: choose another out"
            )
        return roll

    def enter(self, cards: Mapping[int, Mapping[str, Any]]) -> tuple[dict[int, ClientId], dict[int, str]]:
        """Enter the cards of nodes; return which client is at which node, and why others are refused.

        New names get the next numbers, in their own order, so that the numbers do not depend on who came first. Nodes
        of one site are returned in the order in which they are given.
        """
        found: dict[int, ClientId] = {}
        refused: dict[int, str] = {}
        refused |= {node: wrong for node, card in cards.items() if (wrong := _wrong(card))}
        sound = {node: card for node, card in cards.items() if node not in refused}
        for node in sorted(sound, key=lambda node: natural(str(sound[node]["name"]))):
            card = sound[node]
            name, digest, samples = str(card["name"]), _digest(str(card["proof"])), int(card["samples"])
            if name not in self.sites:
                self.sites[name] = Entry(self.next, digest, samples)
                self.next += 1
            entry = self.sites[name]
            if entry.digest != digest:
                refused[node] = f"calls itself '{name}', which is client {entry.client}, without its secret"
                continue
            entry.samples = samples
            found[node] = entry.client
        self._write()
        return found, refused

    @property
    def samples(self) -> dict[ClientId, int]:
        """How many training samples each site declared when it last came."""
        return {entry.client: entry.samples for entry in self.sites.values()}

    def _write(self) -> None:
        if self.path is not None:
            sites = {name: asdict(entry) for name, entry in self.sites.items()}
            content = {"federation": self.federation, "agreed": self.agreed, "next": self.next, "sites": sites}
            write_whole(self.path, (json.dumps(content, indent=1) + "\n").encode())


def natural(name: str) -> list[tuple[int, int, str]]:
    """Return a key by which site-2 stands before site-10.

    >>> sorted(["site-10", "site-2", "a"], key=natural)
    ['a', 'site-2', 'site-10']
    """
    parts = re.split(r"(\d+)", name)
    return [(0, int(part), "") if part.isdigit() else (1, 0, part) for part in parts if part]


def _digest(proof: str) -> str:
    return hashlib.blake2b(proof.encode(), digest_size=16).hexdigest()


def _wrong(card: Mapping[str, Any]) -> str:
    """Say what is wrong with how a node introduced itself; nothing, if nothing is."""
    name, proof, samples = card.get("name"), card.get("proof"), card.get("samples")
    if card.get("problem"):
        who = f"'{name[:64]}' " if isinstance(name, str) else ""
        return f"{who}can't take part: {str(card['problem'])[:200]}"
    if not isinstance(name, str) or not NAME.fullmatch(name):
        return "introduces itself without a proper name"
    if not isinstance(proof, str) or not 16 <= len(proof) <= 128:
        return f"'{name}' proves nothing"
    if not isinstance(samples, int) or not 0 <= samples <= MOST_SAMPLES:
        return f"'{name}' declares an impossible number of samples"
    return ""
