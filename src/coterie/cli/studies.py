"""What ``coterie inspect``, ``pairs`` and ``layers`` share: printing what was found, and writing it into a folder."""

import json
from pathlib import Path
from typing import Annotated, Any, Protocol

import typer

AsJson = Annotated[bool, typer.Option("--json", help="Print the numbers as JSON.")]


class Presentable(Protocol):
    """What a study comes to."""

    def to_json(self) -> dict[str, Any]: ...
    def report(self) -> str: ...
    def save(self, folder: Path) -> list[Path]: ...


def show(findings: Presentable, out: str | Path | None, as_json: bool, quiet: bool) -> None:
    """Print what was found, and write it into a folder, if one was named."""
    if as_json:
        typer.echo(json.dumps(findings.to_json()))
    elif not quiet:
        typer.echo(findings.report(), nl=False)
    if out is not None:
        written = findings.save(Path(out))
        if not quiet and not as_json:
            typer.echo(f"Written: {', '.join(str(path) for path in written)}")
