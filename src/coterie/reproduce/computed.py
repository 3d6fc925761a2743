"""Tables and figures that need no federated runs: a small function each, which asks the library's own functions."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from coterie.clustering import clustering_error
from coterie.clustering.rows import row_groups
from coterie.data import Dataset, Samples
from coterie.data.super_clusters import class_angles
from coterie.data.super_clusters import super_clusters as super_clusters_of
from coterie.errors import CoterieError
from coterie.reproduce.catalogue import Cell, Reproducible
from coterie.reproduce.coresets import coreset, graph_distances, graph_labels
from coterie.reproduce.lines import line
from coterie.reproduce.trained import Findings, Setting, key_of, make_runs, told_failures
from coterie.results.charts import Chart, HeatMap, Lines, Point, Scatter, Series, classical_mds, values
from coterie.results.costs import paper_megabits, sub_fedavg_bytes
from coterie.results.reproductions import NumberPair
from coterie.results.statistics import Spread, spread
from coterie.run.config import Config
from coterie.run.validation import make_config
from coterie.similarity import bhattacharyya, edc, kl_divergence, madc, mmd, pairwise, principal_angles, signature
from coterie.streams import stream

if TYPE_CHECKING:
    from coterie.run.cluster import ClusterResult

Floats = npt.NDArray[np.float64]
SIDE = 32
SHOWN = 20
"""Clients whose agreement is shown (dissertation, Fig. 3.8)."""
COHORT = 10
"""Clients of a round, among which FLIS counts wrong pairs."""
PAIRS_SHOWN = 600
"""Points of a scatter; more would hide each other."""


# --------------------------------------------------------------------------------------------------------- angles


def proximity(one: Reproducible, setting: Setting) -> Findings:
    """Angles between data sets or between classes of one, and a heat map."""
    options = one.entry.options
    if options["of"] == "datasets":
        spaces = [signature(_as_colour(_training(name).x), options["p"]) for name in options["items"]]
        angles = principal_angles(spaces, measure=options["measure"])
        names = [column.label for column in one.columns()]
    else:
        labels, angles = class_angles(_training(options["dataset"]), options["p"], options["measure"])
        names = options.get("labels") or [str(label) for label in labels]
    place = {name: number for number, name in enumerate(names)}
    lines = [
        line(cell, float(angles[place[cell.row], place[cell.column]]), quantity="degrees")
        for cell in setting.request.cells(one)
    ]
    known = [abs(found.difference) for found in lines if found.difference is not None]
    remark = f"Largest difference from the published angles: {max(known):.2f} degrees." if known else ""
    return Findings(lines, [_heat_map(one.entry.title, names, angles, "degrees")], [remark] if remark else [])


def super_clusters(one: Reproducible, setting: Setting) -> Findings:
    """Sets of classes whose images span similar spaces, and for MIX-4 groups of clients."""
    lines, charts, remarks = [], list[Chart](), []
    for cell in setting.request.cells(one):
        options = cell.options
        samples = _training(options["dataset"])
        found = super_clusters_of(samples, threshold=options.get("threshold"), groups=options.get("count"))
        lines.append(line(cell, float(len(found.sets)), 0, "sets of classes"))
        names, groups = [str(label) for label in found.labels], found.grouping.labels
        title = f"Classes of {cell.column}"
        charts += [
            _heat_map(title, names, found.angles, "degrees", groups),
            _map(title, names, found.angles, groups),
        ]
        remarks.append(_sets(cell, found.sets))
    if one.entry.options.get("mix") and setting.request.datasets is None:
        mix = _groups({"data": {"name": "mix-4", "clients": 100}, "algorithm": {"name": "pacfl"}}, 0)
        clients = [str(client) for client in mix.clients]
        charts.append(_map("Clients of MIX-4", clients, _proximity(mix), mix.grouping.labels))
        remarks.append(
            f"MIX-4, 100 clients, rule auto: {mix.grouping.n_groups} groups (paper: 4), agreement with the four "
            f"data sets (ARI) {mix.ari or 0:.3f}."
        )
    return Findings(lines, charts, remarks)


def _sets(cell: Cell, found: Sequence[Sequence[int]]) -> str:
    """Say whether the sets are those published."""
    shown = ", ".join("{" + ",".join(map(str, group)) + "}" for group in found if len(group) < 20)
    published = [sorted(int(label) for label in text.split("+")) for text in cell.options.get("sets", [])]
    if not published:
        return f"{cell.column}: {shown}."
    equal = [group for group in published if group in [list(own) for own in found]]
    same = "as published" if len(equal) == len(published) else f"{len(equal)} of {len(published)} sets as published"
    return f"{cell.column}: {shown}: {same}."


def gaussians(one: Reproducible, setting: Setting) -> Findings:
    """Measures between samples of N(μ, Σ) and of Gaussians with a multiple of μ or Σ, drawn anew by every seed."""
    options, lines = one.entry.options, []
    for cell in setting.request.cells(one):
        found = []
        for seed in setting.request.seeds_of(one):
            x, y = _two_gaussians(options["points"], options["dimension"], seed, cell.options)
            found.append(_distance(cell.options["measure"], x, y, options["p"]))
        lines.append(line(cell, spread(found), 4 if cell.options["measure"] == "mmd" else 2, "distance"))
    means = {(found.row, found.column): found.ours.mean for found in lines if found.ours}
    columns = [column.label for column in one.columns()]
    right = [
        row
        for row in dict.fromkeys(found.row for found in lines)
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


def client_distances(one: Reproducible, setting: Setting) -> Findings:
    """Mean distance of two clients by several measures, and the matrices."""
    from coterie.run.building import load_data

    lines, charts = [], list[Chart]()
    seed = setting.request.seeds_of(one)[0]
    known: dict[str, tuple[list[Any], npt.NDArray[np.int64] | None]] = {}
    for cell in setting.request.cells(one):
        if cell.column not in known:
            data = load_data(_config(cell.settings, seed))
            parts = [data.train.x[part].reshape(len(part), -1) for part in data.train_parts]
            known[cell.column] = parts, data.true_groups
        samples, groups = known[cell.column]
        matrix = _between(cell.options["measure"], samples)
        order = np.arange(len(matrix)) if groups is None else np.argsort(groups, kind="stable")
        lines.append(line(cell, float(matrix[np.triu_indices(len(matrix), 1)].mean()), 3, "mean over pairs"))
        title, unit = f"{cell.label}, {cell.column}", cell.options["measure"]
        names = [str(client) for client in order]
        charts.append(_heat_map(title, names, matrix[np.ix_(order, order)], unit))
    return Findings(lines, charts)


def _between(measure: str, samples: Sequence[Any]) -> Floats:
    """Return a distance, or CKA, of all pairs; angles in radians as in the dissertation."""
    if measure in ("theta1", "sum_angles"):
        angles = principal_angles([signature(x, 3) for x in samples], measure=measure)  # type: ignore[arg-type]
        return np.asarray(np.radians(angles), np.float64)
    return pairwise(measure, samples)


# ------------------------------------------------------------------------------------------------------- formulas


def costs(one: Reproducible, setting: Setting) -> Findings:
    """Costs by the papers' formulas; what is known of methods does not matter for them."""
    rows, lines = dict(one.rows()), []
    for cell in setting.request.cells(one):
        row = rows[cell.row]
        found = line(cell, _cost(cell), quantity=one.entry.unit)
        lines.append(replace(found, notes=(row.note,) if row.note else (), grade=row.grade or one.entry.grade))
    return Findings(lines)


def _cost(cell: Cell) -> float | None:
    """Return a cost; None where nothing was published."""
    options = cell.options
    if cell.published is None or cell.published.value is None:
        return None
    if options.get("formula") == "sub-fedavg":
        sent, pruned = (options.get(given, given) for given in (options["parameters"], options["pruned"]))
        whole = sub_fedavg_bytes(options["rounds"], 10, sent, pruned)
        return whole / float(options["per"])
    rounds = cell.published.implied_rounds
    if rounds is None:
        raise CoterieError(f"{cell.label}, {cell.column}: no rounds in brackets")
    exact = paper_megabits(rounds, 0.1, options["transfers"], options["parameters"])
    return math.floor(100 * exact) / 100  # as the paper's


def sizes(one: Reproducible, setting: Setting) -> Findings:
    """Parameters of networks."""
    from coterie.messages import ModelSpec
    from coterie.models import MODELS, parameters

    lines = []
    for cell in setting.request.cells(one):
        own = {key: value for key, value in cell.options.items() if key not in ("model", "shape", "classes")}
        name = cell.options["model"]
        spec = ModelSpec(name, tuple(cell.options["shape"]), cell.options["classes"], MODELS.validate(name, own))
        lines.append(line(cell, float(parameters(spec)), 0, "parameters"))
    return Findings(lines)


def flops(one: Reproducible, setting: Setting) -> Findings:
    """How many times fewer multiply-adds the convolutions of LeNet-5 need with fewer channels."""
    from coterie.messages import ModelSpec
    from coterie.models import initial
    from coterie.models.flops import size

    spec = ModelSpec("lenet5", (3, 32, 32), 10)
    kernels = [(name, array) for name, array in initial(spec, 0).items() if array.ndim == 4]
    whole, lines = size(spec).multiply_adds, []
    for cell in setting.request.cells(one):
        kept, mask, inputs = cell.options["channels"], {}, 3
        for (name, array), outputs in zip(kernels, kept, strict=True):
            mask[name] = np.zeros_like(array)
            mask[name][:outputs, :inputs] = 1
            inputs = outputs
        lines.append(line(cell, whole / size(spec, mask).multiply_adds, quantity="times fewer"))
    return Findings(lines)


def pacing(one: Reproducible, setting: Setting) -> Findings:
    """How the pool of samples grows, by each pacing function."""
    from coterie.run.curriculum import pacing_curves

    series = [
        Series(name=name, x=values(np.linspace(0, 1, len(curve))), y=values(curve))
        for name, curve in pacing_curves().items()
    ]
    share, steps = "share of the samples", "share of the steps"
    return Findings([], [Lines(title="Pacing, a = 0.8, b = 0.2", x_label=steps, y_label=share, series=tuple(series))])


# ------------------------------------------------------------------------------------------ models trained once


def agreement_error(one: Reproducible, setting: Setting) -> Findings:
    """FLIS's clustering error against its threshold, and the threshold where it is smallest."""
    thresholds = np.round(np.arange(0, 1.01, 0.05), 2)
    lines, charts = [], list[Chart]()
    for cell in setting.request.cells(one):
        groups = _groups(cell.settings, setting.request.seeds_of(one)[0])
        agreeing = 1 - _proximity(groups)
        own = [set(np.flatnonzero(row).tolist()) for row in groups.counts]
        scale = (COHORT - 1) / max(len(own) - 1, 1)
        errors = [scale * clustering_error(row_groups(agreeing, float(at)), own) for at in thresholds]
        best = float(thresholds[int(np.argmin(errors))])
        lines.append(line(cell, best, quantity="β with the smallest error"))
        error = Series(name="error", x=values(thresholds), y=values(errors))
        title = f"{one.entry.title}: {cell.column}"
        charts.append(Lines(title=title, x_label="β", y_label="wrong pairs per client", series=(error,)))
    return Findings(lines, charts)


def agreement(one: Reproducible, setting: Setting) -> Findings:
    """How far clients' models agree on the server's samples: matrices, and what is missing to full agreement."""
    options, lines, charts = one.entry.options, list[NumberPair](), list[Chart]()
    seed = setting.request.seeds_of(one)[0]
    tried = [(alpha, epochs, "reserved") for alpha in options["alphas"] for epochs in options["epochs"]]
    last = options["epochs"][-1]
    tried += [(alpha, last, where) for alpha in options["alphas"] for where in options["server_data"]]
    for cell in setting.request.cells(one):
        for alpha, epochs, where in dict.fromkeys(tried):
            tables = {section: dict(table) for section, table in cell.settings.items()}
            tables["partition"] = {"name": "dirichlet", "alpha": alpha}
            tables["training"] = {**tables["training"], "epochs": epochs}
            tables["algorithm"] = {"name": "flis-hc", "server_data": where}
            groups = _groups(tables, seed)
            shown = 1 - _proximity(groups)[:SHOWN, :SHOWN]
            apart = 1 - float(shown[np.triu_indices(len(shown), 1)].mean())
            name = f"α = {alpha:g}, E = {epochs}, server data {where}"
            lines.append(
                NumberPair(cell.column, name, "1 - mean agreement", "", None, None, Spread(1, apart, None), digits=3)
            )
            charts.append(_heat_map(name, [str(i) for i in range(len(shown))], shown, "agreement", limits=(0.0, 1.0)))
    return Findings(lines, charts)


def update_measures(one: Reproducible, setting: Setting) -> Findings:
    """EDC against MADC of all pairs of first updates, and their correlation."""
    lines, charts = [], list[Chart]()
    for cell in setting.request.cells(one):
        deltas, m = _first_updates(_config(cell.settings, setting.request.seeds_of(one)[0]))
        above = np.triu_indices(len(deltas), 1)
        x, y = madc(deltas)[above], edc(deltas, m)[above]
        lines.append(line(cell, float(np.corrcoef(x, y)[0, 1]), 3, "Pearson's r"))
        step = max(1, len(x) // PAIRS_SHOWN)
        points = [Point(name="", x=float(a), y=float(b)) for a, b in zip(x[::step], y[::step], strict=True)]
        title = f"{one.entry.title}: {cell.column}"
        charts.append(Scatter(title=title, points=tuple(points), x_label="MADC", y_label="EDC"))
    return Findings(lines, charts)


def _first_updates(config: Config) -> tuple[Floats, int]:
    """Let FedGroup's clients train for its cold start; return their updates, (clients, parameters), and m."""
    from coterie.algorithms.fedgroup import FedGroup
    from coterie.client import MemoryStore
    from coterie.run.building import completed, load_data, make_spec, make_trainer, session
    from coterie.run.progress import Progress
    from coterie.training.torch_trainer import one_thread

    data = load_data(config)
    config = completed(config, data)
    trainer = make_trainer(config, make_spec(config, data), Progress())
    with one_thread(), session(config, data, MemoryStore(), trainer) as run:
        method = run.algorithm
        assert isinstance(method, FedGroup)
        method.start, m = run.fed.initial(), config.grouping.groups or 3
        drawn = stream(config.run.seed, "cold start", 0).permutation(len(run.fed.trainable))[: method.alpha_pre * m]
        models = method.pretrain(run.fed, sorted(run.fed.trainable[i] for i in drawn))
        start = np.concatenate([array.ravel() for array in method.start.values()])
        flat = [np.concatenate([array.ravel() for array in model.values()]) - start for model in models.values()]
    return np.stack([delta for delta in flat if delta.any()]).astype(np.float64), m


def layers(one: Reproducible, setting: Setting) -> Findings:
    """How alike the clients' models are, layer by layer, after runs."""
    from coterie.studies.layers import study

    cells = setting.request.cells(one)
    results, failed = make_runs(one, cells, setting)
    lines, series = [], []
    for cell in cells:
        runs = [run.folder for run in results[key_of(cell)] if run.folder is not None]
        found = study(runs).runs if runs else []
        means = [float(np.mean(run.means("cka"))) for run in found]
        few = failed.get(key_of(cell), {})
        made = replace(line(cell, spread(means), 3, "CKA"), asked=len(setting.request.seeds_of(one)))
        lines.append(replace(made, why="failed" if few and not means else ""))
        if found:
            first = found[0]
            series.append(
                Series(name=cell.column, x=values(range(1, len(first.layers) + 1)), y=values(first.means("cka")))
            )
    chart = Lines(title=one.entry.title, x_label="layer", y_label="CKA, mean over pairs", series=tuple(series))
    folders = dict.fromkeys(str(run.folder) for runs in results.values() for run in runs)
    return Findings(lines, [chart] if series else [], failed=told_failures(cells, failed), runs=list(folders))


# -------------------------------------------------------------------------------------------------------- helpers


def _config(tables: Mapping[str, Any], seed: int) -> Config:
    config = make_config(tables)
    config.run.seed = seed
    return config


def _groups(tables: Mapping[str, Any], seed: int) -> ClusterResult:
    from coterie.run.cluster import form_groups

    return form_groups(_config(tables, seed))


def _proximity(groups: ClusterResult) -> Floats:
    """Return the distances by which clients were grouped."""
    if groups.grouping.proximity is None:
        raise CoterieError("these groups were not formed by distances between clients")
    return groups.grouping.proximity


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


def _heat_map(
    title: str,
    names: Sequence[str],
    matrix: Floats,
    unit: str,
    groups: npt.NDArray[np.int64] | None = None,
    limits: tuple[float, float] | None = None,
) -> HeatMap:
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


def _map(title: str, names: Sequence[str], distances: Floats, groups: npt.NDArray[np.int64]) -> Scatter:
    places = classical_mds(distances)
    points = [
        Point(name=str(name), x=float(x), y=float(y), group=int(group))
        for name, (x, y), group in zip(names, places, groups, strict=True)
    ]
    named = tuple(f"group {group}" for group in range(int(groups.max()) + 1))
    return Scatter(title=f"{title}, map of the angles", points=tuple(points), groups=named, map=True)


KINDS: dict[str, Callable[[Reproducible, Setting], Findings]] = {
    "proximity": proximity,
    "super-clusters": super_clusters,
    "gaussians": gaussians,
    "client-distances": client_distances,
    "costs": costs,
    "sizes": sizes,
    "flops": flops,
    "pacing": pacing,
    "clustering-error": agreement_error,
    "agreement": agreement,
    "update-measures": update_measures,
    "layers": layers,
    "coreset": coreset,
    "graph-labels": graph_labels,
    "graph-distances": graph_distances,
}
WIDE = ("proximity", "gaussians", "client-distances", "costs", "sizes", "flops")
"""Kinds that are shown as printed."""
