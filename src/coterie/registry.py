"""Names to things: methods, models, data sets, partitions, rules, measures, losses and metrics, ours and users'.

A registry is filled by a decorator. Built-in entries live in one package, whose modules are imported at
the first look-up, so that adding a file adds an entry; entries of other installed packages are found
through entry points of the groups ``coterie.algorithms``, ``coterie.models``, ``coterie.datasets``,
``coterie.partitions``, ``coterie.rules``, ``coterie.measures``, ``coterie.losses`` and ``coterie.metrics``.
"""

from __future__ import annotations

import dataclasses
import functools
import importlib
import inspect
import pkgutil
import re
import sys
import threading
import types
from collections.abc import Callable, Iterable, Iterator, Mapping
from importlib import metadata
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Generic, Literal, TypeVar, Union, get_args, get_origin

from coterie.errors import CoterieError, suggestion, what_is_wanted

if TYPE_CHECKING:
    from pydantic import TypeAdapter

T = TypeVar("T", bound=Callable[..., Any])

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
"""What can be written on a command line and be a part of a folder's name."""


MOST = 10**9
"""The largest whole number that an option may be: of samples or units no more make sense."""


@dataclasses.dataclass(frozen=True)
class Check:
    """What the value of an option must be beyond its type, in ``Annotated[type, Check(error_in)]``."""

    error_in: Callable[[Any], str | None]
    """Says what is wrong with a value, or None."""
    choices: Callable[[], Iterable[str]] = tuple
    """Lists the names that a value may be, where it is one of some."""


class FileName:
    """Marks an option that names a file, in ``Annotated[str | None, FileName()]``: it is made absolute in a run."""


class Option:
    """One option of a registered thing: its name, type and default."""

    def __init__(self, name: str, annotation: Any, default: Any) -> None:
        self.name, self.annotation, self.default = name, annotation, default

    @property
    def help(self) -> str:
        """The sentence given in ``Annotated[type, "sentence"]``, or nothing."""
        if get_origin(self.annotation) is Annotated:
            return next((a for a in get_args(self.annotation)[1:] if isinstance(a, str)), "")
        return ""

    @property
    def names_file(self) -> bool:
        """Whether its value is the name of a file."""
        return get_origin(self.annotation) is Annotated and any(
            isinstance(note, FileName) for note in get_args(self.annotation)[1:]
        )

    def error_in(self, value: Any) -> str | None:
        """Say what is wrong with a value of the right type, or None."""
        checks = [check for check in get_args(self.annotation)[1:] if isinstance(check, Check)]
        return next((error for check in checks if (error := check.error_in(value))), None)


class Registry(Generic[T]):
    """The things of one kind, by name."""

    every: ClassVar[list[Registry[Any]]] = []

    def __init__(
        self,
        kind: str,
        package: str,
        group: str | None = None,
        error_in: Callable[[Any], str | None] = lambda item: None,
    ) -> None:
        """`package` holds the built-in entries, `group` is the entry-point group of others.

        `error_in` says what is wrong with an entry, if anything.
        """
        self.kind, self.package, self.group, self.error_in = kind, package, group or package, error_in
        self._items: dict[str, T] = {}
        self._own_loaded = self._loaded = False
        self._loading = threading.RLock()
        Registry.every.append(self)

    def register(self, name: str) -> Callable[[T], T]:
        """Return a decorator that enters a class or function under `name`."""
        if not isinstance(name, str):
            raise CoterieError(
                f"{getattr(name, '__name__', name)} is registered as a {self.kind} without a name: give the decorator "
                "one, in brackets and quotes"
            )
        if not NAME.fullmatch(name):
            raise CoterieError(
                f"'{name}' can't be the name of a {self.kind}: use letters (a-z, A-Z), digits, '-', '_' and '.', and "
                "begin with a letter or a digit"
            )

        def enter(item: T) -> T:
            if not is_own(item):
                self._load_own()  # so that it is the newcomer who is told that a name is taken
            holder = self._items.get(name)
            if holder is not None and (holder.__module__, holder.__qualname__) != (item.__module__, item.__qualname__):
                which = "yours" if is_own(holder) else "one of them"
                raise CoterieError(
                    f"{self.kind} '{name}' of {home(item)} is registered already, by {home(holder)}: "
                    f"give {which} another name"
                )
            if error := self.error_in(item):
                raise CoterieError(f"{self.kind} '{name}' of {home(item)}: {error}")
            self._items[name] = item
            return item

        return enter

    @classmethod
    def outsiders(cls) -> set[str]:
        """Return the outermost packages, or modules, of all entries that are not our own."""
        entries = [item for registry in cls.every for item in registry._items.values()]
        return {outermost(item.__module__) for item in entries if not is_own(item)}

    def __getitem__(self, name: str) -> T:
        self._load()
        if name not in self._items:
            hint = suggestion(name, self._items)
            own = "" if hint.endswith("?") else "; one of your own needs --plugin FILE, or plugins in [run]"
            raise CoterieError(f"unknown {self.kind} '{name}': {hint}{own}")
        return self._items[name]

    def __contains__(self, name: object) -> bool:
        self._load()
        return name in self._items

    def __iter__(self) -> Iterator[str]:
        self._load()
        return iter(sorted(self._items))

    def name_of(self, item: object) -> str | None:
        """Return the name under which a class or function is registered, if it is."""
        self._load()
        return next((name for name, entry in self._items.items() if entry is item), None)

    def canonical(self, name: str) -> str:
        """Return the registered name that is meant, whatever its capital letters; if there is none, the name itself."""
        self._load()
        return str(same_name(name, self._items))

    def summary(self, name: str) -> str:
        """Return the first line of the entry's docstring."""
        return (inspect.getdoc(self[name]) or "").partition("\n")[0]

    def options(self, name: str) -> dict[str, Option]:
        """Return what a user may set: the keyword-only parameters of the class or function."""
        item = self[name]
        return {
            parameter.name: Option(parameter.name, _evaluated(parameter, item), _default(parameter, item))
            for parameter in inspect.signature(item).parameters.values()
            if parameter.kind is inspect.Parameter.KEYWORD_ONLY
        }

    def validate(self, name: str, given: Mapping[str, Any]) -> dict[str, Any]:
        """Check the options given for an entry; return them all, defaults included."""
        from pydantic import ValidationError

        options = self.options(name)
        for key in given:
            if key not in options:
                hint = suggestion(key, options) if options else "it has no options"
                raise CoterieError(f"{self.kind} '{name}' has no option '{key}': {hint}")
        values: dict[str, Any] = {}
        for option in options.values():
            if option.name not in given and option.default is inspect.Parameter.empty:
                raise CoterieError(f"{self.kind} '{name}' needs the option '{option.name}'")
            value = in_any_case(given.get(option.name, option.default), option.annotation)
            try:
                values[option.name] = _validator(option.annotation).validate_python(value)
            except ValidationError as error:
                wanted = what_is_wanted(error.errors())
                raise CoterieError(f"{self.kind} '{name}': {option.name} = {value!r} is not valid: {wanted}") from None
            if too_large(values[option.name]):
                raise CoterieError(
                    f"{self.kind} '{name}': {option.name} = {value!r} is not valid: should be at most {MOST:,}"
                )
            if error_in_value := option.error_in(values[option.name]):
                raise CoterieError(f"{self.kind} '{name}': {option.name} = {value!r} is not valid: {error_in_value}")
        return values

    def _enter(self, entry: metadata.EntryPoint) -> None:
        """Register what an installed package offers."""
        try:
            item = entry.load()
        except Exception as error:
            raise CoterieError(
                f"an installed package offers the {self.kind} '{entry.name}' as {entry.value}, which can't be loaded: "
                + (str(error) if isinstance(error, CoterieError) else f"{type(error).__name__}: {error}")
            ) from error
        if self._items.get(entry.name) is not item:  # a decorator may have entered it already
            self.register(entry.name)(item)

    def _load_own(self) -> None:
        with self._loading:
            if self._own_loaded:
                return
            self._own_loaded = True
            try:
                package = importlib.import_module(self.package)
                for module in pkgutil.iter_modules(package.__path__):
                    importlib.import_module(f"{self.package}.{module.name}")
            except BaseException:
                self._own_loaded = False
                raise

    def _load(self) -> None:
        with self._loading:  # other threads wait; the imports themselves may look things up
            if self._loaded:
                return
            self._loaded = True
            try:
                self._load_own()
                for entry in metadata.entry_points(group=self.group):
                    self._enter(entry)
            except BaseException:
                self._loaded = False
                raise


def choices(annotation: Any) -> list[str]:
    """Return the texts that a type consists of, if any.

    >>> choices(Annotated[Literal["a", "b"] | None, "help"])
    ['a', 'b']
    """
    if get_origin(annotation) is Literal:
        return [value for value in get_args(annotation) if isinstance(value, str)]
    if get_origin(annotation) is Annotated and (listed := listed_choices(get_args(annotation))):
        return listed
    inner = get_args(annotation)[:1] if get_origin(annotation) is Annotated else get_args(annotation)
    unions = (Annotated, Union, types.UnionType)
    return [name for part in inner for name in choices(part)] if get_origin(annotation) in unions else []


def listed_choices(notes: Iterable[Any]) -> list[str]:
    """Return the names that the checks among some annotations list."""
    return [name for note in notes if isinstance(note, Check) for name in note.choices()]


def same_name(name: Any, names: Iterable[str]) -> Any:
    """Return the one of some names that differs from the given one in capital letters only; else what was given.

    >>> same_name("PACFL", ["fedavg", "pacfl"]), same_name("pacl", ["fedavg", "pacfl"]), same_name(3, ["pacfl"])
    ('pacfl', 'pacl', 3)
    """
    if not isinstance(name, str) or name in (names := list(names)):
        return name
    same = [other for other in names if other.casefold() == name.casefold()]
    return same[0] if len(same) == 1 else name


def in_any_case(value: Any, annotation: Any) -> Any:
    """Return a value as its type spells it, if it is one of the type's texts but for capital letters.

    >>> in_any_case("MEAN", Literal["mean", "median"]), in_any_case(3, Literal["mean", "median"])
    ('mean', 3)
    """
    return same_name(value, choices(annotation)) if isinstance(value, str) else value


def _validator(annotation: Any) -> TypeAdapter[Any]:
    """Return what checks values of a type; making one takes a millisecond, so it is kept if the type can be a key."""
    try:
        return _kept_validator(annotation)
    except TypeError:  # a plugin's type may have notes that have no hash
        return _new_validator(annotation)


def _new_validator(annotation: Any) -> TypeAdapter[Any]:
    from pydantic import ConfigDict, TypeAdapter

    return TypeAdapter(annotation, config=ConfigDict(allow_inf_nan=False))


_kept_validator = functools.lru_cache(maxsize=1024)(_new_validator)


def too_large(value: Any) -> bool:
    """Say whether a value is, or holds, a whole number beyond all sense.

    >>> too_large([1, 10**18]), too_large(1e300)
    (True, False)
    """
    if isinstance(value, list | tuple | set):
        return any(map(too_large, value))
    return isinstance(value, int) and abs(value) > MOST


def outermost(module: str) -> str:
    """Return the outermost package of a module."""
    return module.partition(".")[0]


def is_own(item: Any) -> bool:
    """Say whether a class or function is Coterie's."""
    return outermost(item.__module__) == outermost(__name__)


def home(item: Any) -> str:
    """Return the file of a class or function; of one that was typed in, its module."""
    return getattr(sys.modules.get(item.__module__), "__file__", None) or str(item.__module__)


def _evaluated(parameter: inspect.Parameter, item: Callable[..., Any]) -> Any:
    """Return an annotation as an object; only this one, as others may name modules imported for type checking."""
    annotation = parameter.annotation
    if annotation is inspect.Parameter.empty:
        return Any
    if not isinstance(annotation, str):
        return annotation
    classes = item.__mro__ if inspect.isclass(item) else ()
    home = next((c for c in classes if parameter.name in vars(c).get("__annotations__", {})), item)
    return eval(annotation, vars(sys.modules[home.__module__]))


def _default(parameter: inspect.Parameter, item: Callable[..., Any]) -> Any:
    """Return a default; one that a dataclass makes anew each time is made once more."""
    for field in dataclasses.fields(item) if dataclasses.is_dataclass(item) else ():
        if field.name == parameter.name and field.default_factory is not dataclasses.MISSING:
            return field.default_factory()
    return parameter.default
