"""Lists of what is registered under names."""

import inspect
import textwrap
import types
from collections.abc import Callable, Iterable
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import typer
from annotated_types import Ge, Gt, Le, Lt

from coterie.registry import Registry, listed_choices
from coterie.report.text_table import columns
from coterie.run.plugins import import_plugins

WIDTH = 110
KINDS = {int: "whole number", float: "number", str: "text", bool: "true or false"}


def show_registry(
    command: str,
    registry: Registry[Any],
    name: str | None,
    plugins: list[str] | None,
    line: Callable[[str], str] | None = None,
    more: str = ".",
) -> None:
    """Print a line per entry, by default its summary, or one entry with its options."""
    import_plugins(plugins or ())
    if name is not None:
        show_entry(registry, name)
        return
    typer.echo("\n".join(columns([(entry, (line or registry.summary)(entry)) for entry in registry])))
    typer.echo(f"\n'coterie {command} NAME' shows the options of one{more}")


def show_entry(registry: Registry[Any], name: str) -> None:
    """Print one entry with its options."""
    name = registry.canonical(name)
    typer.echo(f"{name}: {registry.summary(name)}")
    options = registry.options(name)
    if not options:
        typer.echo("  no options")
    for option in options.values():
        default = " (required)" if option.default is inspect.Parameter.empty else f" = {option.default!r}"
        show_option(f"{option.name}{default}", kind_of_value(option.annotation), option.help)


def show_option(head: str, kind: str, meaning: str) -> None:
    """Print an option: its name and default, what values it takes, and below what it means."""
    typer.echo(f"  {head}" + (f"  [{kind}]" if kind else ""))
    for line in textwrap.wrap(meaning, WIDTH - 6):
        typer.echo(f"      {line}")


def kind_of_value(annotation: Any, limits: Iterable[Any] = ()) -> str:
    """Say what values a type takes: its choices, or a kind of value and between which limits.

    >>> from annotated_types import Ge, Le
    >>> kind_of_value(Annotated[int, Ge(0), Le(9), "help"]), kind_of_value(Literal["a", "b"] | None)
    ('whole number, at least 0, at most 9', 'a | b')
    """
    if get_origin(annotation) is Annotated:
        inner, *more = get_args(annotation)
        return " | ".join(listed_choices(more)) or kind_of_value(inner, [*limits, *more])
    parts = get_args(annotation)
    if get_origin(annotation) is Literal:
        return " | ".join(str(part) for part in parts)
    if get_origin(annotation) in (Union, types.UnionType):
        return " | ".join(kind_of_value(part) for part in parts if part is not type(None)) + _limits(limits)
    if get_origin(annotation) in (list, tuple):
        inside = [part for part in parts if part is not Ellipsis]
        return f"list of: {kind_of_value(inside[0])}" if inside else "list"
    return KINDS.get(annotation, "") + _limits(limits)


def _limits(limits: Iterable[Any]) -> str:
    """Say between which limits a number lies."""
    said = []
    for limit in limits:
        match limit:
            case Ge(bound):
                said.append(f"at least {bound:,}")
            case Gt(bound):
                said.append(f"more than {bound:,}")
            case Le(bound):
                said.append(f"at most {bound:,}")
            case Lt(bound):
                said.append(f"less than {bound:,}")
    return "".join(f", {text}" for text in said)
