"""Audits: what a server could learn from what the clients of a run sent, beside what the run claims.

This module is light on purpose: `import coterie` reads it, and everything else is imported when first used.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from coterie.arguments import in_keywords
from coterie.errors import CoterieError, listed, whole_number

if TYPE_CHECKING:
    from coterie.audit.findings import Audit
    from coterie.run.keywords import FilePath
    from coterie.run.progress import Progress
    from coterie.run.result import Result

__all__ = ["audit"]

CLIENTS = 100
"""Clients that are attacked by default."""
CONFIDENCE = 0.95


@in_keywords
def audit(
    *runs: FilePath | Result,
    clients: int = CLIENTS,
    confidence: float = CONFIDENCE,
    plugins: Sequence[FilePath] = (),
    trust: bool = False,
    progress: Progress | bool | None = None,
) -> Audit:
    """Attack what the clients of runs sent, as a server could, and compare with the privacy that the runs claim.

    The data are read and divided anew from the run's configuration, so that the data set must be there.

    Args:
        *runs: Run folders, or results that have one.
        clients: How many clients are attacked at most; they are drawn by the run's seed.
        confidence: By which a claimed ε is disproved, and lower bounds of it are given.
        plugins: Which of the plugins that the folders name to import.
        trust: Whether to import all of them.
        progress: As for `run`.

    Returns:
        A row per attack; `Audit.broken` says which claims are disproved.

    Examples:
        >>> import coterie, tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     settings = {"algorithm": "pacfl", "dataset": "digits-rotated", "clients": 8, "rounds": 1, "epochs": 1}
        ...     result = coterie.run(**settings, out=f"{folder}/run")
        ...     found = coterie.audit(result)
        >>> [row.target for row in found.runs[0].findings], found.broken
        (['signatures', 'pictures', 'received models', 'sent models'], [])
    """
    from pathlib import Path

    from coterie.audit.auditing import audit_runs
    from coterie.run.live_progress import listener
    from coterie.run.plugins import Permission
    from coterie.run.result import Result

    folders = [run.folder if isinstance(run, Result) else Path(run) for run in runs]
    if None in folders:
        raise CoterieError("this run has no folder: give it one, coterie.run(out=...), to audit it")
    many = whole_number(clients, "clients")
    return audit_runs(
        [folder for folder in folders if folder is not None],
        clients=CLIENTS if many is None else many,
        confidence=confidence,
        permission=Permission(listed(plugins), trust),
        progress=listener(progress),
    )
