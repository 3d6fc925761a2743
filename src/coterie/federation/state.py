"""Which fields are the state of a method, a sampler or a ledger, and how they are saved and loaded."""

import dataclasses
import sys
from collections.abc import Iterator, Mapping
from typing import Any, get_args

from coterie.errors import CoterieError
from coterie.federation.by_client import IntsByClient
from coterie.federation.checkpoint import PLAIN, WriteOnce
from coterie.messages import wire

SAVED = "saved"
"""The entry in a field's metadata: ``"always"``, ``"once"`` or ``"never"``."""
_PARTS = "_written_once"
"""The attribute that remembers the parts of a state that were written."""


def saved(*, default: Any = dataclasses.MISSING, default_factory: Any = dataclasses.MISSING, once: bool = False) -> Any:
    """Declare a dataclass field as state: not an option, saved after every round.

    It may hold arrays, numbers, strings, models, dataclasses that its type hint names, and lists, tuples, sets and
    dictionaries of these, keyed by strings or integers. With `once` it is written only when it is a different object
    than before: replace such a value, do not change it. Whole numbers by client are best kept with `IntsByClient` as
    `default_factory`: of many clients only what has changed is written.
    """
    return dataclasses.field(
        init=False,
        repr=False,
        default=default,
        default_factory=default_factory,
        metadata={SAVED: "once" if once else "always"},
    )


class Resumable:
    """Something with state that a resumed run needs: its dataclass fields declared with `saved`."""

    def save(self) -> dict[str, Any]:
        """Return the saved fields; unless a subclass writes `save` itself, refuse what is set but not declared."""
        if type(self).save is Resumable.save:
            _refuse_undeclared(self)
        parts = vars(self).setdefault(_PARTS, {})
        state: dict[str, Any] = {}
        for field in _saved_fields(self):
            value = getattr(self, field.name)
            if field.default_factory is IntsByClient:
                if not isinstance(value, IntsByClient):  # set anew
                    setattr(self, field.name, value := IntsByClient(value))
                state[field.name] = value.save()
                continue
            if field.metadata[SAVED] == "once" and (field.name not in parts or parts[field.name][0] is not value):
                parts[field.name] = value, WriteOnce(_taken_apart(value))
            state[field.name] = parts[field.name][1] if field.name in parts else _taken_apart(value)
        return state

    def load(self, state: Mapping[str, Any]) -> None:
        """Set the saved fields to what `save` returned; for a method, this takes the place of `begin`."""
        parts = vars(self).setdefault(_PARTS, {})
        for field in _saved_fields(self):
            stored = state[field.name]
            if field.default_factory is IntsByClient:
                setattr(self, field.name, IntsByClient.load(stored))
                continue
            classes = {kind.__name__: kind for kind in _dataclasses_in(_type_hint(type(self), field))}
            value = _put_together(stored.value if isinstance(stored, WriteOnce) else stored, classes)
            if isinstance(stored, WriteOnce):
                parts[field.name] = value, stored
            setattr(self, field.name, value)


def _saved_fields(owner: Any) -> list[dataclasses.Field[Any]]:
    fields = dataclasses.fields(owner) if dataclasses.is_dataclass(owner) else ()
    return [field for field in fields if SAVED in field.metadata]


def _refuse_undeclared(owner: Any) -> None:
    declared = {field.name for field in dataclasses.fields(owner)} if dataclasses.is_dataclass(owner) else set()
    for name in vars(owner):
        if name not in declared and not name.startswith("_"):
            whose = type(owner).__name__
            raise CoterieError(
                f"{whose}.{name} is set but not declared, so a resumed run would lack it: make {whose} a dataclass and "
                f"write '{name}: its type = saved()' (from coterie.federation), or write save and load; names that "
                "begin with '_' are for what can be recomputed"
            )


def _taken_apart(value: Any) -> Any:
    """Copy containers, and turn dataclasses into dictionaries, except those that messages are made of."""
    if type(value) in PLAIN:  # as most are
        return value
    if isinstance(value, Mapping):
        if PLAIN.issuperset(map(type, value.values())):
            return dict(value)
        return {key: _taken_apart(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return type(value)(value if PLAIN.issuperset(map(type, value)) else map(_taken_apart, value))
    if dataclasses.is_dataclass(value) and type(value) not in wire.CLASSES.values():
        fields = [field for field in dataclasses.fields(value) if field.metadata.get(SAVED) != "never"]
        parts = {field.name: _taken_apart(getattr(value, field.name)) for field in fields}
        return {"dataclass": type(value).__name__, "fields": parts}
    return value


def _put_together(value: Any, classes: Mapping[str, type]) -> Any:
    """Copy containers, and make dataclasses of the dictionaries that they were turned into."""
    if isinstance(value, Mapping):
        if value.keys() == {"dataclass", "fields"} and value["dataclass"] in classes:
            fields = {name: _put_together(item, classes) for name, item in value["fields"].items()}
            return classes[value["dataclass"]](**fields)
        return {key: _put_together(item, classes) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return type(value)(_put_together(item, classes) for item in value)
    return value


def _type_hint(cls: type, field: dataclasses.Field[Any]) -> Any:
    """Return the type of a field as an object, resolved in the module that declares it."""
    if not isinstance(field.type, str):
        return field.type
    owner = next(c for c in cls.__mro__ if field.name in vars(c).get("__annotations__", {}))
    try:
        return eval(field.type, vars(sys.modules[owner.__module__]))
    except NameError:  # imported for type checking only, so that no dataclass of it is made here
        return None


def _dataclasses_in(hint: Any) -> Iterator[type]:
    """Yield the dataclasses that a type hint names, and those in their fields."""
    if isinstance(hint, type) and dataclasses.is_dataclass(hint):
        yield hint
        for field in dataclasses.fields(hint):
            yield from _dataclasses_in(_type_hint(hint, field))
    for part in get_args(hint):
        yield from _dataclasses_in(part)
