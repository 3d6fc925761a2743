"""How heterogeneous is a federation? Measures between clients, what they come to, and what to do about it.

Angles and labels come from what clients may send (singular vectors, counts), by the same questions that methods ask;
they serve a real federation too. The other measures look at clients' samples, which only a simulation can do.
"""

import json
import shlex
from collections.abc import Sequence, Set
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from coterie import data as sources
from coterie.arguments import checked
from coterie.data import FederatedData
from coterie.data.federated import Index, Samples
from coterie.data.super_clusters import SuperClusters, class_angles, super_clusters
from coterie.errors import CoterieError, counted, suggestion
from coterie.files import new_files, write_whole
from coterie.inspect.advice import Advice, advise, advise_privately
from coterie.messages import ClassCounts, ClassCountsReply, Moments, MomentsReply, Signature, SignatureReply
from coterie.privacy import mapped_shape
from coterie.registry import same_name
from coterie.results.charts import classical_mds, completed_distances, values
from coterie.run.building import Session, load_data
from coterie.run.cluster import ClusterResult, check_forms_groups, grouped
from coterie.run.config import Config, keys
from coterie.run.privacy import privacy_of
from coterie.run.progress import Progress
from coterie.run.summary import choice_text
from coterie.run.validation import check_names
from coterie.run.values import parse_choice, split_list
from coterie.similarity import MEASURES, ClassMoments, Measure, label_total_variation, reduced
from coterie.similarity.measures import SIGNATURES

Floats = npt.NDArray[np.float64]

P = 3
"""Singular vectors of a signature."""
GLANCE = 500
"""Samples of each class that the map of classes is made from, unless all of them are looked at."""

NUMBERS = "inspection.json"
DEFAULT = "angles,sum_angles,labels"
"""What is measured by default: from what clients may send anyway."""
SHOWN_AS = {"theta1": "angles"}
"""Names of measures that inspections have always shown differently."""
Chosen = dict[str, tuple[Measure, dict[str, Any]]]
"""Measures with the options that were given for them, by the names under which they are shown."""


@dataclass(frozen=True)
class Measured:
    """One measure between all pairs of clients."""

    measure: Measure
    matrix: Floats

    @property
    def values(self) -> Floats:
        """Those of the pairs that can be compared; of a measure that is not symmetric, in both directions."""
        n = len(self.matrix)
        apart = np.triu(np.ones((n, n), bool), 1) if self.measure.symmetric else ~np.eye(n, dtype=bool)
        return self.matrix[apart & ~np.isnan(self.matrix)]

    def to_json(self) -> dict[str, Any]:
        """Return mean and spread over pairs, what the measure is, and its matrix."""
        compared = self.values
        return {
            "mean": float(compared.mean()),
            "sd": float(compared.std()),
            "min": float(compared.min()),
            "quartiles": np.quantile(compared, [0.25, 0.5, 0.75]).tolist(),
            "max": float(compared.max()),
            **self.measure.to_json(),
            "matrix": [list(values(row)) for row in self.matrix],
        }


@dataclass(frozen=True)
class View:
    """A federation as it was measured."""

    partition: str
    groups: ClusterResult
    """Of the clients that were measured; all matrices are in the order of its `clients`."""
    counts: npt.NDArray[np.int64]
    """Training samples by client and class, as the clients counted them, (clients, classes)."""
    measures: dict[str, Measured]
    moments: list[ClassMoments]
    """What labels look like, by client."""

    @property
    def order(self) -> list[int]:
        """Positions of clients so that groups stand together: as in the tree of merges where there is one."""
        from scipy.cluster.hierarchy import leaves_list

        grouping = self.groups.grouping
        if len(grouping.tree) == len(grouping.labels) - 1:
            return [int(leaf) for leaf in leaves_list(grouping.tree)]
        return [int(i) for i in np.argsort(grouping.labels, kind="stable")]

    def to_json(self) -> dict[str, Any]:
        """Return plain values."""
        return {
            "measures": {name: measured.to_json() for name, measured in self.measures.items()},
            "clients": self.groups.clients,
            "grouping": self.groups.to_json(),
            "order": self.order,
        }


@dataclass(frozen=True)
class Classes:
    """The classes of a data set: on a map, and if asked for their angles and super clusters."""

    labels: Index
    places: Floats
    used: str
    """Which samples this was made from, in words."""
    super_clusters: SuperClusters | None

    def to_json(self) -> dict[str, Any]:
        """Return plain values."""
        plain: dict[str, Any] = {"labels": self.labels.tolist(), "map": self.places.tolist(), "used": self.used}
        if self.super_clusters is None:
            return plain
        return plain | {
            "angles": self.super_clusters.angles.tolist(),
            "super_clusters": self.super_clusters.sets,
            "reason": self.super_clusters.grouping.reason,
        }


@dataclass(frozen=True)
class Inspection:
    """What there is to know of a federation before training."""

    title: str
    method: str
    """That formed the groups of views."""
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
        return {
            "title": self.title,
            "method": self.method,
            "partition": self.view.partition,
            "labels": self.view.counts.tolist(),
            **self.view.to_json(),
            "against": {other.partition: other.to_json() for other in self.against},
            "advice": asdict(self.advice),
            "map": self.places.tolist(),
            "map_by": self.drawn_by,
            "classes": None if self.classes is None else self.classes.to_json(),
        }

    def report(self) -> str:
        """Return the numbers and the advice for the terminal."""
        from coterie.report.inspection import inspection_text

        return inspection_text(self.to_json(), self.view.groups.report())

    @checked
    def save(self, folder: str | Path, overwrite: bool = False) -> list[Path]:
        """Write the page, the pictures and the numbers into a folder; other files there stay without `overwrite`."""
        from coterie.report.inspection import write_inspection

        folder = Path(folder)
        with new_files(folder, overwrite) as place:
            write_whole(place / NUMBERS, (json.dumps(self.to_json()) + "\n").encode())
            written = write_inspection(self.to_json(), self.view.groups.grouping, place)
        return [folder / NUMBERS, *(folder / file.name for file in written)]


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
    if config.evaluation.predicts_numbers:
        raise CoterieError(
            "coterie inspect compares clients by labels, which regression does not have: coterie "
            "cluster groups them by their inputs"
        )
    chosen, others, private = read_measures(measures), read_partitions(config, against), config.privacy.signature
    if private and (bare := [name for name, (m, _) in chosen.items() if m.needs in ("samples", "moments")]):
        raise CoterieError(
            f"measure '{bare[0]}' has no private form, since it is made from {chosen[bare[0]][0].needs}: leave it out, "
            "or dp_signature"
        )
    check_forms_groups(config)
    progress.phase(f"reading {config.data.title}")
    data = load_data(config)
    view = _view(config, data, chosen, progress)
    compared = []
    for other in others:
        progress.phase(f"dividing {config.data.title} by {other.partition.name}")
        compared.append(_view(other, load_data(other), chosen, progress))
    progress.phase("drawing the maps")
    proximity = view.groups.grouping.proximity
    places, how = on_a_map(label_total_variation(view.counts) if proximity is None else proximity, config.run.seed)
    return Inspection(
        title=f"{config.data.title}, {counted(data.clients, 'client')}, seed {config.run.seed}",
        method=config.algorithm.name,
        view=view,
        against=compared,
        advice=advise(view.counts, view.moments, data_flags(config))
        if private is None
        else advise_privately(view.groups.grouping, private, data_flags(config)),
        places=places,
        drawn_by=how,
        classes=None
        if private  # it would show samples
        else _classes(data, per_class or super_clusters is not None, super_clusters, config.run.seed),
    )


def read_measures(text: str | None) -> Chosen:
    """Read names of measures, perhaps with options, with commas between them; return them as they are shown.

    >>> list(read_measures("theta1, emd-pixel, mmd:bandwidth=2"))
    ['angles', 'emd_pixel', 'mmd:bandwidth=2']
    """
    text = DEFAULT if text is None else text
    names = {shown: name for name, shown in SHOWN_AS.items()} | {name: name for name in MEASURES}
    if not text.strip(" ,"):
        raise CoterieError(f"--measures names none: write some of {', '.join(sorted(names))}")
    chosen: Chosen = {}
    for piece in split_list(text.strip(" ,")):
        options = parse_choice(piece)
        name = same_name(options.pop("name"), names)
        name = name if name in names else same_name(name.replace("-", "_"), names)
        if name not in names:
            raise CoterieError(f"unknown measure '{name}': {suggestion(name, names)}")
        name = names[name]
        MEASURES.validate(name, options)
        chosen[piece if options else SHOWN_AS.get(name, name)] = MEASURES[name], options
    return chosen


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
    configs = []
    for partition in split_list(text):
        tables = config.model_dump()
        tables["partition"] = parse_choice(partition)
        try:
            configs.append(check_names(Config.model_validate(tables)))
        except CoterieError as error:
            raise CoterieError(str(error).replace("(in [partition])", "(in --against)")) from None
    return configs


def _view(config: Config, data: FederatedData, chosen: Chosen, progress: Progress) -> View:
    """Group and measure the clients of one federation."""
    if data.clients < 2:
        raise CoterieError("there is one client: nothing to compare it with; use --clients 2 or more")
    with grouped(config, data, progress) as (run, groups):
        if len(groups.clients) < 2:
            raise CoterieError("fewer than two clients described themselves: there is nothing to compare")
        progress.phase(f"measuring {', '.join(chosen)}")
        counts, inputs = _asked(run, groups.clients, {measure.needs for measure, _ in chosen.values()})
        groups = replace(groups, privacy=privacy_of(run.config, run.fed, run.algorithm, simulated=True))
    samples = [data.train.x[data.train_parts[client]] for client in groups.clients]
    small = reduced(samples) if any(measure.components for measure, _ in chosen.values()) else []
    measured = {}
    for name, (measure, options) in chosen.items():
        seed = {"seed": config.run.seed} if "seed" in MEASURES.options(measure.name) else {}
        clients = (small if measure.components else samples) if measure.needs == "samples" else inputs[measure.needs]
        measured[name] = Measured(measure, measure(clients, **{**seed, **options}))
        if not len(measured[name].values):
            raise CoterieError(
                f"measure '{name}' can compare no two clients: they have no labels in common; leave it out"
            )
    partition = choice_text(config.partition.name, config.partition.described) or config.data.name
    return View(partition, groups, counts, measured, inputs["moments"])


def _asked(run: Session, clients: Sequence[int], needs: Set[str]) -> tuple[npt.NDArray[np.int64], dict[str, Any]]:
    """Ask clients for what they may send: counts and moments of labels, and what else measures need, by their names."""
    fed, private = run.fed, run.fed.settings.dp_signature
    features = None if private is None else mapped_shape(fed.spec.shape)
    verbs = {
        need: Signature(P, per_label=need == "vectors per label", private=private, features=features)
        for need in SIGNATURES
        if need in needs
    }
    counting = (ClassCounts(private), *([] if private else [Moments()]))  # which have no private form
    replies = fed.ask(dict.fromkeys(clients, fed.request(*counting, *verbs.values())))
    if len(replies) < len(clients):
        raise CoterieError("a client that had described itself fell silent: inspect without playing faults")
    counts = np.stack([np.asarray(replies[client].answer(ClassCountsReply).counts) for client in clients])
    told = [] if private else [replies[client].answer(MomentsReply) for client in clients]
    inputs: dict[str, Any] = {
        need: [replies[client].answer(SignatureReply, k).vectors for client in clients] for k, need in enumerate(verbs)
    }
    inputs["moments"] = [ClassMoments(each.means, each.variances, each.counts) for each in told]
    return counts, inputs | {"label counts": counts}


def data_flags(config: Config) -> str:
    """Return the flags of ``coterie run`` that say which data these are, among which clients."""
    flags = []
    for key in keys():
        if key.section in ("data", "partition") or key.path in ("run.seed", "run.plugins"):
            section = getattr(config, key.section)
            value: Any = getattr(section, key.name)
            value = choice_text(value, section.options) if key.name == "name" else value
            if value != key.info.default or key.path == "data.name":
                flags += [word for each in (value if key.is_list else [value]) for word in (key.flag, str(each))]
    return shlex.join(flags)


def on_a_map(proximity: Floats, seed: int) -> tuple[Floats, str]:
    """Return places in the plane that keep distances where they can, (n, 2), and how they were found.

    UMAP if it is installed and there are enough things to place, else classical multidimensional scaling. What can't be
    compared is as far apart as the farthest that can.
    """
    proximity = completed_distances(proximity)
    try:
        from umap import UMAP  # type: ignore[import-not-found]
    except ImportError:
        UMAP = None
    if UMAP is None or len(proximity) < 8:  # UMAP's neighbourhoods need some neighbours
        return classical_mds(proximity), "classical multidimensional scaling of the proximities"
    neighbours = min(15, len(proximity) - 1)
    places = UMAP(metric="precomputed", n_neighbors=neighbours, random_state=seed).fit_transform(proximity)
    return np.asarray(places, np.float64), "UMAP of the proximities"


def _classes(data: FederatedData, in_full: bool, count: int | None, seed: int) -> Classes | None:
    """Look at classes: in full with all samples and super clusters, else with some samples for the map alone."""
    x, y = data.train.x, data.train.y
    if len(np.unique(y)) < 2:
        return None
    if in_full:
        supers = super_clusters(Samples(x, y), groups=count)
        return Classes(supers.labels, on_a_map(supers.angles, seed)[0], "all training samples", supers)
    chosen = np.concatenate([np.flatnonzero(y == label)[:GLANCE] for label in np.unique(y)])
    labels, angles = class_angles(Samples(x[chosen], y[chosen]))
    return Classes(labels, on_a_map(angles, seed)[0], f"up to {GLANCE} training samples of each class", None)
