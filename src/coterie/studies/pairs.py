"""Does federation help client 1 when client 2 holds these labels? The pair study of the dissertation (5.3.4)."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from coterie import data as sources
from coterie.data import FederatedData
from coterie.data.partitions.label_skew import check_labels
from coterie.errors import CoterieError, counted
from coterie.files import new_files, write_whole
from coterie.results.protocols import EACH_CLIENT
from coterie.run.building import load_data
from coterie.run.config import Config
from coterie.run.progress import Progress
from coterie.run.runner import start
from coterie.run.validation import check_names
from coterie.run.values import split_names
from coterie.similarity import principal_angles, signature

NUMBERS, TABLE = "pairs.json", "pairs.csv"
SAMPLES = 500
"""Per client by default: what a client of 100 has of CIFAR-10."""
DEFAULTS: dict[str, dict[str, Any]] = {
    "training": {"rounds": 20, "fraction": 1.0},
    "evaluation": {"every": 0},
}
"""Where the study differs from other runs."""
SURE = 0.95
"""A gain counts whose confidence interval of this level (Student's t over the seeds) leaves out 0."""

Labels = tuple[int, ...]


@dataclass(frozen=True)
class SeedValues:
    """A number of each seed, with mean and standard deviation (0 for one seed)."""

    mean: float
    sd: float
    values: tuple[float, ...]

    @classmethod
    def of(cls, values: Sequence[float]) -> SeedValues:
        """Of these values."""
        sd = float(np.std(values, ddof=1)) if len(values) > 1 else 0.0
        return cls(float(np.mean(values)), sd, tuple(map(float, values)))


@dataclass(frozen=True)
class PairRow:
    """What client 1 gains from a federation with a client 2 that holds these labels."""

    labels: Labels
    shared: int
    """How many of client 1's labels client 2 has too."""
    angle: float
    """Degrees, the smallest between the spaces that the two clients' samples span; mean over seeds."""
    own: SeedValues
    """Accuracy of client 1's own model after its last local training (protocol L)."""
    received: SeedValues
    """Accuracy of the model that client 1 would receive (protocol C)."""
    gain: SeedValues
    """`own` minus that of training alone with the same samples, seed by seed."""
    verdict: str


@dataclass(frozen=True)
class PairStudy:
    """The study: client 1 alone, and beside every client 2."""

    title: str
    c1: Labels
    samples: int
    seeds: list[int]
    method: str
    solo: SeedValues
    rows: list[PairRow]

    def to_json(self) -> dict[str, Any]:
        """Return what ``coterie pairs --json`` prints."""
        return asdict(self)

    def csv_rows(self) -> tuple[list[str], list[list[Any]]]:
        """Return the heads and a row per client 2, the first for training alone; accuracies are fractions."""
        head = ["c1", "c2", "shared", "angle", "L", "L_sd", "C", "C_sd", "gain", "gain_sd", "verdict", "seeds"]
        c1, n = _name(self.c1), len(self.seeds)
        rows = [[c1, "", "", "", self.solo.mean, self.solo.sd, "", "", 0.0, 0.0, "alone", n]]
        for row in self.rows:
            numbers = [row.own.mean, row.own.sd, row.received.mean, row.received.sd, row.gain.mean, row.gain.sd]
            rows.append([c1, _name(row.labels), row.shared, row.angle, *numbers, row.verdict, n])
        return head, rows

    def report(self) -> str:
        """Return the study as a table for the terminal."""
        from coterie.report.studies import pairs_table

        return pairs_table(self.to_json())

    def save(self, folder: Path, overwrite: bool = False) -> list[Path]:
        """Write table, numbers and picture into a folder; other files there stay without `overwrite`."""
        from coterie.report.studies import draw_pairs
        from coterie.report.text_table import csv_text

        with new_files(folder, overwrite) as place:
            write_whole(place / NUMBERS, (json.dumps(self.to_json(), indent=1) + "\n").encode())
            write_whole(place / TABLE, csv_text(*self.csv_rows()).encode())
            written = draw_pairs(self.to_json(), place)
        return [folder / NUMBERS, folder / TABLE, *(folder / file.name for file in written)]


def study(
    config: Config,
    c1: str,
    c2: str,
    *,
    samples: int | None = None,
    seeds: int = 3,
    progress: Progress | None = None,
) -> PairStudy:
    """Train client 1 alone and with each client 2, for several seeds; all else is as the configuration says."""
    progress = progress or Progress()
    first, others = _label_set(c1, "--c1"), _label_sets(c2)
    _refuse(config, seeds)
    progress.phase(f"reading {config.data.title}")
    per_client = _samples(config, first, others, samples)
    seed_numbers = list(range(config.run.seed, config.run.seed + seeds))
    solo: list[float] = []
    beside: dict[Labels, list[tuple[float, float, float]]] = {other: [] for other in others}
    for seed in seed_numbers:
        progress.phase(f"seed {seed}: {_name(first)} alone")
        alone = start(_setting(config, "solo", [first], per_client, seed), write=False)
        solo.append(_accuracy(alone.per_client["L"][0]))
        for other in others:
            progress.phase(f"seed {seed}: {_name(first)} with {_name(other)}")
            paired = _setting(config, config.algorithm.name, [first, other], per_client, seed)
            angle, result = _angle(load_data(paired)), start(paired, write=False)
            trained, received = (_accuracy(result.per_client[protocol][0]) for protocol in EACH_CLIENT)
            beside[other].append((angle, trained, received))
    rows = []
    for other, measured in beside.items():
        angles, accuracies, of_received = zip(*measured, strict=True)
        gain = SeedValues.of([a - b for a, b in zip(accuracies, solo, strict=True)])
        numbers = float(np.mean(angles)), SeedValues.of(accuracies), SeedValues.of(of_received), gain
        rows.append(PairRow(other, len({*first} & {*other}), *numbers, verdict(gain.values)))
    training = config.training
    title = (
        f"{config.data.title}, {counted(per_client, 'sample')} per client, {counted(training.rounds, 'round')} of "
        f"{counted(training.epochs, 'epoch')}"
    )
    return PairStudy(title, first, per_client, seed_numbers, config.algorithm.name, SeedValues.of(solo), rows)


def verdict(gains: Sequence[float]) -> str:
    """Say what gains, one per seed, amount to: something where their 95 % confidence interval leaves out 0.

    >>> verdict([0.02, 0.03, 0.025]), verdict([-0.02, -0.03, -0.025]), verdict([0.02, -0.03, 0.0])
    ('helps', 'hurts', 'no clear difference')
    >>> verdict([0.02])
    'one seed tells nothing sure'
    """
    if len(gains) < 2:
        return "one seed tells nothing sure"
    from scipy.stats import t

    spread = SeedValues.of(gains)
    reach = float(t.ppf((1 + SURE) / 2, len(gains) - 1)) * spread.sd / math.sqrt(len(gains))
    if abs(spread.mean) <= reach:
        return "no clear difference"
    return "helps" if spread.mean > 0 else "hurts"


def _refuse(config: Config, seeds: int) -> None:
    """Refuse settings that the study makes itself."""
    if seeds < 1:
        raise CoterieError(f"--seeds {seeds} should be at least 1")
    if config.data.name in sources.DATASETS and sources.traits(config.data.name).divided:
        raise CoterieError(
            f"data set '{config.data.name}' comes divided among clients, so that labels can't be dealt out: use a "
            "pooled one"
        )
    if config.algorithm.name == "solo":
        raise CoterieError("the study compares a federation with training alone: name another method than solo")
    if config.evaluation.other_metric is not None:
        raise CoterieError("the study's verdicts are about accuracy: leave out --metric")
    if config.newcomers.share:
        raise CoterieError("the study has two clients from the beginning: leave out the newcomers")


def _setting(config: Config, method: str, sets: Sequence[Labels], samples: int, seed: int) -> Config:
    """Return the configuration of one run."""
    chosen = config.model_dump()
    chosen["data"]["clients"] = len(sets)
    text = "/".join("+".join(map(str, labels)) for labels in sets)
    chosen["partition"] = {"name": "given-labels", "labels": text, "samples": samples}
    if method != config.algorithm.name:
        chosen["algorithm"] = {"name": method}
        chosen.pop("grouping")
    chosen["run"] |= {"seed": seed, "out": None}
    return check_names(Config.model_validate(chosen))


def _samples(config: Config, first: Labels, others: Sequence[Labels], asked_for: int | None) -> int:
    """Return how many samples each client gets: as asked for, else 500, or fewer if the data set has fewer."""
    pooled = sources.load(config.data.name, config.data.options, ("iid", {}), 1, config.run.seed)
    y = pooled.train.y if pooled.common_test else np.concatenate([pooled.train.y, pooled.test.y])
    labels, counts = np.unique(y, return_counts=True)
    check_labels(sorted({*first, *(label for other in others for label in other)}), labels, config.data.name)
    if asked_for is not None:
        return asked_for
    most = SAMPLES
    for other in others:
        for label in {*first, *other}:
            load = sum(1 / len(held) for held in (first, other) if label in held)
            most = min(most, int((counts[labels == label][0] - 2) / load))
    least = max(len(held) for held in (first, *others))
    if most < least:
        raise CoterieError(f"data set '{config.data.name}' has too few samples of these labels for two clients")
    return most


def _angle(data: FederatedData) -> float:
    """Return the smallest angle between the spaces that the two clients' samples span."""
    raw = [data.train.x[part].reshape(len(part), -1) for part in data.train_parts]
    return float(principal_angles([signature(x, 3) for x in raw])[0, 1])


def _accuracy(value: float | None) -> float:
    if value is None:
        raise CoterieError("client 1 has no accuracy: it did not train, or has no test samples of its labels")
    return value


def _label_sets(text: str) -> list[Labels]:
    """Read what client 2 may hold: sets with semicolons between them."""
    sets = [_label_set(piece, "--c2") for piece in text.split(";")] if text.strip() else []
    if not sets:
        raise CoterieError('--c2 names no labels: write sets like --c2 "8,9;0,1"')
    for twice in _repeated(sets):
        raise CoterieError(f"--c2 names the labels {_name(twice)} twice: name them once")
    return sets


def _label_set(text: str, flag: str) -> Labels:
    """Read one set of labels, ascending."""
    pieces = split_names(text)
    if not pieces:
        raise CoterieError(f"{flag} has a set without labels: write labels like 8,9")
    try:
        labels = tuple(sorted(int(piece) for piece in pieces))
    except ValueError:
        raise CoterieError(f"{flag} {text.strip()} should be labels like 8,9") from None
    for label in _repeated(labels):
        raise CoterieError(f"{flag} {text.strip()} names label {label} twice: name it once")
    return labels


def _repeated(values: Sequence[Any]) -> Iterator[Any]:
    return (value for k, value in enumerate(values) if value in values[:k])


def _name(labels: Labels) -> str:
    return "+".join(map(str, labels))
