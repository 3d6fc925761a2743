"""Whole numbers by client, of which a checkpoint writes what has changed, not all."""

from collections.abc import ItemsView, Iterable, Iterator, KeysView, Mapping, MutableMapping, ValuesView
from math import isqrt
from typing import Any

import numpy as np

from coterie.federation.checkpoint import WriteOnce
from coterie.messages import ClientId

SMALL = 2000
"""So many are written whole each time."""
CHANGES_A_ROUND = 100
"""About so many change between two checkpoints of a large federation."""


class IntsByClient(MutableMapping[ClientId, int]):
    """A dictionary of whole numbers by client, such as bytes, rounds or groups.

    With many clients, `save` returns what has changed since it was last saved whole, and that whole state as a part
    that is written once. A new whole is made when the changes have become many: what a checkpoint costs so grows with
    the changes, and by the square root of the clients.
    """

    def __init__(self, items: Mapping[ClientId, int] | Iterable[tuple[ClientId, int]] = ()) -> None:
        self._items: dict[ClientId, int] = dict(items)
        self._whole: WriteOnce | None = None
        self._changed: dict[ClientId, None] = {}
        """Whose number was set since, in order."""
        self._gone: dict[ClientId, None] = {}
        """Who was removed since, and perhaps came again."""

    def __getitem__(self, client: ClientId) -> int:
        return self._items[client]

    def __setitem__(self, client: ClientId, value: int) -> None:
        self._items[client] = value
        if self._whole is not None:
            self._changed[client] = None

    def __delitem__(self, client: ClientId) -> None:
        del self._items[client]
        if self._whole is not None:
            self._changed.pop(client, None)
            self._gone[client] = None

    def __iter__(self) -> Iterator[ClientId]:
        return iter(self._items)

    def __len__(self) -> int:
        return len(self._items)

    def get(self, client: ClientId, default: Any = None) -> Any:
        """Return the number of a client, or something else if it has none."""
        return self._items.get(client, default)

    def __contains__(self, client: object) -> bool:
        return client in self._items

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._items})"

    def __ior__(self, other: Mapping[ClientId, int] | Iterable[tuple[ClientId, int]]) -> "IntsByClient":
        self.update(other)
        return self

    def keys(self) -> KeysView[ClientId]:
        """Return the clients."""
        return self._items.keys()

    def values(self) -> ValuesView[int]:
        """Return the numbers."""
        return self._items.values()

    def items(self) -> ItemsView[ClientId, int]:
        """Return clients and numbers."""
        return self._items.items()

    def save(self) -> dict[Any, Any]:
        """Return the state, as `load` takes it: all, or what was written once and the changes since."""
        changes = len(self._changed) + len(self._gone)
        if self._whole is None or changes > isqrt(CHANGES_A_ROUND * len(self)):
            self._whole, self._changed, self._gone = None, {}, {}
            if len(self) <= SMALL:
                return dict(self._items)
            self._whole = WriteOnce(_columns(self._items))
        gone = np.fromiter(self._gone, np.int64, len(self._gone))
        changed = {client: self._items[client] for client in self._changed}
        return {"whole": self._whole, "gone": gone, **_columns(changed)}

    @classmethod
    def load(cls, state: Mapping[Any, Any] | Iterable[ClientId]) -> "IntsByClient":
        """Restore what `save` returned; earlier versions saved plain dictionaries, or sets, of which all numbers are 0.

        >>> IntsByClient.load(IntsByClient({7: 3, 2: 1}).save()), IntsByClient.load({2})
        (IntsByClient({7: 3, 2: 1}), IntsByClient({2: 0}))
        """
        if not isinstance(state, Mapping):
            return cls(dict.fromkeys(sorted(state), 0))
        if "clients" not in state:
            return cls({int(client): int(value) for client, value in state.items()})
        if not isinstance(whole := state.get("whole"), WriteOnce):
            return cls(_pairs(state))
        loaded = cls(_pairs(whole.value))
        loaded._whole = whole
        for client in {*state["gone"].tolist()} & loaded.keys():
            del loaded[client]
        loaded.update(_pairs(state))
        return loaded


def _columns(items: Mapping[ClientId, int]) -> dict[str, Any]:
    count = len(items)
    return {
        "clients": np.fromiter(items, np.int64, count),
        "values": np.fromiter(items.values(), np.int64, count),
    }


def _pairs(columns: Mapping[str, Any]) -> Iterable[tuple[ClientId, int]]:
    return zip(columns["clients"].tolist(), columns["values"].tolist(), strict=True)
