"""``coterie inspect``, ``coterie pairs`` and ``coterie layers``: how heterogeneous a federation is."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

Settings = Annotated[
    list[str] | None,
    typer.Option("--set", help="Any key, for instance algorithm.p=5.", metavar="SECTION.KEY=VALUE"),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print the numbers as JSON.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but errors.")]

MADE_BY_PAIRS = (
    "data.clients",
    "partition.name",
    "partition.f_ord",
    "partition.surplus",
    "newcomers.share",
    "newcomers.draw",
    "newcomers.join_at",
    "newcomers.epochs",
)
"""Keys that the pair study sets itself."""


def inspect(
    config: Annotated[Path | None, typer.Argument(hidden=True)] = None,
    measures: Annotated[
        str | None,
        typer.Option(
            help="Which, with commas between them: angles, sum_angles, labels (these three by default), min_abs, "
            "min_entry, trace; in simulations also emd, emd_pixel, mmd, bhattacharyya, kl, kl_symmetric, cka.",
            metavar="NAMES",
        ),
    ] = None,
    against: Annotated[
        str | None,
        typer.Option(help="Partitions of the same data to compare with, for instance iid,c-niid.", metavar="NAMES"),
    ] = None,
    per_class: Annotated[
        bool, typer.Option("--per-class", help="Show the angles between classes and their super clusters.")
    ] = False,
    super_clusters: Annotated[
        int | None,
        typer.Option(help="So many super clusters; by default classes merge up to 10 degrees. Implies --per-class."),
    ] = None,
    set: Settings = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
    **flags: Any,
) -> None:
    """Say how heterogeneous a federation is, without training, and what to do about it.

    CONFIG: A TOML file, as 'coterie run --print-config' writes it; flags override it. The flags are those of 'coterie
    run'.

    With --out, a page (inspection.html), pictures and numbers are written into that folder.
    """
    from coterie.cli.progress import make_progress
    from coterie.cli.running import configuration, going_on
    from coterie.inspect.inspection import inspect as look
    from coterie.run.cluster import DEFAULT

    checked = configuration(config, set or [], flags, {"algorithm": {"name": DEFAULT}})
    with going_on():
        found = look(
            checked,
            measures=measures,
            against=against,
            per_class=per_class,
            super_clusters=super_clusters,
            progress=make_progress(quiet),
        )
    if as_json:
        typer.echo(json.dumps(found.to_json()))
    elif not quiet:
        typer.echo(found.report(), nl=False)
    for client, why in found.view.groups.missing.items():
        typer.echo(f"coterie: client {client} {why}: it is not compared", err=True)
    _saved(found, checked.run.out, quiet or as_json)


def pairs(
    config: Annotated[Path | None, typer.Argument(hidden=True)] = None,
    c1: Annotated[str, typer.Option(help="Labels of client 1, for instance 8,9.", metavar="LABELS")] = "",
    c2: Annotated[str, typer.Option(help='What client 2 may hold, for instance "8,9;9,0;3,5".', metavar="SETS")] = "",
    samples: Annotated[
        int | None, typer.Option(help="Samples per client; by default 500, or what the data set has.", min=1)
    ] = None,
    seeds: Annotated[int, typer.Option(help="How many seeds, from --seed on.", min=1)] = 3,
    set: Settings = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
    **flags: Any,
) -> None:
    """Say whether federation helps client 1 when client 2 holds these labels.

    CONFIG: A TOML file, as 'coterie run --print-config' writes it; flags override it.

    Client 1 trains with each of the clients 2 by --algorithm (fedavg), and alone for as long. By default 20 rounds of
    10 epochs. With --out, the table (pairs.csv, pairs.json) and a picture are written into that folder.
    """
    from coterie.cli.progress import make_progress
    from coterie.cli.running import configuration, going_on
    from coterie.studies.pairs import DEFAULTS, study

    checked = configuration(config, set or [], flags, DEFAULTS)
    with going_on():
        found = study(checked, c1, c2, samples=samples, seeds=seeds, progress=make_progress(quiet))
    if as_json:
        typer.echo(json.dumps(found.to_json()))
    elif not quiet:
        typer.echo(found.report(), nl=False)
    _saved(found, checked.run.out, quiet or as_json)


def layers(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN...", hidden=True)],
    layers: Annotated[
        str | None, typer.Option(help="Some layers, for instance conv1,fc1; by default all with parameters.")
    ] = None,
    inputs: Annotated[int, typer.Option(help="Test samples that every model is shown.")] = 500,
    out: Annotated[Path | None, typer.Option(help="Write numbers and pictures into this folder.")] = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Say how alike the clients' models of runs are, layer by layer, for the same test samples.

    RUN...: Run folders, for instance of one data set under several partitions.
    """
    from coterie.cli.progress import make_progress
    from coterie.cli.running import going_on
    from coterie.studies.layers import study

    with going_on():
        found = study(runs, layers=layers, inputs=inputs, progress=make_progress(quiet))
    if as_json:
        typer.echo(json.dumps(found.to_json()))
    elif not quiet:
        typer.echo(found.report(), nl=False)
    _saved(found, out, quiet or as_json)


def _saved(found: Any, out: str | Path | None, silent: bool) -> None:
    """Write what was found into a folder, if one was named."""
    if out is None:
        return
    written = found.save(Path(out))
    if not silent:
        typer.echo(f"Written: {', '.join(str(path) for path in written)}")


def add_inspecting_commands(app: typer.Typer) -> None:
    """Enter `inspect` and `pairs` with flags for keys of the configuration."""
    from coterie.cli.running import add_command

    add_command(app, inspect)
    add_command(app, pairs, without=MADE_BY_PAIRS)
