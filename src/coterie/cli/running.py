"""``coterie run`` and ``coterie cluster``: every key of the configuration is a flag."""

from __future__ import annotations

import inspect
import json
import signal
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from coterie.cli.progress import INTERRUPTION
from coterie.errors import CoterieError, Stopped
from coterie.run.config import Config, Key, keys
from coterie.run.toml import read_toml, to_toml
from coterie.run.validation import Origins, make_config, merge
from coterie.run.values import parse_value

if TYPE_CHECKING:
    from coterie.run.result import Result


def run(
    config: Annotated[Path | None, typer.Argument(hidden=True)] = None,
    set: Annotated[
        list[str] | None,
        typer.Option("--set", help="Any key, for instance algorithm.p=5.", metavar="SECTION.KEY=VALUE"),
    ] = None,
    print_config: Annotated[
        bool, typer.Option("--print-config", help="Write the full configuration; run nothing.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what would run, with an estimate of time, memory and megabytes.")
    ] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the run that --out holds.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but errors.")] = False,
    **flags: Any,
) -> None:
    """Run a federation: one method on one data set.

    CONFIG: A TOML file, as --print-config writes it; flags override it.
    """
    checked = configuration(config, set or [], flags)
    if print_config:
        typer.echo(to_toml(checked))
        return
    if dry_run:
        from coterie.run.dry_run import estimate

        typer.echo(estimate(checked).text())
        return
    from coterie.cli.progress import make_progress
    from coterie.run.runner import start

    with going_on():
        result = start(checked, overwrite=overwrite, progress=make_progress(quiet))
    if not quiet:
        show(result)


def cluster(
    config: Annotated[Path | None, typer.Argument(hidden=True)] = None,
    set: Annotated[
        list[str] | None,
        typer.Option("--set", help="Any key, for instance algorithm.p=5.", metavar="SECTION.KEY=VALUE"),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the groups as JSON.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but errors.")] = False,
    **flags: Any,
) -> None:
    """Form the groups of a method without training, and show them; the flags are those of 'coterie run'.

    CONFIG: A TOML file, as 'coterie run --print-config' writes it; flags override it.

    With --out, pictures are written into that folder: the proximities, the tree with the cut, and the number of
    groups against the threshold, as PNG and SVG.
    """
    from coterie.cli.progress import make_progress
    from coterie.run.cluster import DEFAULT, form_groups

    checked = configuration(config, set or [], flags, {"algorithm": {"name": DEFAULT}})
    with going_on():
        found = form_groups(checked, make_progress(quiet))
    if as_json:
        typer.echo(json.dumps(found.to_json()))
    elif not quiet:
        typer.echo(found.report())
        if found.ari is not None:
            typer.echo(f"Agreement with the true groups (ARI): {found.ari:.3f}")
        typer.echo(f"Sent by clients: {found.up_bytes / 1e6:.2f} MB")
    for client, why in found.missing.items():
        typer.echo(f"coterie: client {client} {why}: it is in no group", err=True)
    if checked.run.out is not None:
        pictures = found.save(Path(checked.run.out))
        if not quiet and not as_json:
            drawn = ", ".join(str(path) for path in pictures if path.suffix == ".png")
            typer.echo(f"Pictures: {drawn or 'none, since no tree of merges led to these groups'}")


@contextmanager
def going_on() -> Iterator[None]:
    """Turn Ctrl-C into a message that says how to go on."""
    usual = signal.getsignal(signal.SIGINT) is signal.default_int_handler  # a shell may have had it ignored
    if usual:
        signal.signal(signal.SIGINT, INTERRUPTION.note)
    try:
        yield
    except KeyboardInterrupt as stop:
        raise Stopped(f"interrupted{f'; {stop}' if stop.args else ''}") from None
    finally:
        INTERRUPTION.came = False
        if usual:
            signal.signal(signal.SIGINT, signal.default_int_handler)


def show(result: Result) -> None:
    """Print the table of a result, and where its files are."""
    from coterie.report import result_table

    try:
        typer.echo(result.report())
    except OSError as error:  # the run is done: a picture that can't be drawn takes nothing from it
        typer.echo(result_table([result.to_json()]))
        typer.echo(f"coterie: the picture '{error.filename}' can't be written: {error.strerror}", err=True)
    typer.echo(f"Run folder: {result.folder}")


def configuration(
    file: Path | None,
    settings: list[str],
    flags: dict[str, Any],
    defaults: Mapping[str, Mapping[str, Any]] | None = None,
) -> Config:
    """Lay flags over a file; `defaults`, tables of the command's own, are for what these leave out."""
    tables = {} if file is None else read_toml(file)
    given = lay_over(tables, settings, flags)
    for section, values in (defaults or {}).items():
        if isinstance(tables.setdefault(section, {}), dict):
            tables[section] = {**values, **tables[section]}
    return make_config(tables, Origins("" if file is None else str(file), given))


def lay_over(tables: dict[str, Any], settings: list[str], flags: dict[str, Any]) -> dict[str, str]:
    """Lay flags and --set over tables, and return how each key was given."""
    given: dict[str, str] = {}
    for key in keys():
        value = flags.get(key.keyword)
        if value is not None and value != []:
            merge(tables, key.path, list(value) if key.is_list else value)
            given[key.path] = key.flag
    for text in settings:
        path, equals, value = text.partition("=")
        if not equals:
            raise CoterieError(f"--set {text} should read --set section.key=value, for instance --set training.lr=0.1")
        merge(tables, path.strip(), parse_value(value.strip()))
        given[path.strip()] = f"--set {text}"
    return given


def add_run_commands(app: typer.Typer) -> None:
    """Enter `run` and `cluster` with a flag for every key of the configuration."""
    for function in (run, cluster):
        add_command(app, function)


def add_command(app: typer.Typer, function: Callable[..., None], without: tuple[str, ...] = ()) -> None:
    """Enter a command with a flag for every key of the configuration, but for some paths."""
    own = list(inspect.signature(function).parameters.values())[:-1]
    hints = inspect.get_annotations(function, eval_str=True)
    parameters = [p.replace(annotation=hints[p.name], kind=inspect.Parameter.KEYWORD_ONLY) for p in own]
    parameters += [_flag(key) for key in keys() if key.path not in without]

    def command(**given: Any) -> None:
        function(**given)

    command.__doc__ = function.__doc__
    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    command.__annotations__ = {p.name: p.annotation for p in parameters}
    app.command(function.__name__)(command)


def _flag(key: Key) -> inspect.Parameter:
    kinds: dict[Any, Any] = {int: int, int | None: int, float: float, float | None: float, list[str]: list[str]}
    kind = kinds.get(key.info.annotation, str)
    default = key.info.default
    shown = f"{key.help} [{default}]" if default not in (None, []) else key.help
    option = typer.Option(key.flag, help=shown, metavar=_metavar(key), show_default=False)
    return inspect.Parameter(
        key.keyword, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=Annotated[kind | None, option]
    )


def _metavar(key: Key) -> str:
    return {"name": "NAME", "targets": "L=0.8", "plugins": "FILE", "out": "FOLDER"}.get(key.name, "X")
