"""``coterie inspect``: how heterogeneous a federation is, and what to do about it."""

from typing import Annotated, Any

import typer

from coterie.cli.completion import Names, names_of
from coterie.cli.config_flags import configuration, with_config_flags
from coterie.cli.interrupts import explain_interrupt
from coterie.cli.options import ConfigFile, Overwrite, Quiet, Set
from coterie.cli.progress import ConsoleProgress
from coterie.cli.studies import AsJson, check_out, show
from coterie.similarity import MEASURES


@with_config_flags()
def inspect(
    config: ConfigFile = None,
    measures: Annotated[
        str | None,
        typer.Option(
            help="Measures, separated by commas; by default angles, sum_angles, labels. 'coterie measures' lists "
            f"them: {', '.join(MEASURES)}.",
            metavar="NAMES",
            click_type=Names(lambda _: names_of("measures"), several=True),
        ),
    ] = None,
    against: Annotated[
        str | None,
        typer.Option(
            help="Partitions of the same data to compare with, for instance iid,c-niid.",
            metavar="NAMES",
            click_type=Names(lambda _: names_of("partitions"), several=True),
        ),
    ] = None,
    per_class: Annotated[
        bool, typer.Option("--per-class", help="Show the angles between classes and their super clusters.")
    ] = False,
    super_clusters: Annotated[
        int | None,
        typer.Option(help="Number of super clusters; by default classes merge up to 10 degrees. Implies --per-class."),
    ] = None,
    set: Set = None,
    overwrite: Overwrite = False,
    as_json: AsJson = False,
    quiet: Quiet = False,
    **flags: Any,
) -> None:
    """Show how heterogeneous a federation is, without training, and what to do about it.

    CONFIG: A TOML file, as 'coterie run --print-config' writes it; flags override it. The flags are those of 'coterie
    run'.

    With --out, a page (inspection.html), pictures and numbers are written into that folder.
    """
    from coterie.inspect.inspection import NUMBERS
    from coterie.inspect.inspection import inspect as examine
    from coterie.run.cluster import DEFAULT

    checked = configuration(config, set, flags, {"algorithm": {"name": DEFAULT}})
    check_out(checked.run.out, NUMBERS, overwrite)
    with explain_interrupt():
        inspection = examine(
            checked,
            measures=measures,
            against=against,
            per_class=per_class,
            super_clusters=super_clusters,
            progress=ConsoleProgress(quiet),
        )
    for client, why in inspection.view.groups.missing.items():
        typer.echo(f"coterie: client {client} {why}: it is not compared", err=True)
    for client in inspection.view.groups.uncompared:
        typer.echo(f"coterie: client {client} has too few samples of each label: it is not compared", err=True)
    show(inspection, checked.run.out, as_json, quiet, overwrite)
