"""What clients were asked to tell, with and without noise: what a run may say of privacy."""

from collections.abc import Mapping
from dataclasses import dataclass

from coterie.federation.by_client import IntsByClient
from coterie.federation.state import Resumable, saved
from coterie.messages import ClientId, Request


@dataclass
class Disclosures(Resumable):
    """How many noised answers each client was asked for, and what clients were asked to answer as it is."""

    noised: IntsByClient = saved(default_factory=IntsByClient)
    plain: dict[str, int] = saved(default_factory=dict)
    """How often, by the name of the verb."""

    def note(self, requests: Mapping[ClientId, Request]) -> None:
        """Count what is asked."""
        for client, request in requests.items():
            for verb in request.verbs:
                if verb.is_noised():
                    self.noised[client] = self.noised.get(client, 0) + 1
                elif verb.permissions():
                    name = type(verb).__name__.lower()
                    self.plain[name] = self.plain.get(name, 0) + 1

    @property
    def most(self) -> int:
        """How many noised answers one client was asked for at most."""
        return max(self.noised.values(), default=0)
