"""Presentation: pages, tables and pictures of what run, comparison and reproduction folders hold.

This module is light on purpose: `import coterie` reads it, and everything else is imported when first used.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol, runtime_checkable

from coterie.arguments import in_keywords
from coterie.errors import CoterieError, kind_of, listed

__all__ = ["report"]


@runtime_checkable
class InFolder(Protocol):
    """A result or a comparison, which may have been written to a folder."""

    @property
    def folder(self) -> Path | None:
        """Where it is."""
        ...


@in_keywords
def report(
    *runs: str | os.PathLike[str] | InFolder,
    out: str | os.PathLike[str] | None = None,
    figures: str | os.PathLike[str] | None = None,
    formats: str | Sequence[str] = ("png", "svg", "pdf"),
    overwrite: bool = False,
) -> Path:
    """Make one HTML page of runs, a comparison, a sweep or reproductions; it opens offline.

    Args:
        *runs: Folders, or results and comparisons that were written to one. With a run of 'solo' on the same data and
            seed among them, the page says who gains and who loses.
        out: The file; by default ``report.html`` in the folder, if there is one folder.
        figures: A folder to which every chart is also written.
        formats: The file formats of these charts.
        overwrite: Whether to replace files that Coterie did not write.

    Returns:
        The file.

    Examples:
        >>> import coterie, tempfile
        >>> place = tempfile.TemporaryDirectory()
        >>> result = coterie.run(dataset="digits", clients=5, rounds=2, epochs=1, out=f"{place.name}/run")
        >>> report(result).name
        'report.html'
        >>> place.cleanup()
    """
    from coterie.report.folders import make_page, write_page
    from coterie.report.picture_files import check_formats
    from coterie.report.static import save

    kinds, folders = check_formats(listed(formats)), [_folder(run) for run in runs]
    if out is None and len(folders) > 1:
        raise CoterieError("a page of several runs needs a place: report(a, b, out='report.html')")
    page = make_page(folders)
    if figures is not None:
        save(page, Path(figures), kinds, overwrite)
    return write_page(page, folders, None if out is None else Path(out), overwrite)


def _folder(run: str | os.PathLike[str] | InFolder) -> Path:
    """Return the folder of a run."""
    if isinstance(run, str | os.PathLike):
        return Path(run)
    if not isinstance(run, InFolder):
        raise CoterieError(
            f"a page can't be made of {kind_of(run)}: name folders or results, report(a, b, out='ab.html')"
        )
    if run.folder is None:
        raise CoterieError("a page is made of what was written: give the run a folder, coterie.run(out=...)")
    return run.folder
