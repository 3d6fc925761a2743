"""Results as a table on the terminal."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from typing import Any

from coterie.results.protocols import COMPARED, brief, held_out

LEGEND = (
    f"Accuracy in %, mean over clients. {'; '.join(brief(COMPARED.values()))}; –: not defined for this method. "
    "Clients are tested on their own test parts (L, C, +). MB: megabytes sent to and by clients in training, "
    "evaluation not counted."
)


def result_table(results: Sequence[Mapping[str, Any]]) -> str:
    """Return a row per result, each accuracy under its protocol."""
    from rich import box
    from rich.console import Console
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("method")
    for heading in (*COMPARED.values(), "groups", "ARI", "MB down", "MB up", "missed", "seconds"):
        table.add_column(heading, justify="right")
    for result in results:
        accuracy, traffic, groups = result["accuracy"], result["traffic"], result["groups"]
        table.add_row(
            result["algorithm"],
            *(_percent(accuracy[protocol]) for protocol in COMPARED),
            "–" if groups is None else str(len({group for group in groups if group is not None})),
            "–" if result["ari"] is None else f"{result['ari']:.2f}",
            *(f"{traffic[way] / 1e6:.2f}" for way in ("down_bytes", "up_bytes")),
            str(sum(event["count"] for event in result["events"])),
            f"{result['seconds']:.1f}",
        )
    text = io.StringIO()
    console = Console(file=text, width=100, highlight=False, markup=False)
    first = results[0]
    console.print(
        f"{first['data']}, {len(first['per_client']['L'])} clients"
        + (f", {first['partition']}" if first["partition"] else "")
        + f", {first['model']}, {first['rounds']} rounds, seed {first['seed']}"
    )
    console.print(table)
    for result in results:
        served, tested = (sum(v is not None for v in result["per_client"][protocol]) for protocol in "CL")
        if 0 < served < tested:
            console.print(
                f"{result['algorithm']}: C and + are of {served} of {tested} clients; others are in no group yet"
            )
        if result["newcomers"]:
            console.print(_newcomers(result))
    console.print(LEGEND)
    for told in dict.fromkeys(held_out(result.get("validation", 0.0)) for result in results):
        if told:
            console.print(told)
    return text.getvalue()


def _newcomers(result: Mapping[str, Any]) -> str:
    """Return a line on those who came late."""
    late = result["newcomers"]
    when = "after training" if late["round"] > result["rounds"] else f"in round {late['round']}"
    founded = f"; founded their own group: {', '.join(map(str, late['founded']))}" if late["founded"] else ""
    return (
        f"{result['algorithm']}: {len(late['clients'])} newcomers {when}: L {_percent(late['accuracy']['L'])}, "
        f"C {_percent(late['accuracy']['C'])}{founded}"
    )


def _percent(fraction: float | None) -> str:
    return "–" if fraction is None else f"{100 * fraction:.2f}"
