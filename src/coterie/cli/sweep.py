"""``coterie sweep``: one method with several values of some settings."""

from typing import Annotated, Any

import typer

from coterie.cli.config_flags import lay_over, with_config_flags
from coterie.cli.designs import (
    As,
    Baseline,
    By,
    DryRun,
    PrintConfig,
    Seeds,
    execute,
    holds_design,
    read_seeds,
    read_variations,
    stored_design,
)
from coterie.cli.options import ConfigFile, Jobs, Quiet, Set
from coterie.compare.make_design import sweep_design
from coterie.errors import CoterieError
from coterie.results.toml import read_toml

Vary = Annotated[
    list[str] | None,
    typer.Option("--vary", help="A key and its values; repeated, all combinations are run.", metavar="SECTION.KEY=X,Y"),
]


@with_config_flags(without=("run.seed",))
def sweep(
    config: ConfigFile = None,
    vary: Vary = None,
    seeds: Seeds = None,
    baseline: Baseline = None,
    protocol: By = None,
    jobs: Jobs = None,
    format: As = "text",
    set: Set = None,
    print_config: PrintConfig = False,
    dry_run: DryRun = False,
    quiet: Quiet = False,
    **flags: Any,
) -> None:
    """Run one method with several values of some settings, over seeds.

    CONFIG: A TOML file as for 'coterie run'; or a comparison.toml.

    The same command, or 'coterie resume FOLDER', goes on after any interruption; finished runs are not run again.
    """
    if config is not None and holds_design(config):
        design = stored_design(config, seeds, baseline, protocol, set, flags, vary=vary)
    else:
        tables = {} if config is None else read_toml(config)
        lay_over(tables, set, flags)
        if not vary:
            raise CoterieError("name what to vary, for instance --vary grouping.threshold=2,4,8")
        values = read_variations(vary, "--vary")
        design = sweep_design(tables, values, read_seeds(seeds), baseline=baseline, protocol=protocol or "L")
    execute(design, flags.get("out"), jobs, format, print_config, dry_run, quiet)
