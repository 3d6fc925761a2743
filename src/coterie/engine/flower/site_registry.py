"""Who belongs to a federation: the names of sites, the numbers by which methods know them, and their proofs.

The registry is ``sites.json`` in the run folder. A site makes up a secret when it first comes and proves each time that
it knows it; the registry holds a digest of the proof. A known name with another proof is somebody else.
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
class RegisteredSite:
    """A site as the server knows it."""

    client: ClientId
    digest: str
    samples: int
    tests: int = MOST_SAMPLES
    """Test samples; runs that began before sites declared them do not know."""


@dataclass
class SiteRegistry:
    """All sites that have ever come, by name."""

    path: Path | None = None
    federation: str = field(default_factory=lambda: secrets.token_hex(8))
    """Tells this run from others, so that a site keeps their states apart."""
    sites: dict[str, RegisteredSite] = field(default_factory=dict)
    next: ClientId = 0
    """The number of the next new site; stored, so that an entry removed by hand frees no number."""
    agreed: dict[str, Any] = field(default_factory=dict)
    """What a sample is, the same at all sites."""

    @classmethod
    def open(cls, path: Path, agreed: Mapping[str, Any] | None = None) -> SiteRegistry:
        """Read the registry of a run, or begin one; `agreed` says what a sample is, and must not change."""
        agreed = dict(agreed or {})
        if not path.exists():
            registry = cls(path, agreed=agreed)
            registry._write()
            return registry
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
            sites = {name: RegisteredSite(**site) for name, site in content["sites"].items()}
            registry = cls(path, content["federation"], sites, content["next"], content["agreed"])
        except (json.JSONDecodeError, KeyError, TypeError) as error:
            raise CoterieError(f"'{path}' is damaged ({error}): put back a copy, or start the run anew") from None
        if changed := [key for key in agreed if registry.agreed.get(key) != agreed[key]]:
            before, now = ({key: samples.get(key) for key in changed} for samples in (registry.agreed, agreed))
            raise CoterieError(
                f"[samples] was {before} when the run of '{path.parent}' began, and is {now}: choose another out"
            )
        return registry

    def register(self, introductions: Mapping[int, Mapping[str, Any]]) -> tuple[dict[int, ClientId], dict[int, str]]:
        """Register nodes by their introductions; return the client at each node, and why the other nodes are refused.

        New names are numbered in their own order, so that the numbers do not depend on who came first. Nodes of the
        same site are returned in the order given.
        """
        clients: dict[int, ClientId] = {}
        refused = {node: error for node, said in introductions.items() if (error := error_in_introduction(said))}
        valid = {node: said for node, said in introductions.items() if node not in refused}
        for node in sorted(valid, key=lambda node: natural(str(valid[node]["name"]))):
            name, samples = str(valid[node]["name"]), int(valid[node]["samples"])
            digest = _digest(str(valid[node]["proof"]))
            if name not in self.sites:
                self.sites[name] = RegisteredSite(self.next, digest, samples)
                self.next += 1
            site = self.sites[name]
            if site.digest != digest:
                refused[node] = f"calls itself '{name}', which is client {site.client}, without its secret"
                continue
            site.samples, site.tests = samples, int(valid[node].get("tests", MOST_SAMPLES))
            clients[node] = site.client
        self._write()
        return clients, refused

    @property
    def samples(self) -> dict[ClientId, int]:
        """How many training samples each site declared when it last came."""
        return {site.client: site.samples for site in self.sites.values()}

    @property
    def tests(self) -> dict[ClientId, int]:
        """How many test samples each site declared when it last came."""
        return {site.client: site.tests for site in self.sites.values()}

    def _write(self) -> None:
        if self.path is not None:
            sites = {name: asdict(site) for name, site in self.sites.items()}
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


def error_in_introduction(introduction: Mapping[str, Any]) -> str | None:
    """Say why a node that introduces itself like this is refused."""
    name, proof, samples = (introduction.get(key) for key in ("name", "proof", "samples"))
    if introduction.get("problem"):
        who = f"'{name[:64]}' " if isinstance(name, str) else ""
        return f"{who}can't take part: {str(introduction['problem'])[:200]}"
    if not isinstance(name, str) or not NAME.fullmatch(name):
        return "introduces itself without a proper name"
    if not isinstance(proof, str) or not 16 <= len(proof) <= 128:
        return f"'{name}' gives no proof of who it is"
    counts = samples, introduction.get("tests", 0)
    if not all(isinstance(count, int) and 0 <= count <= MOST_SAMPLES for count in counts):
        return f"'{name}' declares an impossible number of samples"
    return None
