"""Which clients are evaluated, and how far a mean over some of them may be from that over all."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from coterie.federation.federation import Federation
from coterie.federation.scores import Score
from coterie.messages import ClientId
from coterie.streams import stream


@dataclass(frozen=True)
class Basis:
    """On how many clients a number stands."""

    clients: int
    of: int
    """As many there are."""
    standard_error: float | None
    """Of the number as an estimate of that of all; None where it is exact, or stands on a single client."""


class EvaluatedClients:
    """The clients that are evaluated: all, or a sample that is the same throughout a run.

    Every client has a number, drawn once by the seed, and those with the lowest are evaluated. Who joins while training
    goes on is among them if its number is as low, so that the sample stays one of all.
    """

    def __init__(self, fed: Federation) -> None:
        self.fed, self.options = fed, fed.settings.evaluation
        self._numbers: npt.NDArray[np.float64] = np.zeros(0)
        self._highest: float | None = None
        """The highest number that is evaluated; None before the sample is drawn."""
        self._drawn: list[ClientId] = []
        self._joined = 0
        """How many of those who joined have been looked at."""

    @property
    def everybody(self) -> bool:
        """Whether all clients are evaluated."""
        return self._mark() == math.inf

    def __contains__(self, client: ClientId) -> bool:
        """Say whether a client is in the sample, present or not."""
        return self._number(client) <= self._mark()

    @property
    def described(self) -> str:
        """Who is evaluated, in a line."""
        some = f"{len(self.now()):,} of {self.population:,} clients"
        return f"evaluating {some}, always the same, with standard errors; for all: --eval-clients all"

    def now(self) -> Sequence[ClientId]:
        """Return those who are present and take part, in order; what this takes does not grow with the others."""
        if self.everybody:
            return self.fed.clients
        if len(self.fed.joined) > self._joined:
            joined, highest = [*self.fed.joined][self._joined :], self._mark()
            self._drawn += [client for client in joined if self._number(client) <= highest]
            self._joined = len(self.fed.joined)
        present, members = self.fed.samples, self.fed.members
        there = (client for client in self._drawn if client in present and client in members.admitted)
        return sorted(client for client in there if not members.left_out(client))

    def among(self, clients: Sequence[ClientId]) -> list[ClientId]:
        """Return those of clients that came after training who are evaluated, as many as of the others at most."""
        return self._lowest(clients, self.options.number(len(clients)))

    def fine_tuning(self) -> Sequence[ClientId]:
        """Return those under protocol +."""
        clients = self.now()
        if self.options.plus in (0, 1):
            return clients if self.options.plus else []
        return self._lowest(clients, max(round(self.options.plus * len(clients)), 1))

    @property
    def population(self) -> int:
        """How many clients there are, evaluated or not."""
        return len(self.fed.clients) if self.everybody else len(self.fed.members.admitted)

    @property
    def share(self) -> float:
        """Which share of the clients is evaluated."""
        return 1.0 if self.everybody else min(len(self._drawn) / max(self.population, 1), 1.0)

    def measured(self, values: Sequence[float], of: int | None = None, part: float = 1.0) -> Basis:
        """Say on what the mean of clients' values stands; `part` of the evaluated clients were asked, `of` so many."""
        n = len(values)
        error = float(np.std(values, ddof=1)) * self._shrunk(n, part) if n > 1 and self._estimated(part) else None
        return Basis(n, self.population if of is None else of, error)

    def measured_together(self, scores: Iterable[Score], pooled: float | None, max_weight: float | None) -> Basis:
        """Say on what Σ correct / Σ samples stands: a quotient of two means, whose error is that of their residuals."""
        tested = [score for score in scores if score[1]]
        n = len(tested)
        if n < 2 or pooled is None or not self.estimates:
            return Basis(n, self.population, None)
        weights = np.array([samples for _, samples in tested], np.float64)
        right = np.array([correct for correct, _ in tested]) / weights
        if max_weight is not None:
            weights = np.minimum(weights, max_weight * np.median(weights))
        residuals = weights * (right - pooled)
        spread = math.sqrt(float((residuals**2).sum()) / (n - 1))
        return Basis(n, self.population, spread * self._shrunk(n, 1.0) / float(weights.mean()))

    @property
    def estimates(self) -> bool:
        """Whether numbers are estimates: not of all clients, or not of all their test samples."""
        return self._estimated(1.0)

    def _estimated(self, part: float) -> bool:
        return self.share * part < 1 or self.options.test_samples is not None

    def _shrunk(self, n: int, part: float) -> float:
        """Return what a deviation is multiplied with; the more of all clients are evaluated, the less is left to err.

        Where test samples are drawn too, clients' own values err, and that is not left out.
        """
        share = self.share * part if self.options.test_samples is None else 0.0
        return math.sqrt((1 - share) / n)

    def _mark(self) -> float:
        """Draw the sample, when it is first needed, of those who were there from the beginning."""
        if self._highest is None:
            founders = sorted(self.fed.admitted - self.fed.joined.keys())
            many = self.options.number(len(founders))
            self._drawn = self._lowest(founders, many)
            everybody = many >= len(founders)
            self._highest = math.inf if everybody else max(map(self._number, self._drawn))
        return self._highest

    def _lowest(self, clients: Sequence[ClientId], many: int) -> list[ClientId]:
        if many >= len(clients):
            return [*clients]
        self._number(max(clients))
        numbers = self._numbers[np.asarray(clients)]
        return sorted(clients[i] for i in np.argsort(numbers, kind="stable")[:many])

    def _number(self, client: ClientId) -> float:
        if client >= len(self._numbers):  # whoever comes later changes no number that is drawn
            self._numbers = stream(self.fed.seed, "evaluated").random(client + 1)
        return float(self._numbers[client])


def value_of(score: Score) -> float | None:
    """Return the share of right answers, or what the metric says; None where there are no samples.

    >>> value_of((3, 4)), value_of((0, 0))
    (0.75, None)
    """
    return score[0] / score[1] if score[1] else None


def known_values(scores: Mapping[ClientId, Score]) -> list[float]:
    """Return those that are known, in order of clients."""
    return [correct / samples for _, (correct, samples) in sorted(scores.items()) if samples]
