"""What clients and classes are called."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Names:
    """What clients and classes are called; those that nobody has named go by their numbers."""

    clients: Sequence[str] = ()
    classes: Sequence[str] = ()

    @classmethod
    def in_result(cls, result: Mapping[str, Any] | None) -> "Names":
        """Return the names that a ``result.json`` has, or what ``coterie cluster --json`` prints."""
        given = result or {}
        return cls(given.get("client_names") or (), given.get("class_names") or ())

    def of_client(self, client: int) -> str:
        """Return the name of a client.

        >>> Names(("Riverside",)).of_client(0), Names(("Riverside",)).of_client(1)
        ('Riverside', '1')
        """
        return self.clients[client] if client < len(self.clients) else str(client)

    def of_class(self, label: int) -> str:
        """Return the name of a class."""
        return self.classes[label] if label < len(self.classes) else str(label)

    def to_json(self) -> dict[str, list[str]]:
        """Return the names that there are."""
        named = {"client_names": [*self.clients], "class_names": [*self.classes]}
        return {key: names for key, names in named.items() if names}


NO_NAMES = Names()
