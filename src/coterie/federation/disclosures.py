"""What clients were asked to tell, with and without noise: what a run may say of privacy."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

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
        for client, request in requests.items():
            for verb in request.verbs:
                if not verb.is_noised() and verb.permissions():
                    name = type(verb).__name__.lower()
                    self.plain[name] = self.plain.get(name, 0) + 1
                elif verb.is_noised() and not isinstance(verb, Train):
                    self.noised[client] = self.noised.get(client, 0) + 1
            if steps := private_steps(request):
                self.trainings[client] = self.trainings.get(client, 0) + 1
                self.steps[client] = self.steps.get(client, 0) + steps

    def load(self, state: Mapping[str, Any]) -> None:
        """Restore what `save` returned; earlier versions had no private trainings."""
        super().load({"trainings": {}, "steps": {}, **state})

    @property
    def most(self) -> int:
        """How many noised descriptions one client was asked for at most."""
        return max(self.noised.values(), default=0)


def private_steps(request: Request) -> int:
    """Return how many steps, or shuffled epochs, a client is charged for answering a request."""
    plans = [verb.plan for verb in request.verbs if isinstance(verb, Train)]
    return sum(release.steps for plan in plans if (release := training_release(plan)) is not None)
