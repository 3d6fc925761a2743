"""What methods share that group clients by what their labels look like."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy.typing as npt

from coterie.algorithms.one_shot import OneShotClustering
from coterie.clustering import Rule, RuleSupport
from coterie.federation import Federation
from coterie.messages import ClientId, Moments, MomentsReply
from coterie.similarity import MEASURES, ClassMoments, class_distances

MEASURE = "class_moments"


@dataclass(kw_only=True)
class GroupingByMoments(OneShotClustering[MomentsReply]):
    """One model per group of clients to whom the same label looks alike, whatever labels they have.

    A method may choose what is asked of clients, and what becomes of those that have too few samples of any label.
    """

    traits = replace(
        OneShotClustering.traits, rules=RuleSupport(("chance",), MEASURES[MEASURE].unit, refuses=("count",))
    )

    def describe(self, fed: Federation, clients: Sequence[ClientId]) -> dict[ClientId, MomentsReply]:
        """Ask each client for the moments of its labels."""
        replies = fed.ask(dict.fromkeys(clients, fed.request(Moments(), kind="describe")))
        return {client: reply.answer(MomentsReply) for client, reply in replies.items()}

    def distances(self, a: Sequence[MomentsReply], b: Sequence[MomentsReply] | None = None) -> npt.NDArray[Any]:
        """Compare clients by the labels that they share: a record for each two."""
        return class_distances(_moments(a), None if b is None else _moments(b))

    def rule(self, fed: Federation) -> Rule:
        """The two-fold rule: beyond chance, and clearly."""
        return fed.settings.grouping.make("concepts", unit=MEASURES[MEASURE].unit)


def _moments(replies: Sequence[MomentsReply]) -> list[ClassMoments]:
    return [ClassMoments(reply.means, reply.variances, reply.counts) for reply in replies]
