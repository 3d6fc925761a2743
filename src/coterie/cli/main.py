"""``coterie``: the commands, and what happens when something goes wrong.

A command is the module of its name in this package, which holds a function or a Typer of that name too. It is imported
when it is called, so that no command waits for what another needs.
"""

import errno
import io
import re
import sys
from importlib import import_module
from itertools import pairwise
from typing import Annotated, Any, NoReturn

import click
import typer
import typer.core

from coterie.cli.words import flag_for, joined
from coterie.errors import CoterieError, Stopped, one_line
from coterie.registry import Registry
from coterie.run.plugins import blamed_on_plugin, import_plugins

COMMANDS = (
    "demo", "run", "cluster", "compare", "sweep", "resume", "predict", "export", "report", "inspect", "pairs",
    "layers", "reproduce", "coreset", "data", "deploy", "bench", "algorithms", "partitions", "models", "datasets",
    "rules", "measures",
)  # fmt: skip
"""In the order of ``coterie --help``."""
INTERRUPTED = 130
"""The exit code of a program that Ctrl-C ended."""

typer.core.HAS_RICH = False  # no markup here; with it, help shows "\\[default: 2]"


class LazyGroup(typer.core.TyperGroup):
    """Offers the commands by name, and imports one when it is asked for."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.commands = dict.fromkeys(COMMANDS)  # type: ignore[assignment]  # Typer reads the names only

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        """Find the command; where its help is asked for, plugins are imported first, so that it lists their names."""
        if not {"-h", "--help"}.isdisjoint(args):
            words = [part for text in args for part in text.split("=", text.startswith("--plugin="))]
            try:
                import_plugins(value for flag, value in pairwise(words) if flag == "--plugin")
            except CoterieError as error:
                typer.echo(f"coterie: {error}", err=True)
        return super().resolve_command(ctx, joined(args))

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        """Import a command."""
        if name not in COMMANDS:
            return None
        command = getattr(import_module(f"coterie.cli.{name}"), name)
        if not isinstance(command, typer.Typer):
            function, command = command, typer.Typer(add_completion=False, rich_markup_mode=None)
            command.command(name)(function)
        return typer.main.get_command(command)


app = typer.Typer(
    cls=LazyGroup,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
)


@app.callback()
def coterie(
    debug: Annotated[bool, typer.Option("--debug", help="Show a traceback when something goes wrong.")] = False,
) -> None:
    """Clustered federated learning: find which clients belong together, and train a model per group."""


def main() -> None:
    """Run the command line; mistakes that the user can mend end in one line and exit code 2."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal that knows few letters is no reason to fail
    debug = "--debug" in sys.argv
    arguments = [argument for argument in sys.argv[1:] if argument != "--debug"]
    try:
        sys.exit(app(arguments, prog_name="coterie", standalone_mode=False))
    except click.ClickException as error:
        if extra := re.fullmatch(r"Got unexpected extra arguments? \((\S+).*\)", error.message):
            error.message += f": {hint}" if (hint := flag_for(extra[1], _methods_flag(arguments))) else ""
        error.show()
        sys.exit(error.exit_code)
    except (KeyboardInterrupt, click.exceptions.Abort):
        _fail("interrupted", INTERRUPTED)
    except Stopped as stop:
        _fail(str(stop), INTERRUPTED)
    except BrokenPipeError:
        sys.stderr.close()
        sys.exit(0)
    except Exception as error:
        if debug:
            raise
        _fail(*_explained(error))


def _methods_flag(arguments: list[str]) -> str:
    """Return by which flag a command takes methods."""
    return "--algorithms" if arguments[:1] in (["compare"], ["reproduce"]) else "--algorithm"


def _explained(error: Exception) -> tuple[str, int]:
    """Return what to say about an error, and the exit code: 2 where the user can mend it, 1 for a bug."""
    if isinstance(error, CoterieError):
        return str(error), 2
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        detail = f": '{error.filename}' can't be written" if error.filename else ""
        return f"the disk is full{detail}: free some space, then 'coterie resume'", 2
    if blame := blamed_on_plugin(error):
        return f"{blame} (--debug shows the traceback)", 2
    if isinstance(error, OSError) and error.filename:
        return f"'{error.filename}': {error.strerror}", 2
    suspects = ", in Coterie or in a plugin" if Registry.outsiders() else ""
    return f"{type(error).__name__}: {error} (this is a bug{suspects}; --debug shows where)", 1


def _fail(message: str, code: int) -> NoReturn:
    sys.stdout.flush()
    print(f"coterie: {one_line(message)}", file=sys.stderr)
    sys.exit(code)
