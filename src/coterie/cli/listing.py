"""Lists of what is registered under names."""

import inspect
from collections.abc import Mapping
from typing import Any

import typer

from coterie.registry import Registry


def load_plugins(plugins: list[str] | None) -> None:
    """Import the user's own modules, which register more names."""
    if plugins:
        from coterie.run.plugins import import_plugins

        import_plugins(plugins)


def list_registry(command: str, registry: Registry[Any], marks: Mapping[str, str] = {}) -> None:
    """Print a line per entry, perhaps with a mark behind it."""
    width = max(len(name) for name in registry)
    for name in registry:
        typer.echo(f"{name:<{width}}  {registry.summary(name)}{marks.get(name, '')}")
    typer.echo(f"\n'coterie {command} NAME' shows the options of one.")


def show_entry(registry: Registry[Any], name: str) -> None:
    """Print one entry with its options."""
    typer.echo(f"{name}: {registry.summary(name)}")
    options = registry.options(name)
    if not options:
        typer.echo("  no options")
    for option in options.values():
        help = f"  {option.help}" if option.help else ""
        default = "(required)" if option.default is inspect.Parameter.empty else f"= {option.default!r}"
        typer.echo(f"  {option.name} {default}{help}")


def show_registry(command: str, registry: Registry[Any], name: str | None, plugins: list[str] | None) -> None:
    """Print the list, or one entry of it."""
    load_plugins(plugins)
    if name is None:
        list_registry(command, registry)
    else:
        show_entry(registry, name)
