"""What a federated method is to the round loop."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from coterie.federation.served_model import ServedModel
from coterie.messages import ClientId

if TYPE_CHECKING:
    from coterie.federation.federation import Federation


class Algorithm(Protocol):
    """A method, on the server's side. It sees clients only through the federation."""

    def begin(self, fed: Federation) -> None:
        """Do the one-shot work before round 1: initial models, descriptions of clients, grouping."""
        ...

    def round(self, fed: Federation, cohort: Sequence[ClientId]) -> None:
        """Ask the cohort, then aggregate what came back."""
        ...

    def model_for(self, client: ClientId) -> ServedModel | None:
        """Return what this client would receive now; None where the server has no model for it."""
        ...

    def admit(self, fed: Federation, newcomers: Sequence[ClientId]) -> None:
        """Find a place for clients that came after the beginning, so that `model_for` knows them."""
        ...

    def groups(self) -> Mapping[ClientId, int] | None:
        """Return the group of each client that is in one; None for a method that forms no groups."""
        ...

    def save(self) -> dict[str, Any]:
        """Return the server's state: arrays, numbers, texts, lists, and dictionaries of these with text keys."""
        ...

    def load(self, state: Mapping[str, Any]) -> None:
        """Take the place of `begin` when a run goes on from what `save` returned."""
        ...
