"""``coterie datasets``: the data sets."""

import typer

from coterie.cli.listing import show_entry
from coterie.cli.options import Name, Plugins
from coterie.data import DATASETS
from coterie.data.catalogue import CATALOGUE, facts, listing
from coterie.report.text_table import columns
from coterie.run.plugins import import_plugins


def datasets(name: Name = None, plugin: Plugins = None) -> None:
    """List the data sets, or the options of one."""
    import_plugins(plugin or ())
    if name is None:
        typer.echo("\n".join(columns(listing())) + "\n\n'coterie datasets NAME' shows the options of one.")
        return
    name = DATASETS.canonical(name)
    show_entry(DATASETS, name)
    for fact in facts(name) if name in CATALOGUE else ():
        typer.echo(f"  {fact}")
