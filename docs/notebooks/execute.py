"""Runs the notebooks again and keeps their outputs: python docs/notebooks/execute.py [NAME...]; needs coterie[dev]."""

from __future__ import annotations

import os
import re
import sys
import tempfile
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
NOTEBOOKS = sorted(HERE.glob("*.ipynb"))
SECONDS = 1800
"""That a cell may take on a busy machine."""


def executed(path: Path) -> Any:
    """Run a notebook in a folder of its own and return it; a cell that fails raises an error."""
    import nbformat
    from nbclient import NotebookClient

    notebook = nbformat.read(path, as_version=4)
    with tempfile.TemporaryDirectory() as folder:
        NotebookClient(
            notebook, timeout=SECONDS, kernel_name="python3", resources={"metadata": {"path": folder}}
        ).execute()
    for cell in notebook.cells:
        cell.metadata.clear()
        for output in cell.get("outputs", []):
            output.get("metadata", {}).clear()
    notebook.metadata = {"kernelspec": notebook.metadata["kernelspec"], "language_info": {"name": "python"}}
    return notebook


def places_in(text: str) -> list[str]:
    """Return the absolute paths of a text, of which none belongs into a notebook.

    >>> places_in("see /home/me/runs and runs/a, 1/2, https://example.org/a")
    ['/home/me/runs']
    """
    return re.findall(r"(?<![\w.:/<])/(?:home|tmp|root|work|usr|Users|var|opt)/[\w./-]+", text)


def main(names: list[str]) -> None:
    """Run those that are named, or all."""
    import nbformat

    os.environ.setdefault("PYTHONWARNINGS", "ignore::DeprecationWarning")
    for path in NOTEBOOKS:
        if not names or path.stem in names:
            notebook = executed(path)
            assert not places_in(nbformat.writes(notebook)), f"{path.name} shows {places_in(nbformat.writes(notebook))}"
            nbformat.write(notebook, path)
            print(path.name, f"{path.stat().st_size / 1e3:.0f} kB")


if __name__ == "__main__":
    main(sys.argv[1:])
