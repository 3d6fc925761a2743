"""``coterie sweep``: one method with several values of some settings."""

from typing import Annotated, Any

import typer

from coterie.cli import designs
from coterie.cli.config_flags import config_tables, lay_over, with_config_flags
from coterie.cli.options import ConfigFile, Jobs, Plot, Quiet, Set, picture_file
from coterie.compare.make_design import sweep_design
from coterie.errors import CoterieError
from coterie.run.values import parse_seeds

Vary = Annotated[
    list[str] | None,
    typer.Option("--vary", help="A key and its values; repeated, all combinations are run.", metavar="SECTION.KEY=X,Y"),
]


@with_config_flags(without=("run.seed",))
def sweep(
    config: ConfigFile = None,
    vary: Vary = None,
    seeds: designs.Seeds = None,
    baseline: designs.Baseline = None,
    protocol: designs.By = None,
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
    """Run one method with several values of some settings, over seeds.

    CONFIG: A TOML file as for 'coterie run'; or a comparison.toml.

    The same command, or 'coterie resume FOLDER', continues after any interruption; finished runs are not run again.
    """
    drawn = picture_file(plot)
    options = designs.table_options(format, columns, caption, label, p_values)
    tables = config_tables(config)
    if config is not None and "comparison" in tables:
        design = designs.stored_design(config, seeds, baseline, protocol, set, flags, vary=vary)
    else:
        lay_over(tables, set, flags)
        if not vary:
            raise CoterieError("name what to vary, for instance --vary grouping.threshold=2,4,8")
        values = designs.read_variations(vary, "--vary")
        seed_numbers = parse_seeds("0,1,2" if seeds is None else seeds)
        design = sweep_design(tables, values, seed_numbers, baseline=baseline, protocol=protocol or "L")
    designs.execute(
        design, flags.get("out"), jobs, format, print_config, dry_run, quiet, flags["trust"], options, drawn
    )
