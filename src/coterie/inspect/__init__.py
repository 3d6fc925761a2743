"""How heterogeneous a federation is, and what to do about it.

This module is light on purpose: `import coterie` reads it, and everything else is imported when first used.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Unpack

from coterie.arguments import in_keywords
from coterie.run.keywords import RunSettings
from coterie.run.signatures import shows

if TYPE_CHECKING:
    import os

    from coterie.inspect.inspection import Inspection
    from coterie.run.progress import Progress

__all__ = ["inspect"]


@in_keywords
@shows(RunSettings)
def inspect(
    config: str | os.PathLike[str] | Mapping[str, Any] | None = None,
    *,
    measures: str | None = None,
    against: str | None = None,
    per_class: bool = False,
    super_clusters: int | None = None,
    progress: Progress | bool | None = None,
    **settings: Unpack[RunSettings],
) -> Inspection:
    """Say how heterogeneous a federation is, and what to do about it.

    Args:
        config: A TOML file or nested dictionaries; keywords override them.
        measures: Names of measures with commas between them, as for ``coterie inspect``.
        against: Measures that the others are compared with.
        per_class: Whether clients are also compared class by class.
        super_clusters: Into how many groups the classes are put.
        progress: As for `run`.
        **settings: As for `run`; the method is `pacfl` if none is named.

    Examples:
        >>> inspect(dataset="digits-rotated", clients=8, measures="labels").advice.choice
        'cluster'
    """
    from coterie.inspect.inspection import inspect as look
    from coterie.run.cluster import DEFAULT
    from coterie.run.given import named
    from coterie.run.live_progress import listener
    from coterie.run.settings import settings_to_config

    with named(settings) as given:
        return look(
            settings_to_config(config, given, method=DEFAULT),
            measures=measures,
            against=against,
            per_class=per_class,
            super_clusters=super_clusters,
            progress=listener(progress),
        )
