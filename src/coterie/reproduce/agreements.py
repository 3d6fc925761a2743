"""How far models and updates of clients agree, after little training or after whole runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from coterie.clustering import clustering_error
from coterie.clustering.rows import row_groups
from coterie.errors import CoterieError
from coterie.reproduce.catalogue import Reproducible
from coterie.reproduce.findings import Findings, ReproductionSession, beside_published, heat_map
from coterie.reproduce.trained import describe_failures, key_of, make_runs
from coterie.results.charts import Chart, Lines, Point, Scatter, Series, values
from coterie.results.reproductions import NumberPair
from coterie.results.statistics import Spread, spread
from coterie.run.config import Config
from coterie.run.validation import make_config
from coterie.similarity import edc, madc
from coterie.streams import stream
from coterie.training import one_thread

if TYPE_CHECKING:
    from coterie.run.cluster import ClusterResult

Floats = npt.NDArray[np.float64]
SHOWN = 20
"""Clients whose agreement is shown (dissertation, Fig. 3.8)."""
COHORT = 10
"""Clients of a round, among which FLIS counts wrong pairs."""
PAIRS_SHOWN = 600
"""Points of a scatter; more would hide each other."""


def agreement_error(item: Reproducible, session: ReproductionSession) -> Findings:
    """FLIS's clustering error against its threshold, and the threshold where it is smallest."""
    thresholds = np.round(np.arange(0, 1.01, 0.05), 2)
    lines, charts = [], list[Chart]()
    for cell in session.request.cells(item):
        groups = groups_of(cell.settings, session.request.seeds_of(item)[0])
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
    tried = [(alpha, epochs, "reserved") for alpha in options["alphas"] for epochs in options["epochs"]]
    last = options["epochs"][-1]
    tried += [(alpha, last, where) for alpha in options["alphas"] for where in options["server_data"]]
    for cell in session.request.cells(item):
        for alpha, epochs, where in dict.fromkeys(tried):
            tables = {section: dict(table) for section, table in cell.settings.items()}
            tables["partition"] = {"name": "dirichlet", "alpha": alpha}
            tables["training"] = {**tables["training"], "epochs": epochs}
            tables["algorithm"] = {"name": "flis-hc", "server_data": where}
            groups = groups_of(tables, seed)
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
        x, y = madc(deltas)[above], edc(deltas, m)[above]
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
    from coterie.run.building import completed, load_data, make_spec, make_trainer, session
    from coterie.run.progress import Progress

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


def layers(item: Reproducible, session: ReproductionSession) -> Findings:
    """How alike the clients' models are, layer by layer, after runs."""
    from coterie.studies.layers import study

    cells = session.request.cells(item)
    results, failed = make_runs(item, cells, session)
    lines, series = [], []
    for cell in cells:
        runs = [run.folder for run in results[key_of(cell)] if run.folder is not None]
        comparisons = study(runs).runs if runs else []
        means = [float(np.mean(run.means("cka"))) for run in comparisons]
        few = failed.get(key_of(cell), {})
        made = replace(beside_published(cell, spread(means), 3, "CKA"), asked=len(session.request.seeds_of(item)))
        lines.append(replace(made, why="failed" if few and not means else ""))
        if comparisons:
            first = comparisons[0]
            series.append(
                Series(name=cell.column, x=values(range(1, len(first.layers) + 1)), y=values(first.means("cka")))
            )
    chart = Lines(title=item.entry.title, x_label="layer", y_label="CKA, mean over pairs", series=tuple(series))
    folders = dict.fromkeys(str(run.folder) for runs in results.values() for run in runs)
    return Findings(lines, [chart] if series else [], failed=describe_failures(cells, failed), runs=list(folders))


def seeded_config(tables: Mapping[str, Any], seed: int) -> Config:
    """Return the configuration of settings, with a seed."""
    config = make_config(tables)
    config.run.seed = seed
    return config


def groups_of(tables: Mapping[str, Any], seed: int) -> ClusterResult:
    """Form the groups of a method, without training them."""
    from coterie.run.cluster import form_groups

    return form_groups(seeded_config(tables, seed))


def proximity_of(groups: ClusterResult) -> Floats:
    """Return the distances by which clients were grouped."""
    if groups.grouping.proximity is None:
        raise CoterieError("these groups were not formed by distances between clients")
    return groups.grouping.proximity
