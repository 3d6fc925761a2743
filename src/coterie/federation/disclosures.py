"""What clients were asked to tell, with and without noise: what a run may say of privacy."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from coterie.federation.by_client import IntsByClient
from coterie.federation.state import Resumable, saved
from coterie.messages import ClientId, Request, Train
from coterie.training.private_steps import training_release


@dataclass
class Disclosures(Resumable):
    """How many noised answers each client was asked for, and what clients were asked to answer as it is."""

    noised: IntsByClient = saved(default_factory=IntsByClient)
    """Descriptions, by client."""
    trainings: IntsByClient = saved(default_factory=IntsByClient)
    """Private trainings, by client."""
    steps: IntsByClient = saved(default_factory=IntsByClient)
    """What is charged for these, in steps, or in shuffled epochs."""
    plain: dict[str, int] = saved(default_factory=dict)
    """How often, by the name of the verb."""

    def note(self, requests: Mapping[ClientId, Request]) -> None:
        """Count what is asked."""
        known: dict[int, _Asked] = {}  # one request for many is looked at once
        for client, request in requests.items():
            if (asked := known.get(id(request))) is None:
                asked = known[id(request)] = _Asked.of(request)
            for name in asked.plain:
                self.plain[name] = self.plain.get(name, 0) + 1
            if asked.noised:
                self.noised[client] = self.noised.get(client, 0) + asked.noised
            if asked.steps:
                self.trainings[client] = self.trainings.get(client, 0) + 1
                self.steps[client] = self.steps.get(client, 0) + asked.steps

    def spent(self, requests: Mapping[ClientId, Request], most: int) -> set[ClientId]:
        """Return who would be charged for more than so many steps by what is asked."""
        costs = {id(request): private_steps(request) for request in requests.values()}
        return {
            client
            for client, request in requests.items()
            if (cost := costs[id(request)]) and self.steps.get(client, 0) + cost > most
        }

    def load(self, state: Mapping[str, Any]) -> None:
        """Restore what `save` returned; earlier versions had no private trainings."""
        super().load({"trainings": {}, "steps": {}, **state})

    @property
    def most(self) -> int:
        """How many noised descriptions one client was asked for at most."""
        return max(self.noised.values(), default=0)


class _Asked(NamedTuple):
    """What a request asks for."""

    plain: tuple[str, ...]
    """Names of verbs that are answered as it is."""
    noised: int
    """Noised descriptions."""
    steps: int

    @classmethod
    def of(cls, request: Request) -> "_Asked":
        plain = tuple(
            type(verb).__name__.lower() for verb in request.verbs if not verb.is_noised() and verb.permissions()
        )
        noised = sum(verb.is_noised() and not isinstance(verb, Train) for verb in request.verbs)
        return cls(plain, noised, private_steps(request))


def private_steps(request: Request) -> int:
    """Return how many steps, or shuffled epochs, a client is charged for answering a request."""
    plans = [verb.plan for verb in request.verbs if isinstance(verb, Train)]
    return sum(release.steps for plan in plans if (release := training_release(plan)) is not None)
