"""``coterie partitions``: the ways to divide data."""

from coterie.cli.listing import show_registry
from coterie.cli.options import Name, Plugins
from coterie.data import PARTITIONS


def partitions(name: Name = None, plugin: Plugins = None) -> None:
    """List the ways to divide data among clients, or the options of one."""
    show_registry("partitions", PARTITIONS, name, plugin)
