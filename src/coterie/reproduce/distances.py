"""Distances between data sets, classes, Gaussians and clients, and how far clients' models and updates agree."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt

from coterie import similarity
from coterie.clustering import clustering_error
from coterie.clustering.grouping import row_groups
from coterie.data import DATASETS, Dataset, Samples
from coterie.data.super_clusters import class_angles
from coterie.data.super_clusters import super_clusters as super_clusters_of
from coterie.errors import CoterieError
from coterie.reproduce.catalogue import Cell, Reproducible
from coterie.reproduce.findings import Findings, ReproductionSession, beside_published
from coterie.reproduce.trained import describe_failures, key_of, make_runs, seeded_config
from coterie.results.charts import Chart, HeatMap, Lines, Point, Scatter, Series, classical_mds, values
from coterie.results.reproductions import NumberPair
from coterie.results.statistics import Spread, spread
from coterie.run import building
from coterie.run.cluster import ClusterResult, form_groups
from coterie.run.config import Config
from coterie.streams import stream
from coterie.training import one_thread

Floats = npt.NDArray[np.float64]
SIDE = 32
"""Of images, in pixels, when data sets are compared."""
SHOWN = 20
"""Clients whose agreement is shown (dissertation, Fig. 3.8)."""
COHORT = 10
"""Clients of a round, among which FLIS counts wrong pairs."""
PAIRS_SHOWN = 600
"""Points of a scatter; more would hide each other."""

DIVERGENCES = {"bhattacharyya": similarity.bhattacharyya, "kl": similarity.kl_divergence, "mmd": similarity.mmd}


def proximity(item: Reproducible, session: ReproductionSession) -> Findings:
    """Angles between data sets or between classes of one, and a heat map."""
    options = item.entry.options
    if options["of"] == "datasets":
        spaces = [similarity.signature(_as_colour(_training(name).x), options["p"]) for name in options["items"]]
        angles = similarity.principal_angles(spaces, measure=options["measure"])
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
        tables = {"data": {"name": "mix-4", "clients": 100}, "algorithm": {"name": "pacfl"}}
        mix = form_groups(seeded_config(tables, 0))
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
        digits = 4 if cell.options["measure"] == "mmd" else 2
        lines.append(beside_published(cell, spread(distances), digits, "distance"))
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
        first, second = similarity.signature(x, p), similarity.signature(y, p)
        return float(similarity.principal_angles([first], [second], measure="min_abs")[0, 0])
    return DIVERGENCES[measure](x, y)


def client_distances(item: Reproducible, session: ReproductionSession) -> Findings:
    """Mean distance of two clients by several measures, and the matrices."""
    lines, charts = [], list[Chart]()
    seed = session.request.seeds_of(item)[0]
    of_column: dict[str, tuple[list[Any], npt.NDArray[np.int64] | None]] = {}
    for cell in session.request.cells(item):
        if cell.column not in of_column:
            data = building.load_data(seeded_config(cell.settings, seed))
            parts = [data.train.x[part].reshape(len(part), -1) for part in data.train_parts]
            of_column[cell.column] = parts, data.true_groups
        samples, groups = of_column[cell.column]
        matrix = _between(cell.options["measure"], samples)
        order = np.arange(len(matrix)) if groups is None else np.argsort(groups, kind="stable")
        mean = float(matrix[np.triu_indices(len(matrix), 1)].mean())
        lines.append(beside_published(cell, mean, 3, "mean over pairs"))
        title, unit = f"{cell.label}, {cell.column}", cell.options["measure"]
        names = [str(client) for client in order]
        charts.append(heat_map(title, names, matrix[np.ix_(order, order)], unit))
    return Findings(lines, charts)


def _between(measure: str, samples: Sequence[Any]) -> Floats:
    """Return a distance, or CKA, of all pairs; angles in radians as in the dissertation."""
    if measure in ("theta1", "trace"):
        angles = similarity.principal_angles([similarity.signature(x, 3) for x in samples], measure=measure)  # type: ignore[arg-type]
        return np.asarray(np.radians(angles), np.float64)
    return similarity.pairwise(measure, samples)


def _training(dataset: str) -> Samples:
    """Return the training part of a data set."""
    pool: Dataset = DATASETS[dataset](**DATASETS.validate(dataset, {}))
    return pool.train


def _as_colour(images: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return images as 3 x 32 x 32: padded with black, grey ones repeated in the three channels; (n, 3072)."""
    edges = [((SIDE - size) // 2, (SIDE - size + 1) // 2) for size in images.shape[2:]]
    padded = np.pad(images, [(0, 0), (0, 0), *edges])
    return np.repeat(padded, 3 // padded.shape[1], axis=1).reshape(len(padded), -1)


def agreement_error(item: Reproducible, session: ReproductionSession) -> Findings:
    """FLIS's clustering error against its threshold, and the threshold where it is smallest."""
    thresholds = np.round(np.arange(0, 1.01, 0.05), 2)
    lines, charts = [], list[Chart]()
    for cell in session.request.cells(item):
        groups = form_groups(seeded_config(cell.settings, session.request.seeds_of(item)[0]))
        agreeing = 1 - proximity_of(groups)
        own = [set(np.flatnonzero(row).tolist()) for row in groups.counts]
        scale = (COHORT - 1) / max(len(own) - 1, 1)
        errors = [scale * clustering_error(row_groups(agreeing, float(at)), own) for at in thresholds]
        best = float(thresholds[int(np.argmin(errors))])
        lines.append(beside_published(cell, best, quantity="β with the smallest error"))
        error = Series(name="error", x=values(thresholds), y=values(errors))
        title = f"{item.entry.title}: {cell.column}"
        charts.append(Lines(title=title, x_label="β", y_label="wrong pairs per client", series=(error,)))
    return Findings(lines, charts)


def agreement(item: Reproducible, session: ReproductionSession) -> Findings:
    """How far clients' models agree on the server's samples: matrices, and what is missing to full agreement."""
    options, lines, charts = item.entry.options, list[NumberPair](), list[Chart]()
    seed = session.request.seeds_of(item)[0]
    tried = list(product(options["server_data"], options["alphas"], options["epochs"]))
    for cell in session.request.cells(item):
        for where, alpha, epochs in tried:
            tables = {section: dict(table) for section, table in cell.settings.items()}
            tables["partition"] = {"name": "dirichlet", "alpha": alpha}
            tables["training"] = {**tables["training"], "epochs": epochs}
            tables["algorithm"] = {"name": "flis-hc", "server_data": where}
            groups = form_groups(seeded_config(tables, seed))
            shown = 1 - proximity_of(groups)[:SHOWN, :SHOWN]
            apart = 1 - float(shown[np.triu_indices(len(shown), 1)].mean())
            name = f"α = {alpha:g}, E = {epochs}, server data {where}"
            lines.append(
                NumberPair(cell.column, name, "1 - mean agreement", "", None, None, Spread(1, apart, None), digits=3)
            )
            charts.append(heat_map(name, [str(i) for i in range(len(shown))], shown, "agreement", limits=(0.0, 1.0)))
    return Findings(lines, charts)


def update_measures(item: Reproducible, session: ReproductionSession) -> Findings:
    """EDC against MADC of all pairs of first updates, and their correlation."""
    lines, charts = [], list[Chart]()
    for cell in session.request.cells(item):
        deltas, m = _first_updates(seeded_config(cell.settings, session.request.seeds_of(item)[0]))
        above = np.triu_indices(len(deltas), 1)
        x, y = similarity.madc(deltas)[above], similarity.edc(deltas, m)[above]
        lines.append(beside_published(cell, float(np.corrcoef(x, y)[0, 1]), 3, "Pearson's r"))
        step = max(1, len(x) // PAIRS_SHOWN)
        points = [Point(name="", x=float(a), y=float(b)) for a, b in zip(x[::step], y[::step], strict=True)]
        title = f"{item.entry.title}: {cell.column}"
        charts.append(Scatter(title=title, points=tuple(points), x_label="MADC", y_label="EDC"))
    return Findings(lines, charts)


def _first_updates(config: Config) -> tuple[Floats, int]:
    """Let FedGroup's clients train for its cold start; return their updates, (clients, parameters), and m."""
    from coterie.algorithms.fedgroup import FedGroup
    from coterie.client import MemoryStore
    from coterie.run.progress import Progress

    data = building.load_data(config)
    config = building.completed(config, data)
    trainer = building.make_trainer(config, building.make_spec(config, data), Progress())
    with one_thread(), building.session(config, data, MemoryStore(), trainer) as run:
        method = run.algorithm
        assert isinstance(method, FedGroup)
        method.start, m = run.fed.initial(), config.grouping.groups or 3
        drawn = stream(config.run.seed, "cold start", 0).permutation(len(run.fed.trainable))[: method.alpha_pre * m]
        models = method.pretrain(run.fed, sorted(run.fed.trainable[i] for i in drawn))
        start = np.concatenate([array.ravel() for array in method.start.values()])
        flat = [np.concatenate([array.ravel() for array in model.values()]) - start for model in models.values()]
    return np.stack([delta for delta in flat if delta.any()]).astype(np.float64), m


def layers(item: Reproducible, session: ReproductionSession) -> Findings:
    """How alike the clients' models are, layer by layer, after runs."""
    from coterie.studies.layers import study

    cells = session.request.cells(item)
    results, failed = make_runs(item, cells, session)
    lines, drawn = list[NumberPair](), {"cka": "CKA", "theta1": "Eq. 5.1, degrees", "trace": "Eq. 5.2, degrees"}
    series: dict[str, list[Series]] = {measure: [] for measure in drawn}
    for cell in cells:
        runs = [run.folder for run in results[key_of(cell)] if run.folder is not None]
        comparisons = study(runs).runs if runs else []
        means = [float(np.mean(run.means("cka"))) for run in comparisons]
        why = "failed" if failed.get(key_of(cell)) and not means else ""
        pair = beside_published(cell, spread(means), 3, "CKA")
        lines.append(replace(pair, asked=len(session.request.seeds_of(item)), why=why))
        for measure in drawn if comparisons else ():
            x, y = values(range(1, len(comparisons[0].layers) + 1)), values(comparisons[0].means(measure))
            series[measure].append(Series(name=cell.column, x=x, y=y))
    charts = [
        Lines(
            title=f"{item.entry.title}: {unit.partition(',')[0]}",
            x_label="layer",
            y_label=f"{unit}, mean over pairs",
            series=tuple(series[measure]),
        )
        for measure, unit in drawn.items()
        if series[measure]
    ]
    folders = dict.fromkeys(str(run.folder) for runs in results.values() for run in runs)
    return Findings(lines, charts, failed=describe_failures(cells, failed), runs=list(folders))


def proximity_of(groups: ClusterResult) -> Floats:
    """Return the distances by which clients were grouped."""
    if groups.grouping.proximity is None:
        raise CoterieError("these groups were not formed by distances between clients")
    return groups.grouping.proximity


def heat_map(
    title: str,
    names: Sequence[str],
    matrix: Floats,
    unit: str,
    groups: npt.NDArray[np.int64] | None = None,
    limits: tuple[float, float] | None = None,
) -> HeatMap:
    """Draw a matrix, with the members of a group side by side."""
    order = np.arange(len(matrix)) if groups is None else np.argsort(groups, kind="stable")
    labels = tuple(str(names[i]) for i in order)
    return HeatMap(
        title=title,
        rows=labels,
        columns=labels,
        values=tuple(values(row) for row in matrix[np.ix_(order, order)]),
        unit=unit,
        groups=() if groups is None else tuple(int(groups[i]) for i in order),
        limits=limits,
    )


def map_of(title: str, names: Sequence[str], distances: Floats, groups: npt.NDArray[np.int64]) -> Scatter:
    """Draw things as points that keep their distances where they can, coloured by group."""
    places = classical_mds(distances)
    points = [
        Point(name=str(name), x=float(x), y=float(y), group=int(group))
        for name, (x, y), group in zip(names, places, groups, strict=True)
    ]
    named = tuple(f"group {group}" for group in range(int(groups.max()) + 1))
    return Scatter(title=f"{title}, map of the angles", points=tuple(points), groups=named, map=True)
