"""``coterie rules``: where groups are cut."""

from coterie.cli.listing import show_registry
from coterie.cli.options import Name, Plugins
from coterie.clustering import RULES


def rules(name: Name = None, plugin: Plugins = None) -> None:
    """List the rules by which groups are formed, or the options of one."""
    show_registry("rules", RULES, name, plugin)
