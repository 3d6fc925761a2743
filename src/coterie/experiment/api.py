"""The Python face of a run."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from coterie.errors import CoterieError, suggestion
from coterie.experiment.config import CHOICES, Config, keys, make_config, merge, read_toml
from coterie.experiment.progress import Progress
from coterie.experiment.result import Result

if TYPE_CHECKING:
    from coterie.experiment.groups import Groups
    from coterie.experiment.inspection import Inspection


def run(
    config: str | Path | Mapping[str, Any] | None = None,
    *,
    overwrite: bool = False,
    progress: Progress | None = None,
    **settings: Any,
) -> Result:
    """Run an experiment and return its result.

    `config` is a TOML file or nested tables. The keywords are the flags of ``coterie run`` with underscores
    (``algorithm``, ``dataset``, ``partition``, ``rounds``, ``batch_size``, ...), and ``algorithm_options``,
    ``dataset_options``, ``partition_options``, ``model_options`` for what these choices offer. A run folder is
    written if ``out`` names one.

    >>> result = run(algorithm="solo", dataset="digits", clients=5, rounds=2, epochs=1)
    >>> result.accuracy["C"] is None
    True
    """
    from coterie.experiment.runner import start

    checked = settings_to_config(config, settings)
    return start(checked, write=checked.run.out is not None, overwrite=overwrite, progress=progress)


def cluster(
    config: str | Path | Mapping[str, Any] | None = None, *, progress: Progress | None = None, **settings: Any
) -> Groups:
    """Form groups of clients without training; settings as for `run`, the method `pacfl` if none is named.

    >>> found = cluster(dataset="digits-rotated", clients=8)
    >>> found.grouping.labels
    array([0, 1, 2, 3, 0, 1, 2, 3])
    """
    from coterie.experiment.groups import DEFAULT, form_groups

    return form_groups(settings_to_config(config, settings, method=DEFAULT), progress)


def inspect(
    config: str | Path | Mapping[str, Any] | None = None,
    *,
    measures: str | None = None,
    against: str | None = None,
    per_class: bool = False,
    super_clusters: int | None = None,
    progress: Progress | None = None,
    **settings: Any,
) -> Inspection:
    """Say how heterogeneous a federation is, and what to do about it; settings as for `cluster`.

    `measures` and `against` are names with commas between them, as for ``coterie inspect``.

    >>> inspect(dataset="digits-rotated", clients=8, measures="labels").advice.choice
    'cluster'
    """
    from coterie.experiment.groups import DEFAULT
    from coterie.experiment.inspection import inspect as look

    return look(
        settings_to_config(config, settings, method=DEFAULT),
        measures=measures,
        against=against,
        per_class=per_class,
        super_clusters=super_clusters,
        progress=progress,
    )


def resume(folder: str | Path, progress: Progress | None = None) -> Result:
    """Go on with a run that was interrupted; of a finished one, return the result."""
    from coterie.experiment.runner import resume as go_on

    return go_on(Path(folder), progress)


def settings_to_config(
    config: str | Path | Mapping[str, Any] | None, settings: Mapping[str, Any], method: str | None = None
) -> Config:
    """Lay settings given by keyword over a configuration file or tables; `method` is used if these name none."""
    tables, source = settings_to_tables(config, settings)
    if method is not None:
        tables.setdefault("algorithm", {}).setdefault("name", method)
    return make_config(tables, source)


def settings_to_tables(
    config: str | Path | Mapping[str, Any] | None, settings: Mapping[str, Any]
) -> tuple[dict[str, Any], str]:
    """Lay settings given by keyword over a configuration file or tables; return the tables, and the file's name."""
    if isinstance(config, Mapping):
        tables, source = {section: dict(table) for section, table in config.items()}, ""
    else:
        tables, source = ({} if config is None else read_toml(Path(config))), str(config or "")
    known = {key.keyword: key for key in keys()}
    option_tables = {f"{known_name(section)}_options": section for section in CHOICES}
    for name, value in settings.items():
        if name in known:
            merge(tables, known[name].path, [value] if known[name].is_list and isinstance(value, str) else value)
        elif name not in option_tables:
            raise CoterieError(f"unknown setting '{name}': {suggestion(name, [*known, *option_tables])}")
    for name, section in option_tables.items():
        tables.setdefault(section, {}).update(settings.get(name, {}))
    return tables, source


def known_name(section: str) -> str:
    """Return the keyword that names a section's choice: ``data`` is chosen by ``dataset``."""
    return next(key.keyword for key in keys() if key.section == section and key.name == "name")
