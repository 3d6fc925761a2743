"""Tables and figures that follow from formulas, and the list of all kinds that need no federated runs."""

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from coterie.errors import CoterieError
from coterie.reproduce import distances
from coterie.reproduce.catalogue import Cell, Reproducible
from coterie.reproduce.findings import Findings, ReproductionSession, beside_published
from coterie.reproduce.graph_tasks import coreset, graph_distances, graph_labels
from coterie.results.charts import Lines, Series, values
from coterie.results.costs import paper_megabits, sub_fedavg_bytes


def costs(item: Reproducible, session: ReproductionSession) -> Findings:
    """Costs by the papers' formulas; notes and grades of methods do not matter for them."""
    rows, lines = dict(item.rows()), []
    for cell in session.request.cells(item):
        row = rows[cell.row]
        pair = beside_published(cell, _cost(cell), quantity=item.entry.unit)
        lines.append(replace(pair, notes=(row.note,) if row.note else (), grade=row.grade or item.entry.grade))
    return Findings(lines)


def _cost(cell: Cell) -> float | None:
    """Return a cost; None where nothing was published."""
    options = cell.options
    if cell.published is None or cell.published.value is None:
        return None
    if options.get("formula") == "sub-fedavg":
        sent, pruned = (options.get(name, name) for name in (options["parameters"], options["pruned"]))
        whole = sub_fedavg_bytes(options["rounds"], 10, sent, pruned)
        return whole / float(options["per"])
    rounds = cell.published.implied_rounds
    if rounds is None:
        raise CoterieError(f"{cell.label}, {cell.column}: no rounds in brackets")
    exact = paper_megabits(rounds, 0.1, options["transfers"], options["parameters"])
    return math.floor(100 * exact) / 100  # as the paper's


def sizes(item: Reproducible, session: ReproductionSession) -> Findings:
    """Parameters of networks."""
    from coterie.messages import ModelSpec
    from coterie.models import MODELS, parameters

    lines = []
    for cell in session.request.cells(item):
        own = {key: value for key, value in cell.options.items() if key not in ("model", "shape", "classes")}
        name = cell.options["model"]
        spec = ModelSpec(name, tuple(cell.options["shape"]), cell.options["classes"], MODELS.validate(name, own))
        lines.append(beside_published(cell, float(parameters(spec)), 0, "parameters"))
    return Findings(lines)


def flops(item: Reproducible, session: ReproductionSession) -> Findings:
    """How many times fewer multiply-adds the convolutions of LeNet-5 need with fewer channels."""
    from coterie.messages import ModelSpec
    from coterie.models import initial
    from coterie.models.flops import size

    spec = ModelSpec("lenet5", (3, 32, 32), 10)
    kernels = [(name, array) for name, array in initial(spec, 0).items() if array.ndim == 4]
    whole, lines = size(spec).multiply_adds, []
    for cell in session.request.cells(item):
        kept, mask, inputs = cell.options["channels"], {}, 3
        for (name, array), outputs in zip(kernels, kept, strict=True):
            mask[name] = np.zeros_like(array)
            mask[name][:outputs, :inputs] = 1
            inputs = outputs
        lines.append(beside_published(cell, whole / size(spec, mask).multiply_adds, quantity="times fewer"))
    return Findings(lines)


def pacing(item: Reproducible, session: ReproductionSession) -> Findings:
    """How the pool of samples grows, by each pacing function."""
    from coterie.studies.curricula import pacing_curves

    series = [
        Series(name=name, x=values(np.linspace(0, 1, len(curve))), y=values(curve))
        for name, curve in pacing_curves().items()
    ]
    share, steps = "share of the samples", "share of the steps"
    return Findings([], [Lines(title="Pacing, a = 0.8, b = 0.2", x_label=steps, y_label=share, series=tuple(series))])


KINDS: dict[str, Callable[[Reproducible, ReproductionSession], Findings]] = {
    "proximity": distances.proximity,
    "super-clusters": distances.super_clusters,
    "gaussians": distances.gaussians,
    "client-distances": distances.client_distances,
    "costs": costs,
    "sizes": sizes,
    "flops": flops,
    "pacing": pacing,
    "clustering-error": distances.agreement_error,
    "agreement": distances.agreement,
    "update-measures": distances.update_measures,
    "layers": distances.layers,
    "coreset": coreset,
    "graph-labels": graph_labels,
    "graph-distances": graph_distances,
}
WIDE = ("proximity", "gaussians", "client-distances", "costs", "sizes", "flops")
"""Kinds that are shown as printed."""
ROWS = {*KINDS} - {"graph-labels", "graph-distances"}
"""Kinds whose rows are no methods."""
