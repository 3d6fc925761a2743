"""One-shot groups that are looked at again: clients describe themselves anew, and who has moved is grouped anew."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from annotated_types import Ge

from coterie.algorithms.one_shot import D, OneShotClustering
from coterie.clustering.landmarks import MOST_EXACT
from coterie.errors import CoterieError, counted
from coterie.federation import Federation
from coterie.messages import ClientId


@dataclass(kw_only=True)
class Redescribed(OneShotClustering[D]):
    """Groups are formed before training, and anew when clients' descriptions have moved (PACFL, FLAG)."""

    redescribe: Annotated[
        int,
        Ge(0),
        "every so many rounds the cohort's clients describe themselves again; if one is farther from what it was than "
        "the cut lets members of a group be, all are grouped anew by the same cut; 0: never",
    ] = 0

    @property
    def rehearsal_options(self) -> dict[str, Any]:
        """Clients are asked again in each of a few rounds."""
        return {"redescribe": 1} if self.redescribe else {}

    def by_landmarks(self, fed: Federation, clients: int) -> bool:
        """Landmarks are not asked again."""
        if not super().by_landmarks(fed, clients):
            return False
        if self.redescribe:
            raise CoterieError(
                "redescribe groups all clients anew, which landmarks can't: write --grouping exact, up to "
                f"{MOST_EXACT:,} clients, or leave redescribe out"
            )
        return True

    def round(self, fed: Federation, cohort: Sequence[ClientId]) -> None:
        """Look again where it is due; then go on as the method does."""
        if self.redescribe and fed.round % self.redescribe == 0:
            known = [client for client in cohort if client in self.described]
            moved = self.moved(fed, self.describe(fed, known) if known else {})
            if moved:
                self.follow(fed, moved, f"what {counted(len(moved), 'client')} sent had moved by more than the cut")
        super().round(fed, cohort)

    def moved(self, fed: Federation, now: Mapping[ClientId, D]) -> dict[ClientId, D]:
        """Return the descriptions that are farther from the client's last one than the cut, in units of its noise.

        The last one is that by which it was placed, so that it may not creep away in small steps.
        """
        if self.grouping is None:
            return {}
        rule, cut, moved = self.rule(fed), self.grouping.threshold, {}
        place = {client: k for k, client in enumerate(self.described)}
        for client, description in now.items():
            noise = None if self.split_noise is None else self.split_noise[[place[client]]]
            apart = rule.scaled(self.distances([description], [self.described[client]]), noise, noise)
            if apart[0, 0] > cut:
                moved[client] = description
        return moved
