"""What clients and classes are called."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from coterie.errors import CoterieError, suggestion


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

    def client_number(self, client: int | str | None) -> int | None:
        """Return the number of a client that a user calls by its name, or by its number.

        >>> names = Names(("Riverside", "Lakeview"))
        >>> names.client_number("Lakeview"), names.client_number("0"), names.client_number(7)
        (1, 0, 7)
        """
        if not isinstance(client, str):
            return client
        if client in self.clients:
            return self.clients.index(client)
        try:
            return int(client)
        except ValueError:
            hint = suggestion(client, self.clients) if self.clients else "clients have no names here, only numbers"
            raise CoterieError(f"there is no client '{client}': {hint}") from None

    def of_class(self, label: int) -> str:
        """Return the name of a class."""
        return self.classes[label] if label < len(self.classes) else str(label)

    def to_json(self) -> dict[str, list[str]]:
        """Return the names that there are."""
        named = {"client_names": [*self.clients], "class_names": [*self.classes]}
        return {key: names for key, names in named.items() if names}


NO_NAMES = Names()
