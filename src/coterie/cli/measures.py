"""``coterie measures``: how far apart clients are."""

import typer

from coterie.cli.listing import load_plugins, show_entry
from coterie.cli.options import Name, Plugins


def measures(name: Name = None, plugin: Plugins = None) -> None:
    """List the measures between clients, or the options of one."""
    from coterie.similarity import MEASURES

    load_plugins(plugin)
    if name is not None:
        show_entry(MEASURES, name)
        unit = f", in {MEASURES[name].unit}" if MEASURES[name].unit else ""
        typer.echo(f"  {MEASURES[name].title}{unit}, from {MEASURES[name].needs}")
        return
    width = max(len(entry) for entry in MEASURES)
    for entry in MEASURES:
        measure = MEASURES[entry]
        typer.echo(f"{entry:<{width}}  {measure.title} [from {measure.needs}]: {measure.says}")
    typer.echo(
        "\n'coterie measures NAME' shows the options of one; pacfl:measure=NAME takes those from vectors, 'coterie "
        "inspect --measures NAMES' all."
    )
