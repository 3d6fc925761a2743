"""``coterie measures``: how far apart clients are."""

import typer

from coterie.cli.listing import show_registry
from coterie.cli.options import Name, Plugins
from coterie.similarity import MEASURES

USES = "; pacfl:measure=NAME takes those from vectors, 'coterie inspect --measures NAMES' all."


def measures(name: Name = None, plugin: Plugins = None) -> None:
    """List the measures between clients, or the options of one."""
    show_registry("measures", MEASURES, name, plugin, _line, USES)
    if name is not None:
        measure = MEASURES[MEASURES.canonical(name)]
        typer.echo(f"  {measure.title}{f', in {measure.unit}' if measure.unit else ''}, from {measure.needs}")


def _line(name: str) -> str:
    return f"{MEASURES[name].title} [from {MEASURES[name].needs}]: {MEASURES[name].says}"
