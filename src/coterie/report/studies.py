"""The pair study and the layer study as tables and pictures."""

from collections.abc import Mapping, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import Any

from coterie.errors import counted
from coterie.report.pages.curves import mean_series
from coterie.report.picture_files import write
from coterie.report.static import paint, paint_grid
from coterie.report.text_table import TextTable, printed
from coterie.results.charts import Bars, HeatMap, Series, values
from coterie.results.layer_measures import LAYER_MEASURES
from coterie.results.metrics import ACCURACY
from coterie.results.protocols import accuracies_text
from coterie.results.statistics import Spread

HEADINGS = {key: heading for key, (heading, _) in LAYER_MEASURES.items()}


def pairs_table(study: Mapping[str, Any]) -> str:
    """Return a row per client 2, the first for training alone."""
    rows = [["(alone)", "", "", _percent(study["solo"]), "–", "–", ""]]
    for row in study["rows"]:
        numbers = [_percent(row["own"]), _percent(row["received"]), _percent(row["gain"], sign=True)]
        rows.append([name(row["labels"]), str(row["shared"]), f"{row['angle']:.1f}°", *numbers, row["verdict"]])
    table = TextTable(["client 2", "shared", "angle", "L", "C", "gain", "federation"], rows, left=["federation"])
    seeds = len(study["seeds"])
    first = f"Client 1 has labels {name(study['c1'])}; {study['title']}; method {study['method']}; "
    note = (
        "Accuracy in % on client 1's test data, mean ± standard deviation over the seeds. L: its own model after its "
        "last training; C: the model it would receive. Gain: L minus training alone for as long with the same samples, "
        "seed by seed; it helps or hurts where its 95 % confidence interval leaves out 0. Angle: the smallest between "
        "the spaces of the two clients' samples."
    )
    return printed([first + counted(seeds, "seed")], table, [note])


def draw_pairs(study: Mapping[str, Any], folder: Path) -> list[Path]:
    """Write the gains as a picture."""
    rows, seeds = study["rows"], len(study["seeds"])
    gains = [Spread(seeds, row["gain"]["mean"], row["gain"]["sd"] if seeds > 1 else None) for row in rows]
    chart = Bars(
        title=f"What client 1 ({name(study['c1'])}) gains from a federation",
        note="Accuracy of its own model minus that of training alone; whiskers: a standard deviation over seeds.",
        x_label="labels of client 2",
        y_label=f"gain in accuracy, points (mean ± sd of {seeds} seeds)" if seeds > 1 else "gain in accuracy, points",
        categories=tuple(name(row["labels"]) for row in rows),
        series=(mean_series(study["method"], gains, 100),),
    )
    return write(paint(chart), folder / "pairs")


def layers_table(study: Mapping[str, Any]) -> str:
    """Return a row per run and layer: means over pairs of clients, and the CKA with the server's model."""
    rows = []
    for run in study["runs"]:
        for k, layer in enumerate(run["layers"]):
            cells = [f"{run['means'][measure][k]:.3f}" for measure in HEADINGS]
            to_server = "–" if run["to_server"] is None else f"{run['to_server'][k]:.3f}"
            rows.append([run["run"] if k == 0 else "", layer, *cells, to_server])
    table = TextTable(["run", "layer", *HEADINGS.values(), "CKA with server"], rows, left=["layer"])
    lines = []
    for run in study["runs"]:
        accuracy = {**(run["accuracy"] or {}), "metric": run.get("metric", ACCURACY)}
        reached = accuracies_text(accuracy, ", ") or "not finished"
        many = f"{counted(len(run['clients']), 'model')}, {counted(run['inputs'], 'input')}"
        lines.append(f"{run['run']}: {run['title']}; {many}; {reached}")
    note = (
        "Means over pairs of clients' own models, given the same test inputs. CKA: 1 is the same up to rotation and "
        "scale; angles are between the spaces that the outputs span (3 vectors): 0 is the same."
    )
    return printed(lines, table, [note])


def draw_layers(study: Mapping[str, Any], folder: Path) -> list[Path]:
    """Write the means by layer, and the matrices of CKA side by side: a row per layer, a column per run."""
    runs: Sequence[Mapping[str, Any]] = study["runs"]
    written = []
    layers = runs[0]["layers"]
    same = [run for run in runs if run["layers"] == layers]
    for measure, unit in HEADINGS.items():
        chart = Bars(
            title="How alike clients' models are, layer by layer (Fig. 5.5)",
            x_label="layer",
            y_label=f"{unit}, mean over pairs",
            categories=tuple(layers),
            series=tuple(Series(name=Path(run["run"]).name, y=values(run["means"][measure])) for run in same),
        )
        written += write(paint(chart), folder / f"means-{measure.replace('_', '-')}")
    lowest = min(min(map(min, matrix)) for run in runs for matrix in run["matrices"]["cka"])
    rows = zip_longest(*(_cka_maps(run, lowest) for run in runs))
    return [*written, *write(paint_grid([*rows], (3.2, 2.5)), folder / "cka")]


def _cka_maps(run: Mapping[str, Any], lowest: float) -> list[HeatMap]:
    """Return the CKA between clients in each layer of a run."""
    clients = tuple(map(str, run["clients"]))
    maps = zip(run["layers"], run["matrices"]["cka"], strict=True)
    return [
        HeatMap(
            title=f"{Path(run['run']).name}: {layer}",
            rows=clients,
            columns=clients,
            unit="CKA",
            values=tuple(map(values, matrix)),
            limits=(lowest, 1.0),
        )
        for layer, matrix in maps
    ]


def name(labels: Sequence[int]) -> str:
    """Write a set of labels.

    >>> name([8, 9])
    '8+9'
    """
    return "+".join(map(str, labels))


def _percent(spread: Mapping[str, Any], sign: bool = False) -> str:
    mean, sd = 100 * spread["mean"], 100 * spread["sd"]
    text = f"{mean:+.2f}" if sign else f"{mean:.2f}"
    return text + (f" ± {sd:.2f}" if len(spread["values"]) > 1 else "")
