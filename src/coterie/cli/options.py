"""Options that several commands have, and commands that have commands of their own."""

from pathlib import Path
from typing import Annotated

import typer

from coterie.cli.completion import Names, names_of

ConfigFile = Annotated[Path | None, typer.Argument(hidden=True)]
RunArgument = Annotated[Path, typer.Argument(metavar="RUN", hidden=True)]
Set = Annotated[
    list[str] | None, typer.Option("--set", help="Any key, for instance algorithm.p=5.", metavar="SECTION.KEY=VALUE")
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but errors.")]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace what is there.")]
Plot = Annotated[
    Path | None, typer.Option("--plot", help="Also draw accuracy into this file: .pdf, .svg or .png.", metavar="FILE")
]
Jobs = Annotated[int | None, typer.Option("--jobs", help="Runs at a time; by default one per core.", min=1)]
WhoseModel = Annotated[
    str | None,
    typer.Option(
        help="Take the model of this client, a name or number: its own if it has trained, else what it would receive.",
        metavar="CLIENT",
    ),
]
Group = Annotated[int | None, typer.Option("--group", "--cluster", help="Take the model of this group.", metavar="N")]
Name = Annotated[
    str | None,
    typer.Argument(help="Show the options of this one.", click_type=Names(lambda ctx: names_of(ctx.info_name or ""))),
]
Trust = Annotated[
    bool, typer.Option("--trust", help="Import the plugins that the folder names; their code runs with your rights.")
]
Plugins = Annotated[
    list[str] | None, typer.Option("--plugin", help="Python file or module to import first.", metavar="FILE")
]


def picture_file(plot: Path | None, overwrite: bool = False) -> Path | None:
    """Return where --plot draws; refuse a name that does not say how, or that is taken, before anything is run."""
    if plot is None:
        return None
    from coterie.report.picture_files import check_picture

    return check_picture(plot, overwrite)


def command_group(help: str) -> typer.Typer:
    """Return a command that has commands of its own."""
    return typer.Typer(no_args_is_help=True, add_completion=False, rich_markup_mode=None, help=help)
