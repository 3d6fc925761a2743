"""``coterie pairs``: what client 1 gains from a federation with client 2, by the labels that client 2 holds."""

from typing import Annotated, Any

import typer

from coterie.cli.config_flags import configuration, with_config_flags
from coterie.cli.interrupts import explain_interrupt
from coterie.cli.options import ConfigFile, Overwrite, Quiet, Set
from coterie.cli.progress import ConsoleProgress
from coterie.cli.studies import AsJson, check_out, show
from coterie.run.config import keys

SET_BY_STUDY = ("data.clients", *(key.path for key in keys() if key.section in ("partition", "newcomers")))
"""Keys that the pair study sets itself."""


@with_config_flags(without=SET_BY_STUDY)
def pairs(
    config: ConfigFile = None,
    c1: Annotated[str, typer.Option(help="Labels of client 1, for instance 8,9.", metavar="LABELS")] = "",
    c2: Annotated[str, typer.Option(help='What client 2 may hold, for instance "8,9;9,0;3,5".', metavar="SETS")] = "",
    samples: Annotated[
        int | None, typer.Option(help="Samples per client; by default 500, or what the data set has.", min=1)
    ] = None,
    seeds: Annotated[int, typer.Option(help="How many seeds, from --seed on.", min=1)] = 3,
    set: Set = None,
    overwrite: Overwrite = False,
    as_json: AsJson = False,
    quiet: Quiet = False,
    **flags: Any,
) -> None:
    """Show whether federation helps client 1 when client 2 holds these labels.

    CONFIG: A TOML file, as 'coterie run --print-config' writes it; flags override it.

    Client 1 trains with each of the clients 2 by --algorithm (fedavg), and alone for as long. By default 20 rounds of
    10 epochs. With --out, the table (pairs.csv, pairs.json) and a picture are written into that folder.
    """
    from coterie.studies.pairs import DEFAULTS, NUMBERS, study

    checked = configuration(config, set, flags, DEFAULTS)
    check_out(checked.run.out, NUMBERS, overwrite)
    with explain_interrupt():
        comparison = study(checked, c1, c2, samples=samples, seeds=seeds, progress=ConsoleProgress(quiet))
    show(comparison, checked.run.out, as_json, quiet, overwrite)
