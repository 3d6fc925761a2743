"""How heterogeneous is a federation? Measures between clients, what they come to, and what to do about it.

Angles and labels come from what clients may send (singular vectors, counts), by the same questions that methods ask;
they serve a real federation too. The other measures look at clients' samples, which only a simulation can do.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, cast

import numpy as np
import numpy.typing as npt

from coterie import data as sources
from coterie.data import FederatedData
from coterie.data.federated import Index, Samples
from coterie.data.super_clusters import SuperClusters, class_angles, super_clusters
from coterie.errors import CoterieError, suggestion
from coterie.files import write_whole
from coterie.inspect.advice import Advice, advise
from coterie.inspect.labels import Vectors
from coterie.messages import ClassCounts, ClassCountsReply, Signature, SignatureReply
from coterie.run.building import Session, load_data
from coterie.run.cluster import ClusterResult, check_method, grouped
from coterie.run.config import Config
from coterie.run.progress import Progress
from coterie.run.summary import choice_text
from coterie.run.validation import check_names
from coterie.run.values import parse_choice, split_list
from coterie.similarity import (
    Measure,
    SampleMeasure,
    label_total_variation,
    pairwise,
    principal_angles,
    reduced,
)

Floats = npt.NDArray[np.float64]

P = 3
"""Singular vectors of a signature."""
GLANCE = 500
"""Samples of each class that the map of classes is made from, unless all of them are looked at."""


@dataclass(frozen=True)
class About:
    """What a measure is."""

    name: str
    title: str
    unit: str
    needs: Literal["vectors", "vectors per label", "label counts", "samples"]
    """What it is made from; all but samples may leave a client."""
    says: str
    similarity: bool = False
    """True: larger is more alike."""

    @property
    def sent(self) -> bool:
        """Whether clients may send what it needs: it then serves a real federation too."""
        return self.needs != "samples"

    def to_json(self) -> dict[str, Any]:
        """Return plain values."""
        return {
            "title": self.title,
            "unit": self.unit,
            "similarity": self.similarity,
            "needs": self.needs,
            "real_federation": self.sent,
            "says": self.says,
        }


MEASURES: dict[str, About] = {
    about.name: about
    for about in (
        About("angles", "smallest principal angle", "degrees", "vectors",
              "do the samples of two clients span a common direction (Eq. 5.1, theta1 of whole clients)"),
        About("sum_angles", "sum of the principal angles", "degrees", "vectors",
              "do they span the same space (Eq. 5.2, of whole clients)"),
        About("min_abs", "smallest angle between vectors of labels", "degrees", "vectors per label",
              "is there a pair of labels, one of each client, that look alike"),
        About("min_entry", "smallest signed angle between vectors of labels", "degrees", "vectors per label",
              "the same with signs, as the released PACFL has it"),
        About("trace", "sum of angles of corresponding vectors", "degrees", "vectors per label",
              "do the vectors of labels agree in their order (Eq. 3 of PACFL)"),
        About("labels", "total variation of labels", "share", "label counts",
              "which share of the labels would have to change for two clients to have the same mixture"),
        About("emd", "earth mover's distance (sliced)", "shades, 0 to 1", "samples",
              "how far samples would have to move (mean over 64 directions of 32 principal components)"),
        About("emd_pixel", "earth mover's distance of mean images", "shades, 0 to 1", "samples",
              "do the mean images have the same shades, wherever they are"),
        About("mmd", "maximum mean discrepancy", "", "samples",
              "do samples lie in the same regions (Gaussian kernel, median bandwidth)"),
        About("bhattacharyya", "Bhattacharyya distance", "", "samples",
              "do two Gaussians with the clients' means and covariances overlap"),
        About("kl", "Kullback-Leibler divergence", "nats", "samples",
              "how badly the Gaussian of one client describes another; not symmetric"),
        About("kl_symmetric", "symmetrised Kullback-Leibler divergence", "nats", "samples",
              "the mean of both directions"),
        About("cka", "CKA of second moments", "", "samples",
              "do features vary together in the same way: 1 is the same up to scale", similarity=True),
    )
}  # fmt: skip
DEFAULT = ("angles", "sum_angles", "labels")
"""What is measured unless told otherwise: all that clients may send anyway."""


@dataclass(frozen=True)
class Measured:
    """One measure between all pairs of clients."""

    about: About
    matrix: Floats

    @property
    def values(self) -> Floats:
        """Those of the pairs; of a measure that is not symmetric, in both directions."""
        n = len(self.matrix)
        apart = ~np.eye(n, dtype=bool) if self.about.name == "kl" else np.triu(np.ones((n, n), bool), 1)
        return self.matrix[apart]

    def to_json(self, matrix: bool = True) -> dict[str, Any]:
        """Return mean and spread over pairs, what the measure is, and perhaps its matrix."""
        quartiles = np.quantile(self.values, [0.25, 0.5, 0.75]).tolist()
        return {
            "mean": float(self.values.mean()),
            "sd": float(self.values.std()),
            "min": float(self.values.min()),
            "quartiles": quartiles,
            "max": float(self.values.max()),
            **self.about.to_json(),
            **({"matrix": self.matrix.tolist()} if matrix else {}),
        }


@dataclass(frozen=True)
class View:
    """A federation as it was measured."""

    partition: str
    groups: ClusterResult
    counts: npt.NDArray[np.int64]
    """Training samples by client and class, as the clients counted them, (clients, classes)."""
    measures: dict[str, Measured]
    vectors: list[Vectors]
    """The main direction of each label, by client."""

    @property
    def clients(self) -> list[int]:
        """Who was measured, in the order of all matrices."""
        return self.groups.clients

    @property
    def order(self) -> list[int]:
        """Positions in that order, so that groups stand together: as in the tree of merges where there is one."""
        from coterie.results.charts import leaf_order

        grouping = self.groups.grouping
        if len(grouping.tree) == len(grouping.labels) - 1:
            return leaf_order(grouping.tree)
        return [int(i) for i in np.argsort(grouping.labels, kind="stable")]


@dataclass(frozen=True)
class Classes:
    """The classes of a data set: on a map, and if asked for their angles and super clusters."""

    labels: Index
    places: Floats
    used: str
    """Which samples this was made from, in words."""
    found: SuperClusters | None

    def to_json(self) -> dict[str, Any]:
        """Return plain values."""
        plain: dict[str, Any] = {"labels": self.labels.tolist(), "map": self.places.tolist(), "used": self.used}
        if self.found is None:
            return plain
        return plain | {
            "angles": self.found.angles.tolist(),
            "super_clusters": self.found.sets,
            "reason": self.found.grouping.reason,
        }


@dataclass(frozen=True)
class Inspection:
    """What there is to know of a federation before training."""

    title: str
    view: View
    against: list[View]
    advice: Advice
    places: Floats
    """Where clients stand on a map by the angles, (clients, 2)."""
    drawn_by: str
    """How the maps were made."""
    classes: Classes | None
    """None where there is one class only."""

    def to_json(self) -> dict[str, Any]:
        """Return what ``coterie inspect --json`` prints."""
        view = self.view
        found: dict[str, Any] = {
            "title": self.title,
            "partition": view.partition,
            "clients": view.clients,
            "labels": view.counts.tolist(),
            "measures": {name: measured.to_json() for name, measured in view.measures.items()},
            "grouping": view.groups.to_json(),
            "order": view.order,
            "against": {
                other.partition: {
                    "measures": {name: measured.to_json() for name, measured in other.measures.items()},
                    "clients": other.clients,
                    "grouping": other.groups.to_json(),
                    "order": other.order,
                }
                for other in self.against
            },
            "advice": self.advice.to_json(),
            "map": self.places.tolist(),
            "map_by": self.drawn_by,
        }
        return found | {"classes": None if self.classes is None else self.classes.to_json()}

    def report(self) -> str:
        """Return the numbers and the advice for the terminal."""
        from coterie.report.inspection import inspection_text

        return inspection_text(self.to_json(), self.view.groups.report())

    def save(self, folder: Path) -> list[Path]:
        """Write the page, the pictures and the numbers into a folder."""
        from coterie.report.inspection import write_inspection

        folder.mkdir(parents=True, exist_ok=True)
        numbers = folder / "inspection.json"
        write_whole(numbers, (json.dumps(self.to_json()) + "\n").encode())
        return [numbers, *write_inspection(self.to_json(), self.view.groups.grouping, folder)]


def inspect(
    config: Config,
    *,
    measures: str | None = None,
    against: str | None = None,
    per_class: bool = False,
    super_clusters: int | None = None,
    progress: Progress | None = None,
) -> Inspection:
    """Measure a federation, and others of the same data to compare with; say what to do about it."""
    progress = progress or Progress()
    if super_clusters is not None and super_clusters < 1:
        raise CoterieError(f"--super-clusters {super_clusters} should be at least 1")
    wanted = read_measures(measures)
    others = read_partitions(config, against)
    check_method(config)
    progress.phase(f"reading {config.data.name}")
    data = load_data(config)
    view = _view(config, data, wanted, progress)
    compared = []
    for other in others:
        progress.phase(f"dividing {config.data.name} by {other.partition.name}")
        compared.append(_view(other, load_data(other), wanted, progress))
    progress.phase("drawing the maps")
    apart = view.groups.grouping.proximity
    places, how = on_a_map(label_total_variation(view.counts) if apart is None else apart, config.run.seed)
    return Inspection(
        title=f"{config.data.name}, {data.clients} clients, seed {config.run.seed}",
        view=view,
        against=compared,
        advice=advise(view.groups.grouping, view.counts, view.vectors),
        places=places,
        drawn_by=how,
        classes=_classes(data, per_class or super_clusters is not None, super_clusters, config.run.seed),
    )


def read_measures(text: str | None) -> list[str]:
    """Read names of measures with commas between them.

    >>> read_measures("angles, emd-pixel")
    ['angles', 'emd_pixel']
    """
    if text is None:
        return list(DEFAULT)
    names = [piece.strip().replace("-", "_") for piece in text.split(",")]
    names = ["angles" if name == "theta1" else name for name in names if name]
    if not names:
        raise CoterieError(f"--measures names none: write some of {', '.join(MEASURES)}")
    for name in names:
        if name not in MEASURES:
            raise CoterieError(f"unknown measure '{name}': {suggestion(name, MEASURES)}")
    return list(dict.fromkeys(names))


def read_partitions(config: Config, text: str | None) -> list[Config]:
    """Return the configuration with each of the partitions named, with commas between them."""
    if text is None:
        return []
    if config.data.name in sources.DATASETS and sources.traits(config.data.name).divided:
        raise CoterieError(
            f"data set '{config.data.name}' comes divided among clients, so that there is no other partition of it: "
            "leave out --against"
        )
    if not text.strip(" ,"):
        raise CoterieError("--against names no partition: write for instance --against iid,label-skew:rho=0.2")
    made = []
    for partition in split_list(text):
        tables = config.model_dump()
        tables["partition"] = parse_choice(partition)
        try:
            made.append(check_names(Config.model_validate(tables)))
        except CoterieError as error:
            raise CoterieError(str(error).replace("(in [partition])", "(in --against)")) from None
    return made


def _view(config: Config, data: FederatedData, wanted: Sequence[str], progress: Progress) -> View:
    """Group and measure the clients of one federation."""
    if data.clients < 2:
        raise CoterieError("there is one client: nothing to compare it with; use --clients 2 or more")
    with grouped(config, data, progress) as (run, groups):
        if len(groups.clients) < 2:
            raise CoterieError("fewer than two clients described themselves: there is nothing to compare")
        progress.phase(f"measuring {', '.join(wanted)}")
        counts, signed = _asked(run, groups.clients, wanted)
    samples = _Samples([data.train.x[data.train_parts[client]] for client in groups.clients], config.run.seed)
    measured = {}
    for name in wanted:
        about = MEASURES[name]
        if about.needs == "label counts":
            matrix = label_total_variation(counts)
        elif about.needs == "samples":
            matrix = samples.measured(cast(SampleMeasure, name))
        else:
            kind: Measure = "theta1" if name == "angles" else cast(Measure, name)
            matrix = principal_angles([each.vectors for each in signed[about.needs]], measure=kind)
        measured[name] = Measured(about, matrix)
    partition = choice_text(config.partition.name, config.partition.described) or config.data.name
    return View(partition, groups, counts, measured, [_main(each) for each in signed["vectors per label"]])


class _Samples:
    """Clients' samples, as simulations see them, reduced to their principal components once for all measures."""

    def __init__(self, parts: list[npt.NDArray[Any]], seed: int) -> None:
        self.parts, self.seed = parts, seed
        self.small: list[Floats] | None = None

    def measured(self, name: SampleMeasure) -> Floats:
        """Return a measure between all pairs."""
        if name in ("cka", "emd_pixel"):  # which look at all features
            return pairwise(name, self.parts)
        if self.small is None:
            self.small = reduced(self.parts)
        return pairwise(name, self.small, components=None, seed=self.seed)


def _main(signed: SignatureReply) -> Vectors:
    """Return the first vector of each label."""
    labels, first = np.unique(signed.labels, return_index=True)
    return Vectors(labels, np.asarray(signed.vectors[:, first].T, np.float64))


def _asked(
    run: Session, clients: Sequence[int], wanted: Sequence[str]
) -> tuple[npt.NDArray[np.int64], dict[str, list[SignatureReply]]]:
    """Ask clients for what they may send: counts of labels, vectors of labels, and of all samples where needed."""
    needs = {MEASURES[name].needs for name in wanted}
    verbs = {"vectors per label": Signature(P if "vectors per label" in needs else 1, per_label=True)}
    if "vectors" in needs:
        verbs["vectors"] = Signature(P)
    replies = run.fed.ask(dict.fromkeys(clients, run.fed.request(ClassCounts(), *verbs.values())))
    if len(replies) < len(clients):
        raise CoterieError("a client that had described itself fell silent: inspect without playing faults")
    counts = np.stack([np.asarray(replies[client].answer(ClassCountsReply).counts) for client in clients])
    return counts, {need: [replies[c].answer(SignatureReply, k) for c in clients] for k, need in enumerate(verbs)}


def on_a_map(proximity: Floats, seed: int) -> tuple[Floats, str]:
    """Return places in the plane that keep distances where they can, (n, 2), and how they were found.

    UMAP if it is installed and there are enough things to place, else classical multidimensional scaling.
    """
    from coterie.results.charts import classical_mds

    scaling = "classical multidimensional scaling of the proximities"
    if len(proximity) < 8:  # UMAP's neighbourhoods need some neighbours
        return classical_mds(proximity), scaling
    try:
        from umap import UMAP  # type: ignore[import-not-found]
    except ImportError:
        return classical_mds(proximity), scaling
    neighbours = min(15, len(proximity) - 1)
    made = UMAP(metric="precomputed", n_neighbors=neighbours, random_state=seed).fit_transform(proximity)
    return np.asarray(made, np.float64), "UMAP of the proximities"


def _classes(data: FederatedData, in_full: bool, count: int | None, seed: int) -> Classes | None:
    """Look at classes: in full with all samples and super clusters, else with some samples for the map alone."""
    x, y = data.train.x, data.train.y
    if len(np.unique(y)) < 2:
        return None
    if in_full:
        found = super_clusters(Samples(x, y), groups=count)
        return Classes(found.labels, on_a_map(found.angles, seed)[0], "all training samples", found)
    chosen = np.concatenate([np.flatnonzero(y == label)[:GLANCE] for label in np.unique(y)])
    labels, angles = class_angles(Samples(x[chosen], y[chosen]))
    return Classes(labels, on_a_map(angles, seed)[0], f"up to {GLANCE} training samples of each class", None)
