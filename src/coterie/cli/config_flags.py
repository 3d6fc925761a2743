"""Commands that take a configuration: every key of it is a flag, laid over a TOML file."""

import inspect
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from coterie.cli.completion import Names, names_of
from coterie.cli.words import flag_for
from coterie.errors import CoterieError
from coterie.results.formats import read_toml
from coterie.run import overlay
from coterie.run.config import SECTIONS, Config, Key, keys
from coterie.run.validation import Origins, make_config
from coterie.run.values import parse_value


def with_config_flags(*, without: tuple[str, ...] = ()) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command, in place of its ``**flags``, a flag for every key of the configuration but those at `without`."""

    def extend(function: Callable[..., None]) -> Callable[..., None]:
        declared = list(inspect.signature(function).parameters.values())[:-1]
        hints = inspect.get_annotations(function, eval_str=True)
        parameters = [p.replace(annotation=hints[p.name], kind=inspect.Parameter.KEYWORD_ONLY) for p in declared]
        parameters += [*(_flag(key) for key in keys() if key.path not in without), _TRUST]

        def command(**values: Any) -> None:
            function(**values)

        command.__doc__ = function.__doc__
        command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        command.__annotations__ = {p.name: p.annotation for p in parameters}
        return command

    return extend


def configuration(
    file: Path | None,
    settings: list[str] | None,
    flags: dict[str, Any],
    defaults: Mapping[str, Mapping[str, Any]] | None = None,
) -> Config:
    """Lay flags over a file; `defaults`, tables of the command's own, are for what these leave out."""
    tables = config_tables(file)
    origins = lay_over(tables, settings, flags)
    for section, values in (defaults or {}).items():
        if isinstance(tables.setdefault(section, {}), dict):
            tables[section] = {**values, **tables[section]}
    return make_config(tables, Origins("" if file is None else str(file), origins))


def config_tables(file: Path | None, methods_flag: str = "--algorithm") -> dict[str, Any]:
    """Read the configuration file that a command is given, if it is; of a word that lacks its flag, say which."""
    if file is None:
        return {}
    if hint := flag_for(str(file), methods_flag):
        raise CoterieError(hint)
    return read_toml(file)


def lay_over(tables: dict[str, Any], settings: list[str] | None, flags: dict[str, Any]) -> dict[str, str]:
    """Lay flags and --set over tables, and return how each key was given."""
    given = [(key, value) for key in keys() if (value := flags.get(key.keyword)) is not None and value != []]
    values = {key.path: list(value) if key.is_list else value for key, value in given}
    origins = overlay.lay_over(tables, values, {key.path: key.flag for key, _ in given})
    for text in settings or []:
        path, equals, value = text.partition("=")
        if not equals:
            raise CoterieError(f"--set {text} should read --set section.key=value, for instance --set training.lr=0.1")
        overlay.merge(tables, path.strip(), parse_value(value.strip()))
        origins[path.strip()] = f"--set {text}"
    if flags.get("trust"):
        from coterie.run.expert import trust_expert

        trust_expert(tables)
    return origins


_TRUST = inspect.Parameter(
    "trust",
    inspect.Parameter.KEYWORD_ONLY,
    default=False,
    annotation=Annotated[
        bool, typer.Option("--trust", help="Import the plugins named by --expert or by the folder to resume.")
    ],
)

_KINDS = {"data.name": "datasets", "partition.name": "partitions", "model.name": "models"}
"""Whose names shells offer, where they are too many, or too open, for the help."""


def _flag(key: Key) -> inspect.Parameter:
    kinds: dict[Any, Any] = {int: int, int | None: int, float: float, float | None: float, list[str]: list[str]}
    kinds[bool] = bool
    kind = kinds.get(key.info.annotation, str)
    default = key.info.default
    help = f"{key.help} [{default}]" if default not in (None, []) and kind is not bool else key.help
    metavar = (
        None
        if kind is bool
        else {"name": "NAME", "targets": "L=0.8", "plugins": "FILE", "out": "FOLDER"}.get(key.name, "X")
    )
    option = typer.Option(
        key.flag,
        help=help,
        metavar=metavar,
        show_default=False,
        click_type=Names(lambda _: names_of(_KINDS[key.path]) if key.path in _KINDS else key.choices)
        if kind is str
        else None,
        rich_help_panel=f"[{key.section}]  {SECTIONS[key.section].__doc__}".rstrip("."),
    )
    return inspect.Parameter(
        key.keyword, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=Annotated[kind | None, option]
    )
