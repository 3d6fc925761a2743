"""``coterie``: the commands, and what happens when something goes wrong."""

from __future__ import annotations

import errno
import inspect
import io
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import click
import typer
import typer.core

from coterie.cli.bench import bench_app
from coterie.cli.coreset import coreset
from coterie.cli.data import data_app
from coterie.cli.deploy import deploy_app
from coterie.cli.inspecting import add_inspecting_commands, layers
from coterie.cli.report import report
from coterie.cli.reproducing import reproduce
from coterie.errors import CoterieError, Stopped

if TYPE_CHECKING:
    from coterie.registry import Registry

INTERRUPTED = 130
"""What shells say of a program that Ctrl-C ended."""

typer.core.HAS_RICH = False  # no markup here; with it, help shows "\\[default: 2]"
app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
)


app.add_typer(data_app, name="data")
app.add_typer(bench_app, name="bench")
app.add_typer(deploy_app, name="deploy")


@app.callback()
def coterie(
    debug: Annotated[bool, typer.Option("--debug", help="Show a traceback when something goes wrong.")] = False,
) -> None:
    """Clustered federated learning: find which clients belong together, and train a model per group."""


@app.command()
def resume(
    folder: Annotated[Path, typer.Argument(metavar="RUN", hidden=True)],
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but errors.")] = False,
) -> None:
    """Go on with a run, or a comparison, after any interruption.

    RUN: Run folder, or the folder of a comparison or sweep.
    """
    if (folder / "comparison.toml").is_file():
        from coterie.cli.comparing import go_on as go_on_with_all

        go_on_with_all(folder, quiet)
        return
    from coterie.cli.progress import make_progress
    from coterie.cli.running import going_on, show
    from coterie.results.run_folder import RunFolder
    from coterie.run.runner import resume as go_on

    finished = RunFolder.open(folder).finished
    with going_on():
        result = go_on(folder, make_progress(quiet))
    if quiet:
        return
    if finished:
        typer.echo(f"{folder} is finished; nothing to do.")
    else:
        show(result)


@app.command()
def predict(
    folder: Annotated[Path, typer.Argument(metavar="RUN", hidden=True)],
    images: Annotated[Path, typer.Argument(hidden=True)],
    client: Annotated[
        int | None, typer.Option(help="Whose model: the client's own if it has trained, else what it would receive.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Write the predictions to this .npz file.")] = None,
) -> None:
    """Predict labels with what a run has trained.

    RUN: Run folder.

    IMAGES: A .npz file with the inputs as 'x', and perhaps labels as 'y'.
    """
    from coterie.run.predict import predict as predict_labels

    prediction = predict_labels(folder, images, client, out)
    if out is None:
        typer.echo("\n".join(str(label) for label in prediction.labels))
    typer.echo(prediction.summary, err=True)


@app.command()
def export(
    folder: Annotated[Path, typer.Argument(metavar="RUN", hidden=True)],
    cluster: Annotated[int | None, typer.Option(help="Of which group.")] = None,
    client: Annotated[
        int | None, typer.Option(help="Whose model: the client's own if it has trained, else what it would receive.")
    ] = None,
    format: Annotated[Literal["safetensors", "onnx"], typer.Option(help="Of the file.")] = "safetensors",
    compact: Annotated[
        bool, typer.Option("--compact", help="Take out dead channels and units: a smaller network, the same outputs.")
    ] = False,
    out: Annotated[Path | None, typer.Option(help="The file; by default model.FORMAT in the run folder.")] = None,
) -> None:
    """Take a model out of a run, to be used without Coterie.

    RUN: Run folder.
    """
    from coterie.run.export import export as write

    _, told = write(folder, out, client=client, group=cluster, format=format, smaller=compact)
    typer.echo(told)


def _listing(
    kind: str, registry: Registry[Any], name: str | None, plugins: list[str] | None, marks: Mapping[str, str] = {}
) -> None:
    """Print a line per entry, perhaps with a mark behind it, or one entry with its options."""
    if plugins:
        from coterie.run.plugins import import_plugins

        import_plugins(plugins)
    if name is None:
        width = max(len(entry) for entry in registry)
        for entry in registry:
            typer.echo(f"{entry:<{width}}  {registry.summary(entry)}{marks.get(entry, '')}")
        typer.echo(f"\n'coterie {kind} NAME' shows the options of one.")
        return
    typer.echo(f"{name}: {registry.summary(name)}")
    options = registry.options(name)
    if not options:
        typer.echo("  no options")
    for option in options.values():
        help = f"  {option.help}" if option.help else ""
        default = "(required)" if option.default is inspect.Parameter.empty else f"= {option.default!r}"
        typer.echo(f"  {option.name} {default}{help}")


COMPILED = ("cnn", "lenet5", "mclr", "mlp")
"""The networks of ours that the compiled trainer knows; a list must not wait for PyTorch to find it out."""

Name = Annotated[str | None, typer.Argument(help="Show the options of this one.")]
Plugins = Annotated[list[str] | None, typer.Option("--plugin", help="Import this first.", metavar="FILE")]


@app.command()
def algorithms(name: Name = None, plugin: Plugins = None) -> None:
    """List the methods, or the options of one."""
    from coterie.algorithms import ALGORITHMS

    _listing("algorithms", ALGORITHMS, name, plugin)


@app.command()
def partitions(name: Name = None, plugin: Plugins = None) -> None:
    """List the ways to divide data among clients, or the options of one."""
    from coterie.data import PARTITIONS

    _listing("partitions", PARTITIONS, name, plugin)


@app.command()
def models(name: Name = None, plugin: Plugins = None) -> None:
    """List the networks, or the options of one."""
    from coterie.models import MODELS

    _listing("models", MODELS, name, plugin, dict.fromkeys(COMPILED, " [compiled]"))
    if name is None:
        typer.echo("The compiled trainer runs those marked, PyTorch the others; 'coterie bench train' compares them.")
        return
    typer.echo(f"  {_who_runs(name)}")


def _who_runs(model: str) -> str:
    """Say which trainer takes a network with its default options, by building it."""
    from coterie.messages import ModelSpec
    from coterie.native import available
    from coterie.training.native_trainer import runs_natively

    for shape in ((3, 32, 32), (20, 8), (64,)):
        try:
            compiled = runs_natively(ModelSpec(model, shape, 10))
        except Exception:  # a network for other inputs; a user's own may raise anything
            continue
        if not compiled:
            return "runs on PyTorch"
        return "runs compiled" + ("" if available() else ", but the compiled trainer is not here: on PyTorch")
    return "runs compiled if it is a plain sequence of layers, else on PyTorch"


@app.command()
def datasets(name: Name = None, plugin: Plugins = None) -> None:
    """List the data sets, or the options of one."""
    from coterie.data import DATASETS
    from coterie.data.catalogue import CATALOGUE, facts, listing

    if name is not None:
        _listing("datasets", DATASETS, name, plugin)
        typer.echo("".join(f"  {fact}\n" for fact in facts(name)) if name in CATALOGUE else "", nl=False)
        return
    if plugin:
        from coterie.run.plugins import import_plugins

        import_plugins(plugin)
    typer.echo("\n".join(listing()) + "\n\n'coterie datasets NAME' shows the options of one.")


app.command()(coreset)
app.command()(layers)
app.command()(reproduce)
app.command()(report)


def main() -> None:
    """Run the command line; mistakes that the user can mend end in one line and exit code 2."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal that knows few letters is no reason to fail
    debug = "--debug" in sys.argv
    arguments = [argument for argument in sys.argv[1:] if argument != "--debug"]
    quick = {
        "data",
        "bench",
        "deploy",
        *(command.callback.__name__ for command in app.registered_commands if command.callback),
    }
    if not quick & set(arguments[:1]):
        from coterie.cli.comparing import add_comparing_commands
        from coterie.cli.running import add_run_commands

        add_run_commands(app)  # flags are made from the configuration, which takes a moment to import
        add_comparing_commands(app)
        add_inspecting_commands(app)
    try:
        sys.exit(app(arguments, prog_name="coterie", standalone_mode=False))
    except click.ClickException as error:
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
        if isinstance(error, CoterieError):
            _fail(str(error), 2)
        if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
            what = f": '{error.filename}' can't be written" if error.filename else ""
            _fail(f"the disk is full{what}: free some space, then 'coterie resume'", 2)
        from coterie.registry import Registry
        from coterie.run.plugins import blamed_on_plugin

        if told := blamed_on_plugin(error):
            _fail(f"{told} (--debug shows the traceback)", 2)
        if isinstance(error, OSError) and error.filename:
            _fail(f"'{error.filename}': {error.strerror}", 2)
        whose = ", in Coterie or in a plugin" if Registry.outsiders() else ""
        _fail(f"{type(error).__name__}: {error} (this is a bug{whose}; --debug shows where)", 1)


def _fail(message: str, code: int) -> None:
    sys.stdout.flush()
    print(f"coterie: {message}", file=sys.stderr)
    sys.exit(code)
