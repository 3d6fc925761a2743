"""Who belongs to a federation: the names of sites, the numbers by which methods know them, and their proofs.

The registry is ``sites.json`` in the run folder. A site makes up a secret when it first comes and signs each time with
the key that it makes of it; the registry holds the public half. A known name with another key is somebody else.
"""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from coterie.bounded import LARGEST_JSON, parse_json, read_bytes
from coterie.engine.flower.identity import FEDERATION, KEY, NO_CERTIFICATE, error_in_signature
from coterie.errors import CoterieError, one_line
from coterie.files import write_whole
from coterie.messages import ClientId
from coterie.messages.limits import MOST_SAMPLES

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


@dataclass
class RegisteredSite:
    """A site as the server knows it."""

    client: ClientId
    key: str
    """The public key by which it is known."""
    samples: int
    tests: int
    """To train and to test on, as it declared when it last came."""


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
    certificate: str = NO_CERTIFICATE
    """Of this server; what sites sign is for it alone."""

    @classmethod
    def open(
        cls, path: Path, agreed: Mapping[str, Any] | None = None, certificate: str = NO_CERTIFICATE
    ) -> SiteRegistry:
        """Read the registry of a run, or begin one; `agreed` says what a sample is, and must not change."""
        agreed = dict(agreed or {})
        if not path.exists():
            registry = cls(path, agreed=agreed, certificate=certificate)
            registry._write()
            return registry
        try:
            content = parse_json(read_bytes(path, LARGEST_JSON))
            if error_text := _error_in_file(content):
                raise ValueError(error_text)
            sites = {name: RegisteredSite(**site) for name, site in content["sites"].items()}
            registry = cls(path, content["federation"], sites, content["next"], content["agreed"], certificate)
        except (ValueError, KeyError, TypeError) as error:
            text = one_line(str(error))
            raise CoterieError(f"'{path}' is damaged ({text}): put back a copy, or start the run anew") from None
        if changed := [key for key in agreed if registry.agreed.get(key) != agreed[key]]:
            before, now = ({key: samples.get(key) for key in changed} for samples in (registry.agreed, agreed))
            raise CoterieError(
                f"[samples] was {before} when the run of '{path.parent}' began, and is {now}: choose another out"
            )
        return registry

    def register(
        self, introductions: Mapping[int, Mapping[str, Any]], nonces: Mapping[int, str]
    ) -> tuple[dict[int, ClientId], dict[int, str]]:
        """Register nodes by their introductions; return the client at each node, and why the other nodes are refused.

        New names are numbered in their own order, so that the numbers do not depend on who came first. Nodes of the
        same site are returned in the order given.
        """
        clients: dict[int, ClientId] = {}
        refused = {node: error for node in introductions if (error := self._error_in(node, introductions, nonces))}
        valid = {node: said for node, said in introductions.items() if node not in refused}
        for node in sorted(valid, key=lambda node: natural(str(valid[node]["name"]))):
            name, key = str(valid[node]["name"]), str(valid[node]["key"])
            samples, tests = int(valid[node]["samples"]), int(valid[node]["tests"])
            if name not in self.sites:
                self.sites[name] = RegisteredSite(self.next, key, samples, tests)
                self.next += 1
            site = self.sites[name]
            if site.key != key:
                refused[node] = f"calls itself '{name}', which is client {site.client}, without its secret"
                continue
            site.samples, site.tests = samples, tests
            clients[node] = site.client
        self._write()
        return clients, refused

    def _error_in(
        self, node: int, introductions: Mapping[int, Mapping[str, Any]], nonces: Mapping[int, str]
    ) -> str | None:
        """Say why a node that introduces itself like this is refused."""
        said = introductions[node]
        if error := error_in_introduction(said):
            return error
        error = error_in_signature(said, self.federation, self.certificate, nonces.get(node, ""))
        return error and f"'{said['name']}' {error}"

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


def _error_in_file(content: Any) -> str | None:
    """Say where ``sites.json`` is not what `SiteRegistry` writes."""
    if not isinstance(content, dict):
        return "it is no table"
    for key, kind in {"federation": str, "agreed": dict, "next": int, "sites": dict}.items():
        if type(content.get(key)) is not kind:
            return f"{key}: it should be a {kind.__name__}"
    if not FEDERATION.fullmatch(content["federation"]):
        return "federation: it should be 16 letters 0-9a-f"
    numbers = set()
    for name, site in content["sites"].items():
        if not NAME.fullmatch(name):
            return f"sites: '{name[:64]}' is no name of a site"
        if isinstance(site, dict) and "digest" in site:
            return "its sites joined under an earlier version"
        if not isinstance(site, dict) or set(site) != {"client", "key", "samples", "tests"}:
            return f"sites.{name}: it should have client, key, samples and tests"
        if not isinstance(site["key"], str) or not KEY.fullmatch(site["key"]):
            return f"sites.{name}.key: it should be 64 letters 0-9a-f"
        for key, most in (("client", content["next"] - 1), ("samples", MOST_SAMPLES), ("tests", MOST_SAMPLES)):
            if type(site[key]) is not int or not 0 <= site[key] <= most:
                return f"sites.{name}.{key}: it should be a number from 0 to {most}"
        numbers.add(site["client"])
    return None if len(numbers) == len(content["sites"]) else "sites: two of them have the same number"


def error_in_introduction(introduction: Mapping[str, Any]) -> str | None:
    """Say why a node that introduces itself like this is refused."""
    name = introduction.get("name")
    if introduction.get("problem"):
        who = f"'{name[:64]}' " if isinstance(name, str) else ""
        return f"{who}can't take part: {str(introduction['problem'])[:200]}"
    if not isinstance(name, str) or not NAME.fullmatch(name):
        return "introduces itself without a proper name"
    counts = introduction.get("samples"), introduction.get("tests")
    if not all(isinstance(count, int) and 0 <= count <= MOST_SAMPLES for count in counts):
        return f"'{name}' declares an impossible number of samples"
    return None
