"""``coterie algorithms``: the methods."""

from coterie.algorithms import ALGORITHMS
from coterie.cli.listing import show_registry
from coterie.cli.options import Name, Plugins


def algorithms(name: Name = None, plugin: Plugins = None) -> None:
    """List the methods, or the options of one."""
    show_registry("algorithms", ALGORITHMS, name, plugin)
