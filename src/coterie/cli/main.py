"""``coterie``: the commands, and what happens when something goes wrong.

A command is the module of its name in this package, which holds a function or a Typer of that name too. It is imported
when it is called, so that no command waits for what another needs.
"""

import errno
import io
import os
import re
import sys
from importlib import import_module
from itertools import pairwise
from typing import Annotated, Any, NoReturn

import click
import typer
import typer.core
from click.shell_completion import CompletionItem

from coterie.cli.completion import QUESTION, answer
from coterie.cli.help_sections import SectionedCommand, write_sections
from coterie.cli.words import flag_for, joined
from coterie.errors import CoterieError, Stopped, one_line

PANELS = {
    "First steps": {
        "demo": "See six methods side by side, in seconds.",
        "run": "Run one method on one data set.",
        "compare": "Compare methods over seeds, with tests of significance.",
        "report": "Make a page of runs or of a comparison; it opens offline.",
    },
    "Your own data": {
        "data": "Check files of yours; download public data sets.",
        "inspect": "See how much clients differ, and which method to use.",
        "cluster": "See which clients belong together, without training.",
    },
    "After a run": {
        "resume": "Continue a run or a comparison.",
        "predict": "Label samples with a trained model.",
        "export": "Save a trained model as safetensors or ONNX.",
        "audit": "Attack what clients sent, beside the privacy claimed.",
        "track": "Show finished runs in TensorBoard, MLflow or W&B.",
    },
    "Real sites": {
        "deploy": "Run a federation on real machines, with Flower.",
    },
    "Research": {
        "sweep": "Vary the settings of a method.",
        "reproduce": "Reproduce a table or figure of a paper.",
        "pairs": "See when two clients benefit from each other.",
        "layers": "See how similar clients' models are, layer by layer.",
        "coreset": "Choose a few weighted nodes that represent a graph.",
    },
    "Names to use in flags": {
        "algorithms": "Methods, for --algorithm.",
        "datasets": "Data sets, for --dataset.",
        "partitions": "Ways to divide data among clients, for --partition.",
        "models": "Networks, for --model.",
        "rules": "Rules by which groups are formed, for --rule.",
        "measures": "Distances between clients, for inspect --measures.",
    },
    "This machine": {
        "bench": "Measure how fast local training is.",
        "completion": "Set up completion in bash, zsh or fish.",
    },
}
"""The commands as ``coterie --help`` shows them, in the order of use. They are not imported for it."""
COMMANDS = {name: text for panel in PANELS.values() for name, text in panel.items()}
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
        if "--plugin" in " ".join(args) and not {"-h", "--help"}.isdisjoint(args):
            from coterie.run.plugins import import_plugins

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
            command.command(name, cls=SectionedCommand)(function)
        return typer.main.get_command(command)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the panels, and below them the flags."""
        flags = [record for param in self.get_params(ctx) if (record := param.get_help_record(ctx))]
        panels = {heading: [*panel.items()] for heading, panel in PANELS.items()}
        write_sections(formatter, {**panels, "Options": flags})

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Offer commands, or flags."""
        if incomplete.startswith("-"):
            return super().shell_complete(ctx, incomplete)
        return [CompletionItem(name, help=text) for name, text in COMMANDS.items() if name.startswith(incomplete)]


app = typer.Typer(
    cls=LazyGroup,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
)


def _show_version(asked: bool) -> None:
    if asked:
        from coterie import __version__

        typer.echo(f"coterie {__version__}")
        raise typer.Exit


@app.callback()
def coterie(
    version: Annotated[
        bool, typer.Option("--version", help="Show the version and exit.", callback=_show_version, is_eager=True)
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show a traceback when something goes wrong.")] = False,
) -> None:
    """Clustered federated learning: find which clients belong together, and train a model per group.

    Try:  coterie run --algorithm pacfl --dataset digits-rotated

    'coterie COMMAND -h' explains a command.
    """


def main() -> None:
    """Run the command line; mistakes that the user can mend end in one line and exit code 2."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal that knows few letters is no reason to fail
    if question := os.environ.get(QUESTION):
        sys.exit(answer(typer.main.get_command(app), question))
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
    from coterie.registry import Registry
    from coterie.run.plugins import blamed_on_plugin

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
