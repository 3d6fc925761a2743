"""What programs hand to the functions of Coterie: a wrong type is refused, and errors name keywords, not flags."""

import functools
import inspect
import operator
import os
import re
from collections.abc import Callable, Iterable, Mapping
from numbers import Real
from typing import Any, ParamSpec, TypeVar

from coterie.errors import CoterieError, kind_of

P = ParamSpec("P")
R = TypeVar("R")

_COMMAND_OR_FLAG = re.compile(
    r"""(?P<command>'(?:coterie|flwr|pip|ray)\s[^']*')"""
    r"""|(?<![\w-])--(?P<flag>[a-z][a-z0-9-]*)"""
    r"""(?:\s(?P<value>\d+(?=\s)|(?!(?:or|and)\s)[^\s;()'"]*[^\s;:()'".,]"""
    r"""(?=[,;:.)]+(?:\s|$)|$|\s(?:or|and|write|--)))|(?=\s['"(])(?P<other>))?"""
)
"""A command in quotes, which stays; or a flag, perhaps with its value, which may hold a colon; or with some other."""


def checked(function: Callable[P, R]) -> Callable[P, R]:
    """Refuse arguments of the wrong type.

    >>> @checked
    ... def save(overwrite: bool = False) -> None: ...
    >>> save(overwrite="no")
    Traceback (most recent call last):
    coterie.errors.CoterieError: overwrite = 'no' is not valid: should be True or False, not a text
    """

    @functools.wraps(function)
    def asked(*args: P.args, **keywords: P.kwargs) -> R:
        _check(function, args, keywords)
        return function(*args, **keywords)

    return asked


def in_keywords(function: Callable[P, R]) -> Callable[P, R]:
    """Refuse arguments of the wrong type; and let errors name keywords, where they name flags of the command line.

    For functions that only programs call; those that commands call, too, are `checked`.

    >>> @in_keywords
    ... def export(client: int | None = None, overwrite: bool = False) -> None:
    ...     raise CoterieError("name a client, for instance --client 0, or add --overwrite; see 'coterie run --help'")
    >>> export()
    Traceback (most recent call last):
    coterie.errors.CoterieError: name a client, for instance client=0, or add overwrite=True; see 'coterie run --help'
    """

    @functools.wraps(function)
    def asked(*args: P.args, **keywords: P.kwargs) -> R:
        try:
            return checked(function)(*args, **keywords)
        except CoterieError as error:
            parameters = inspect.signature(function).parameters
            error.args = (_COMMAND_OR_FLAG.sub(lambda found: _as_keyword(found, parameters), str(error)),)
            raise

    return asked


def _as_keyword(found: re.Match[str], parameters: Mapping[str, inspect.Parameter]) -> str:
    flag, value = (found["flag"] or "").replace("-", "_"), found["value"]
    name = next((name for name in (flag, f"{flag}s") if name in parameters), None)
    if name is None:
        return found[0]
    if parameters[name].default is False:
        return f"{name}=True" + ("" if value is None else f" {value}")
    if found["other"] is not None:
        return found[0]
    return f"{name}=" + ("" if value is None else value if value.isdigit() else repr(value))


def _is_whole(value: Any) -> bool:
    try:
        return not _is_bool(value) and operator.index(value) is not None
    except TypeError:
        return False


def _is_bool(value: Any) -> bool:
    return type(value).__name__ in ("bool", "bool_")  # Python's or NumPy's


CHECKED: dict[str, tuple[str, Callable[[Any], bool]]] = {
    "None": ("None", lambda value: value is None),
    "bool": ("True or False", _is_bool),
    "int": ("a whole number", _is_whole),
    "float": ("a number", lambda value: isinstance(value, Real) and not _is_bool(value)),
    "str": ("a text", lambda value: isinstance(value, str)),
    "os.PathLike[str]": ("a path", lambda value: isinstance(value, os.PathLike)),
    "Mapping[str, Any]": ("a table", lambda value: isinstance(value, Mapping)),
}
"""What a type is called, and what is of it, by how it is written in a signature."""
ALIASES = {
    "FilePath": "str | os.PathLike[str]",
    "Path": "os.PathLike[str]",
    "pathlib.Path": "os.PathLike[str]",
    "ComparedProtocol": "str",
    "TableFormat": "str",
}
CLASSES = ("Progress", "BatchProgress", "Result", "Axes", "TableOptions")
"""Classes that are not imported to look at an argument: they are known by their names."""


def _check(function: Callable[..., Any], args: tuple[Any, ...], keywords: Mapping[str, Any]) -> None:
    """Refuse an argument that is of none of the types in the signature; other types than those above take anything."""
    try:
        given = inspect.signature(function).bind(*args, **keywords)
    except TypeError:
        return  # the function itself says which argument is too much, or missing
    for name, argument in given.arguments.items():
        kinds = _kinds(_written(function.__annotations__.get(name, Any)))
        parameter = given.signature.parameters[name]
        for value in argument if parameter.kind is parameter.VAR_POSITIONAL else (argument,):
            usual = value is parameter.default
            if kinds is not None and not usual and not any(fits(value) for fits in kinds.values()):
                wanted = " or ".join(kind for kind in kinds if kind != "None")
                what = f"{name} = {repr(value)[:80]} is not valid"
                raise CoterieError(f"{what}: should be {wanted}, not {kind_of(value)}")


def _written(annotation: Any) -> str:
    return annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)


@functools.cache
def _kinds(annotation: str) -> dict[str, Callable[[Any], bool]] | None:
    """Return what is of each type of a signature, by what it is called; None if one of them takes anything.

    >>> list(_kinds("FilePath | Sequence[str]"))
    ['a text', 'a path', 'a list of texts']
    """
    kinds: dict[str, Callable[[Any], bool]] = {}
    for kind in re.split(r"\s*\|\s*(?![^\[]*\])", annotation):
        if kind in ALIASES:
            kinds |= _kinds(ALIASES[kind]) or {}
        elif kind in CHECKED:
            kinds |= [CHECKED[kind]]
        elif kind in CLASSES:
            kinds[f"{'an' if kind == 'Axes' else 'a'} {kind}"] = functools.partial(_is_a, kind)
        elif kind.startswith("Literal["):
            kinds |= [CHECKED["str"]]
        elif (items := re.fullmatch(r"Sequence\[(.*)\]", kind)) and (each := _kinds(items[1])):
            names = " or ".join(f"{name.removeprefix('a ')}s" for name in each)
            kinds[f"a list of {names}"] = functools.partial(_is_list_of, tuple(each.values()))
        else:
            return None
    return kinds


def _is_a(kind: str, value: Any) -> bool:
    return any(base.__name__ == kind for base in type(value).__mro__)


def _is_list_of(fit: tuple[Callable[[Any], bool], ...], value: Any) -> bool:
    if isinstance(value, str | bytes | Mapping) or not isinstance(value, Iterable):
        return False
    return not isinstance(value, list | tuple) or all(any(fits(item) for fits in fit) for item in value)
