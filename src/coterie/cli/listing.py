"""Lists of what is registered under names."""

import inspect
from collections.abc import Callable
from typing import Any

import typer

from coterie.registry import Registry
from coterie.report.text_table import columns
from coterie.run.plugins import import_plugins


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
    typer.echo(f"{name}: {registry.summary(name)}")
    options = registry.options(name)
    if not options:
        typer.echo("  no options")
    for option in options.values():
        help = f"  {option.help}" if option.help else ""
        default = "(required)" if option.default is inspect.Parameter.empty else f"= {option.default!r}"
        typer.echo(f"  {option.name} {default}{help}")
