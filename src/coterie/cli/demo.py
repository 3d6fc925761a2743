"""``coterie demo``: methods side by side on real scans of digits, some turned."""

from pathlib import Path
from typing import Annotated, Any

import typer

from coterie.cli.interrupts import explain_interrupt
from coterie.cli.options import Quiet
from coterie.cli.progress import ConsoleProgress

METHODS: dict[str, dict[str, Any]] = {
    "fedavg": {},
    "solo": {},
    "ifca": {"groups": 4},
    "pacfl": {},
    "flis-dc": {},
    "flag": {},
}


def demo(
    out: Annotated[Path, typer.Option(help="The folder; the demonstration in it is replaced.")] = Path("runs/demo"),
    quiet: Quiet = False,
) -> None:
    """Run six methods on digits that need no download, and draw a picture; it takes seconds.

    Twenty clients hold scikit-learn's digits; in four hidden groups the images are turned by 0, 90, 180 and 270
    degrees. One model for all has to learn four alphabets; a client alone has few samples. IFCA is told that there are
    four groups; PACFL, FLIS-DC and FLAG find out.
    """
    import coterie
    from coterie.report.figures import accuracy_plot
    from coterie.report.tables import result_table

    with explain_interrupt():
        results = {
            method: coterie.run(
                algorithm=method,
                dataset="digits-rotated",
                clients=20,
                fraction=0.5,
                rounds=40,
                epochs=2,
                lr=0.05,
                eval_every=4,
                out=str(out / method),
                overwrite=True,
                progress=ConsoleProgress(quiet),
                **settings,
            )
            for method, settings in METHODS.items()
        }
    picture = out / "accuracy.png"
    accuracy_plot({name: result.history for name, result in results.items()}, "digits-rotated, 20 clients", picture)
    if not quiet:
        typer.echo(result_table([result.to_json() for result in results.values()]))
        typer.echo("There are four hidden groups; an ARI of 1 means that they were found. IFCA is given their number.")
        typer.echo(f"Picture: {picture}")
