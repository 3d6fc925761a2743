"""How heterogeneous a federation is, and what to do about it.

This module is light on purpose: `import coterie` reads it, and everything else is imported when first used.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from coterie.inspect.inspection import Inspection
    from coterie.run.progress import Progress

__all__ = ["inspect"]


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
    from coterie.inspect.inspection import inspect as look
    from coterie.run.cluster import DEFAULT
    from coterie.run.settings import settings_to_config

    return look(
        settings_to_config(config, settings, method=DEFAULT),
        measures=measures,
        against=against,
        per_class=per_class,
        super_clusters=super_clusters,
        progress=progress,
    )
