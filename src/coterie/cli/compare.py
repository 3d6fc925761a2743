"""``coterie compare``: several methods over seeds."""

from typing import Annotated, Any

import typer

from coterie.cli import designs
from coterie.cli.completion import Names, names_of
from coterie.cli.config_flags import config_tables, lay_over, with_config_flags
from coterie.cli.options import ConfigFile, Jobs, Plot, Quiet, Set, picture_file
from coterie.compare.make_design import comparison_design
from coterie.errors import CoterieError
from coterie.run.overlay import take_settings_of_method
from coterie.run.values import parse_seeds

Methods = Annotated[
    str | None,
    typer.Option(
        "--algorithms",
        help="Methods, each with its own options and settings: fedavg,ifca:groups=4,lr=0.05,pacfl.",
        metavar="NAME,NAME",
        click_type=Names(lambda _: names_of("algorithms"), several=True),
    ),
]
Tune = Annotated[
    list[str] | None,
    typer.Option(
        "--tune",
        help="Choose a setting for each method, on part of the clients' training samples. May be repeated.",
        metavar="lr=0.1,0.01",
    ),
]
TuneSeeds = Annotated[
    str | None, typer.Option("--tune-seeds", help="Seeds to choose on; by default the first.", metavar="0")
]
TuneShare = Annotated[
    float | None, typer.Option("--tune-share", help="Share of the training samples to choose on [0.2].", metavar="X")
]


@with_config_flags(without=("algorithm.name", "run.seed"))
def compare(
    config: ConfigFile = None,
    algorithms: Methods = None,
    seeds: designs.Seeds = None,
    baseline: designs.Baseline = None,
    protocol: designs.By = None,
    tune: Tune = None,
    tune_seeds: TuneSeeds = None,
    tune_share: TuneShare = None,
    jobs: Jobs = None,
    format: designs.As = "text",
    plot: Plot = None,
    columns: designs.Columns = None,
    caption: designs.Caption = None,
    label: designs.Label = None,
    p_values: designs.PValues = False,
    set: Set = None,
    print_config: designs.PrintConfig = False,
    dry_run: designs.DryRun = False,
    quiet: Quiet = False,
    **flags: Any,
) -> None:
    """Compare methods over seeds: same data, same initial models, same cohorts.

    Try:  coterie compare --algorithms fedavg,pacfl --dataset digits-rotated

    CONFIG: A TOML file as for 'coterie run', with [methods.NAME] for settings of one method; or a comparison.toml.

    The same command, or 'coterie resume FOLDER', continues after any interruption; finished runs are not run again.
    """
    drawn = picture_file(plot)
    options = designs.table_options(format, columns, caption, label, p_values)
    tables = config_tables(config, "--algorithms")
    if config is not None and "comparison" in tables:
        settled = {"algorithms": algorithms, "tune": tune, "tune_seeds": tune_seeds, "tune_share": tune_share}
        design = designs.stored_design(config, seeds, baseline, protocol, set, flags, **settled)
    else:
        methods = tables.pop("methods", {})
        if not isinstance(methods, dict) or not all(isinstance(table, dict) for table in methods.values()):
            raise CoterieError(f"[methods] of {config} should hold a table for each method, like [methods.pacfl]")
        of_method = take_settings_of_method(tables)
        lay_over(tables, set, flags)
        if algorithms is None:
            raise CoterieError("name the methods to compare, for instance --algorithms fedavg,pacfl")
        design = comparison_design(
            tables,
            algorithms,
            parse_seeds("0,1,2" if seeds is None else seeds),
            methods=methods,
            of_method=of_method,
            baseline=baseline,
            protocol=protocol or "L",
            tune=designs.read_variations(tune, "--tune"),
            tune_seeds=parse_seeds(tune_seeds) if tune_seeds else (),
            tune_share=0.2 if tune_share is None else tune_share,
        )
    designs.execute(
        design, flags.get("out"), jobs, format, print_config, dry_run, quiet, flags["trust"], options, drawn
    )
