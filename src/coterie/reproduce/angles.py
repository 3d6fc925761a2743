"""Distances between data sets, classes, Gaussians and clients."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from coterie.data import Dataset, Samples
from coterie.data.super_clusters import class_angles
from coterie.data.super_clusters import super_clusters as super_clusters_of
from coterie.reproduce.agreements import groups_of, proximity_of, seeded_config
from coterie.reproduce.catalogue import Cell, Reproducible
from coterie.reproduce.findings import Findings, ReproductionSession, beside_published, heat_map, map_of
from coterie.results.charts import Chart
from coterie.results.statistics import spread
from coterie.similarity import bhattacharyya, kl_divergence, mmd, pairwise, principal_angles, signature
from coterie.streams import stream

Floats = npt.NDArray[np.float64]
SIDE = 32
"""Of images, in pixels, when data sets are compared."""


def proximity(item: Reproducible, session: ReproductionSession) -> Findings:
    """Angles between data sets or between classes of one, and a heat map."""
    options = item.entry.options
    if options["of"] == "datasets":
        spaces = [signature(_as_colour(_training(name).x), options["p"]) for name in options["items"]]
        angles = principal_angles(spaces, measure=options["measure"])
        names = [column.label for column in item.columns()]
    else:
        labels, angles = class_angles(_training(options["dataset"]), options["p"], options["measure"])
        names = options.get("labels") or [str(label) for label in labels]
    place = {name: number for number, name in enumerate(names)}
    lines = [
        beside_published(cell, float(angles[place[cell.row], place[cell.column]]), quantity="degrees")
        for cell in session.request.cells(item)
    ]
    differences = [abs(pair.difference) for pair in lines if pair.difference is not None]
    remark = f"Largest difference from the published angles: {max(differences):.2f} degrees." if differences else ""
    return Findings(lines, [heat_map(item.entry.title, names, angles, "degrees")], [remark] if remark else [])


def super_clusters(item: Reproducible, session: ReproductionSession) -> Findings:
    """Sets of classes whose images span similar spaces, and for MIX-4 groups of clients."""
    lines, charts, remarks = [], list[Chart](), []
    for cell in session.request.cells(item):
        options = cell.options
        samples = _training(options["dataset"])
        supers = super_clusters_of(samples, threshold=options.get("threshold"), groups=options.get("count"))
        lines.append(beside_published(cell, float(len(supers.sets)), 0, "sets of classes"))
        names, groups = [str(label) for label in supers.labels], supers.grouping.labels
        title = f"Classes of {cell.column}"
        charts += [
            heat_map(title, names, supers.angles, "degrees", groups),
            map_of(title, names, supers.angles, groups),
        ]
        remarks.append(_sets(cell, supers.sets))
    if item.entry.options.get("mix") and session.request.datasets is None:
        mix = groups_of({"data": {"name": "mix-4", "clients": 100}, "algorithm": {"name": "pacfl"}}, 0)
        clients = [str(client) for client in mix.clients]
        charts.append(map_of("Clients of MIX-4", clients, proximity_of(mix), mix.grouping.labels))
        remarks.append(
            f"MIX-4, 100 clients, rule auto: {mix.grouping.n_groups} groups (paper: 4), agreement with the four "
            f"data sets (ARI) {mix.ari or 0:.3f}."
        )
    return Findings(lines, charts, remarks)


def _sets(cell: Cell, sets: Sequence[Sequence[int]]) -> str:
    """Say whether the sets are those published."""
    shown = ", ".join("{" + ",".join(map(str, group)) + "}" for group in sets if len(group) < 20)
    published = [sorted(int(label) for label in text.split("+")) for text in cell.options.get("sets", [])]
    if not published:
        return f"{cell.column}: {shown}."
    equal = [group for group in published if group in [list(own) for own in sets]]
    same = "as published" if len(equal) == len(published) else f"{len(equal)} of {len(published)} sets as published"
    return f"{cell.column}: {shown}: {same}."


def gaussians(item: Reproducible, session: ReproductionSession) -> Findings:
    """Measures between samples of N(μ, Σ) and of Gaussians with a multiple of μ or Σ, drawn anew by every seed."""
    options, lines = item.entry.options, []
    for cell in session.request.cells(item):
        distances = []
        for seed in session.request.seeds_of(item):
            x, y = _two_gaussians(options["points"], options["dimension"], seed, cell.options)
            distances.append(_distance(cell.options["measure"], x, y, options["p"]))
        lines.append(
            beside_published(cell, spread(distances), 4 if cell.options["measure"] == "mmd" else 2, "distance")
        )
    means = {(pair.row, pair.column): pair.ours.mean for pair in lines if pair.ours}
    columns = [column.label for column in item.columns()]
    right = [
        row
        for row in dict.fromkeys(pair.row for pair in lines)
        if means[row, columns[0]] < means[row, columns[1]] and means[row, columns[2]] < means[row, columns[3]]
    ]
    return Findings(lines, remarks=[f"In the published order (1 < 2, 3 < 4): {', '.join(right) or 'none'}."])


def _two_gaussians(points: int, dimension: int, seed: int, options: Mapping[str, Any]) -> tuple[Floats, Floats]:
    rng = stream(seed, "gaussians")
    mean, first, second = (rng.normal(size=size) for size in (dimension, (points, dimension), (points, dimension)))
    return mean + first, options["mean"] * mean + math.sqrt(options["scale"]) * second


def _distance(measure: str, x: Floats, y: Floats, p: int) -> float:
    if measure == "angle":
        return float(principal_angles([signature(x, p)], [signature(y, p)], measure="min_abs")[0, 0])
    return {"bhattacharyya": bhattacharyya, "kl": kl_divergence, "mmd": mmd}[measure](x, y)


def client_distances(item: Reproducible, session: ReproductionSession) -> Findings:
    """Mean distance of two clients by several measures, and the matrices."""
    from coterie.run.building import load_data

    lines, charts = [], list[Chart]()
    seed = session.request.seeds_of(item)[0]
    of_column: dict[str, tuple[list[Any], npt.NDArray[np.int64] | None]] = {}
    for cell in session.request.cells(item):
        if cell.column not in of_column:
            data = load_data(seeded_config(cell.settings, seed))
            parts = [data.train.x[part].reshape(len(part), -1) for part in data.train_parts]
            of_column[cell.column] = parts, data.true_groups
        samples, groups = of_column[cell.column]
        matrix = _between(cell.options["measure"], samples)
        order = np.arange(len(matrix)) if groups is None else np.argsort(groups, kind="stable")
        lines.append(
            beside_published(cell, float(matrix[np.triu_indices(len(matrix), 1)].mean()), 3, "mean over pairs")
        )
        title, unit = f"{cell.label}, {cell.column}", cell.options["measure"]
        names = [str(client) for client in order]
        charts.append(heat_map(title, names, matrix[np.ix_(order, order)], unit))
    return Findings(lines, charts)


def _between(measure: str, samples: Sequence[Any]) -> Floats:
    """Return a distance, or CKA, of all pairs; angles in radians as in the dissertation."""
    if measure in ("theta1", "sum_angles"):
        angles = principal_angles([signature(x, 3) for x in samples], measure=measure)  # type: ignore[arg-type]
        return np.asarray(np.radians(angles), np.float64)
    return pairwise(measure, samples)


def _training(dataset: str) -> Samples:
    """Return the training part of a data set."""
    from coterie.data import DATASETS

    pool: Dataset = DATASETS[dataset](**DATASETS.validate(dataset, {}))
    return pool.train


def _as_colour(images: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return images as 3 x 32 x 32: padded with black, grey ones repeated in the three channels; (n, 3072)."""
    edges = [((SIDE - size) // 2, (SIDE - size + 1) // 2) for size in images.shape[2:]]
    padded = np.pad(images, [(0, 0), (0, 0), *edges])
    return np.repeat(padded, 3 // padded.shape[1], axis=1).reshape(len(padded), -1)
