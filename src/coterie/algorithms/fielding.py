"""Clustered federated learning with data drift (FIELDING, Li et al., 2024)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated

import numpy as np
import numpy.typing as npt
from annotated_types import Gt

from coterie.algorithms import algorithm
from coterie.algorithms.one_shot import Floats, OneShotClustering
from coterie.clustering import Grouping, Rule, RuleSupport
from coterie.errors import counted
from coterie.federation import Federation, saved
from coterie.messages import Array, ClassCounts, ClassCountsReply, ClientId, Weighing

UNIT = "total variation"


@algorithm("fielding")
@dataclass(kw_only=True)
class Fielding(OneShotClustering[Array]):
    """Groups by label frequencies that follow drift: who changes moves; if centres move far, all are grouped anew."""

    not_private = "its clients tell label counts in every round"
    traits = replace(OneShotClustering.traits, rules=RuleSupport(("distances",), UNIT), of_labels=True)

    tau: Annotated[
        float, Gt(0), "group all anew once a centre has moved by more than this share of the mean distance of centres"
    ] = 0.33

    centres: list[Array] = saved(default_factory=list)
    """The mean label frequencies of each group when groups were last formed."""

    def error_in_privacy(self) -> str | None:
        """Clients are asked every time they take part."""
        return (
            "it asks for label counts in every round, so that noise moves clients and is charged each time: use pacfl"
        )

    @property
    def weighing(self) -> Weighing:
        """In groups clients count by their samples."""
        return "samples"

    def describe(self, fed: Federation, clients: Sequence[ClientId]) -> dict[ClientId, Array]:
        """Ask each client how often it has each label, as shares."""
        replies = fed.ask(dict.fromkeys(clients, fed.request(ClassCounts(), kind="describe")))
        counts = {client: reply.answer(ClassCountsReply).counts for client, reply in replies.items()}
        return {client: np.asarray(own / max(own.sum(), 1), np.float64) for client, own in counts.items()}

    def distances(self, a: Sequence[Array], b: Sequence[Array] | None = None) -> Floats:
        """½ Σ_y |p_iy − p_jy|."""
        rows = np.stack(list(a))
        columns = rows if b is None else np.stack(list(b))
        return np.stack([np.abs(columns - row).sum(axis=1) / 2 for row in rows])

    def rule(self, fed: Federation) -> Rule:
        """The tree is cut where its groups are clearest, unless a cut was asked for."""
        return fed.settings.grouping.make("silhouette", unit=UNIT, linkage="average")

    def form_again(self, fed: Federation, old: Grouping | None, proximity: Floats) -> Grouping:
        """By label frequencies as they are now, not by an earlier cut."""
        return self.form(fed, proximity)

    def place(self, fed: Federation, clients: Sequence[ClientId]) -> None:
        """Find groups for clients that have none, and note where the centres of new groups are."""
        before = self.grouping
        super().place(fed, clients)
        if self.grouping is not None and self.grouping is not before:
            kept = self.centres if self.assign == "frozen" else []  # newcomers move no centre
            groups = self.grouping.n_groups
            self.centres = [*kept, *self.means(self.described, self.grouping.labels, groups)[len(kept) :]]

    def round(self, fed: Federation, cohort: Sequence[ClientId]) -> None:
        """Clients of the cohort whose label frequencies have changed move; then FedAvg inside groups."""
        known = [client for client in cohort if client in self.described]
        now = self.describe(fed, known) if known else {}
        changed = {client: p for client, p in now.items() if not np.array_equal(p, self.described[client])}
        if changed and self.grouping is not None:
            self.adapt(fed, self.grouping, changed)
        super().round(fed, cohort)

    def adapt(self, fed: Federation, old: Grouping, changed: Mapping[ClientId, Array]) -> None:
        """Let clients that have changed go to the nearest centre; where centres would move far, group all anew."""
        now, labels = {**self.described, **changed}, old.labels.copy()
        nearest = self.distances(list(now.values()), self.centres).argmin(axis=1)
        for k, client in enumerate(now):
            labels[k] = nearest[k] if client in changed else labels[k]
        if self.shift(self.means(now, labels, len(self.centres))) > self.tau:
            self.follow(
                fed, changed, f"label frequencies of {counted(len(changed), 'client')} had moved a centre too far"
            )
            assert self.grouping is not None
            self.centres = self.means(self.described, self.grouping.labels, self.grouping.n_groups)
            return
        self.described = now
        weights = np.asarray(1 / np.bincount(labels)[labels], np.float64)
        self.grouping = replace(old, labels=labels, weights=weights, proximity=None)
        self.member = dict(zip(now, labels.tolist(), strict=True))

    def means(self, described: Mapping[ClientId, Array], labels: npt.NDArray[np.int64], groups: int) -> list[Array]:
        """Return the mean label frequencies of each group; of one that all have left, nothing (NaN)."""
        rows = np.stack(list(described.values()))
        gone = np.full(rows.shape[1], np.nan)
        return [rows[labels == group].mean(axis=0) if (labels == group).any() else gone for group in range(groups)]

    def shift(self, centres: Sequence[Array]) -> float:
        """Return how far the centre that moves most moves, as a share of the mean distance of centres."""
        moved = np.abs(np.stack(list(centres)) - np.stack(self.centres)).sum(axis=1) / 2
        between = self.distances(self.centres)[np.triu_indices(len(self.centres), 1)]
        unit = float(between.mean()) if len(between) else 1.0
        return float(np.where(np.isnan(moved), np.inf, moved).max()) / max(unit, 1e-9)
