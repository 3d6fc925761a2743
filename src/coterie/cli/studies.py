"""What ``coterie inspect``, ``pairs`` and ``layers`` share: printing what was found, and writing it into a folder."""

import json
from pathlib import Path
from typing import Annotated, Any, Protocol

import typer

from coterie.files import check_new

AsJson = Annotated[bool, typer.Option("--json", help="Print the numbers as JSON.")]


class Presentable(Protocol):
    """What a study comes to."""

    def to_json(self) -> dict[str, Any]: ...
    def report(self) -> str: ...
    def save(self, folder: Path, overwrite: bool = False) -> list[Path]: ...


def check_out(out: str | Path | None, numbers: str, overwrite: bool) -> None:
    """Refuse a folder that holds such a study already, before the work begins."""
    if out is not None:
        check_new(Path(out) / numbers, overwrite)


def show(findings: Presentable, out: str | Path | None, as_json: bool, quiet: bool, overwrite: bool) -> None:
    """Print what was found, and write it into a folder, if one was named."""
    if as_json:
        typer.echo(json.dumps(findings.to_json()))
    elif not quiet:
        typer.echo(findings.report(), nl=False)
    if out is not None:
        written = findings.save(Path(out), overwrite)
        if not quiet and not as_json:
            typer.echo(f"Written: {', '.join(str(path) for path in written)}")
