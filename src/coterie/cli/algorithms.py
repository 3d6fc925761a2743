"""``coterie algorithms``: the methods."""

import typer

from coterie.algorithms import ALGORITHMS
from coterie.cli.listing import kind_of_value, show_option, show_registry
from coterie.cli.options import Name, Plugins
from coterie.clustering import RULES, RuleSupport
from coterie.run.config import keys


def algorithms(name: Name = None, plugin: Plugins = None) -> None:
    """List the methods, or the options of one."""
    show_registry("algorithms", ALGORITHMS, name, plugin)
    if name is None:
        return
    name = ALGORITHMS.canonical(name)
    if (rules := ALGORITHMS[name].traits.rules) is not None:
        typer.echo("How it forms groups; by default its own way:")
        _show_grouping(rules)
    typer.echo(f"Write --algorithm {name}:option=value,option=value; any flag of 'coterie run' can stand there too:")
    typer.echo(f"{name}:lr=0.05 is --algorithm {name} --lr 0.05.")


def _show_grouping(rules: RuleSupport) -> None:
    """Print the keys of [grouping] that a method takes, with the rules that can form its groups."""
    usable = [rule for rule in RULES if rules.accepts(rule)]
    for key in keys():
        if key.section != "grouping" or not rules.takes(key.name):
            continue
        if key.name == "rule":
            show_option("rule = None", " | ".join(usable), f"{key.info.description}")
        else:
            kind = kind_of_value(key.info.annotation, key.info.metadata)
            show_option(f"{key.name} = None", kind, f"{key.info.description}")
