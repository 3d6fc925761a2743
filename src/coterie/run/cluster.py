"""Forming groups without training."""

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

from coterie.algorithms import ALGORITHMS
from coterie.arguments import checked
from coterie.client import MemoryStore
from coterie.clustering import Grouping, adjusted_rand_index
from coterie.data import FederatedData
from coterie.errors import CoterieError, counted
from coterie.files import new_files
from coterie.results.names import NO_NAMES, Names
from coterie.results.privacy import privacy_text
from coterie.run.building import Session, completed, load_data, session
from coterie.run.config import Config
from coterie.run.privacy import privacy_of
from coterie.run.progress import Progress
from coterie.training import one_thread

if TYPE_CHECKING:
    from matplotlib.axes import Axes

DEFAULT = "pacfl"
"""The method that forms groups if none is named."""


@dataclass(frozen=True, repr=False)
class ClusterResult:
    """The groups that a method forms before training, and what is known about their clients."""

    grouping: Grouping
    clients: list[int]
    """Who was grouped; the order of the grouping."""
    true_groups: list[int] | None
    """Of the same clients."""
    counts: npt.NDArray[np.int64]
    """Training samples by client and class, known since this is a simulation, (clients, classes)."""
    up_bytes: int
    title: str
    missing: dict[int, str]
    """Clients that are in no group, and why."""
    uncompared: dict[int, int]
    """Clients with too few samples of each label to be compared, and the group that the method puts them into."""
    privacy: list[dict[str, Any]] | None = None
    """How private what they told is, as in ``result.json``."""
    names: Names = NO_NAMES
    """What clients and classes are called."""

    @property
    def ari(self) -> float | None:
        """Agreement with the true groups, where these are known."""
        labels, truth = self.grouping.labels.tolist(), self.true_groups
        return None if truth is None else adjusted_rand_index(labels, truth)

    def to_json(self) -> dict[str, Any]:
        """Return what ``coterie cluster --json`` prints; `groups` is a list by client, null for one in none.

        `true_groups` is null for clients that were not compared, too: `ari` is of the others.
        """
        return {
            "groups": self._by_client(self.grouping.labels.tolist(), self.uncompared),
            "n_groups": self.grouping.n_groups,
            **self.grouping.summary(),
            "heights": self.grouping.heights.tolist(),
            "true_groups": None if self.true_groups is None else self._by_client(self.true_groups),
            "ari": self.ari,
            **({} if self.privacy is None else {"privacy": self.privacy}),
            **self.names.to_json(),
        }

    def _by_client(self, values: list[int], others: Mapping[int, int] = MappingProxyType({})) -> list[int | None]:
        """Put what is in the order of the grouping in that of clients; None for one of which nothing is known."""
        by_client = {**others, **dict(zip(self.clients, values, strict=True))}
        last = max([*self.clients, *self.missing, *self.uncompared], default=-1)
        return [by_client.get(client) for client in range(last + 1)]

    def __repr__(self) -> str:
        many, ari = self.grouping.n_groups, "" if self.ari is None else f", ARI {self.ari:.2f}"
        return f"ClusterResult({self.title}: {many} group{'s' * (many != 1)} by rule '{self.grouping.rule}'{ari})"

    def _repr_html_(self) -> str:
        from coterie.report.groups import groups_html

        return groups_html(self.grouping, self.clients, self.counts, self.true_groups, self.title, self.names)

    @checked
    def plot(self, what: Literal["proximity", "dendrogram"] = "proximity", ax: "Axes | None" = None) -> "Axes":
        """Draw with matplotlib how far clients are apart, or the tree by which they were merged.

        Args:
            what: ``"proximity"`` or ``"dendrogram"``.
            ax: The axes to draw on; by default those of a new figure, which a notebook shows.
        """
        from coterie.report.groups import grouping_charts
        from coterie.report.notebook import draw

        drawn = grouping_charts(self.grouping, self.title, self.clients)
        if what not in drawn:
            raise CoterieError(
                f"there is no '{what}' of these groups: there is {' or '.join(drawn) or 'nothing to draw'}"
            )
        return draw(drawn[what], ax)

    @checked
    def save(self, folder: str | Path, overwrite: bool = False) -> list[Path]:
        """Draw the proximities, the tree and the numbers of groups into a folder, as PNG and SVG.

        Other files there stay without `overwrite`.
        """
        from coterie.report.groups import draw

        folder = Path(folder)
        with new_files(folder, overwrite) as place:
            written = draw(self.grouping, self.title, place, self.clients)
        return [folder / file.name for file in written]

    def report(self) -> str:
        """Return the groups as a table for the terminal."""
        from coterie.report.groups import groups_table
        from coterie.report.text_table import wrapped

        table = groups_table(self.grouping, self.clients, self.counts, self.true_groups, self.title, self.names)
        return "\n".join([table, *(wrapped([text]) for text in privacy_text(self.to_json()))])


def form_groups(config: Config, progress: Progress | None = None) -> ClusterResult:
    """Let a method describe and group all clients."""
    progress = progress or Progress()
    check_forms_groups(config)
    progress.phase(f"reading {config.data.title}")
    with grouped(config, load_data(config), progress) as (_, groups):
        return groups


def check_forms_groups(config: Config) -> None:
    """Refuse a method that forms no groups before training."""
    if not ALGORITHMS[config.algorithm.name].traits.one_shot:
        able = [name for name in ALGORITHMS if ALGORITHMS[name].traits.one_shot]
        raise CoterieError(
            f"method '{config.algorithm.name}' forms no groups before training: use --algorithm {' or '.join(able)}"
        )


@contextmanager
def grouped(config: Config, data: FederatedData, progress: Progress) -> Iterator[tuple[Session, ClusterResult]]:
    """Set up a federation in which the method has grouped all clients; it may be asked more until the block ends."""
    config = completed(config, data)
    with one_thread(), session(config, data, MemoryStore(), progress=progress) as run, ExitStack() as stack:
        stack.callback(progress.end)
        for note in data.notes:
            progress.phase(note)
        progress.phase(f"describing {counted(len(run.fed.trainable), 'client')}")
        run.algorithm.begin(run.fed)
        waiting = [client for client in run.fed.trainable if client not in (run.algorithm.groups() or {})]
        if waiting:  # methods that place clients when they first take part do it now
            run.algorithm.admit(run.fed, waiting)
        grouping, labels = run.algorithm.grouping, run.algorithm.groups() or {}
        if grouping is None:
            why = "no client has enough samples of a label to be compared" if labels else "no client described itself"
            raise CoterieError(f"{why}: there is nothing to group")
        if grouping.passes:  # it is of landmarks, who come first
            grouping = grouping.with_others([*labels.values()][len(grouping.labels) :])
        clients, y = list(labels)[: len(grouping.labels)], data.train.y
        y = y if data.target is None else np.zeros(len(y), np.int64)  # numbers are counted as one class
        uncompared = {client: group for client, group in labels.items() if client not in {*clients}}
        classes = 1 if data.target else int(max(y.max(initial=0), data.test.y.max(initial=0))) + 1
        missing = dict.fromkeys(set(run.fed.clients) - set(run.fed.trainable), "has no training samples")
        missing |= {client: "did not answer" for client in run.fed.trainable if client not in labels}
        yield (
            run,
            ClusterResult(
                grouping=grouping,
                clients=clients,
                true_groups=None if data.true_groups is None else [int(data.true_groups[client]) for client in clients],
                counts=np.stack([np.bincount(y[data.train_parts[client]], minlength=classes) for client in clients]),
                up_bytes=run.fed.ledger.total("up"),
                title=f"{config.algorithm.name} on {config.data.title}, {counted(data.clients, 'client')}, "
                f"seed {config.run.seed}",
                missing=missing,
                uncompared=uncompared,
                privacy=privacy_of(config, run.fed, run.algorithm, simulated=True),
                names=Names(data.client_names, data.class_names),
            ),
        )
