"""Means of what clients trained, made while it comes: a round takes the memory of a few models, not of a cohort.

What each rule of ``[aggregation]`` holds until the last reply is there: ``mean`` a sum for each group; ``clipped`` all
models, on disk where they are many, since the median length is known only then; ``median``, ``trimmed`` and ``krum``
all models in memory, which they compare. Private training takes the place of any of them, with a sum for each group.
"""

from collections.abc import Callable, Mapping
from typing import Generic

from coterie.federation.aggregation import TRAINED, Aggregator, Contribution, K, update_lengths
from coterie.federation.private_mean import PrivateSums
from coterie.federation.spool import Spool
from coterie.federation.trained import Answers
from coterie.messages import Array, ClientId, Params, RunningMean, TrainReply


class Fold(Generic[K]):
    """Puts together what clients trained, by the rule of the run, in groups of any names; to be given it in order."""

    def __init__(self, aggregator: Aggregator, kind: str = TRAINED) -> None:
        """`kind` is that of the updates, as in `Aggregator.averages`."""
        self._private = None if aggregator.private is None else PrivateSums[K](aggregator.private, aggregator.clip)
        self._aggregator, self._kind, self._rule = aggregator, kind, aggregator.options.rule
        self._heaviest, self._too_heavy = aggregator.heaviest(), dict[ClientId, int]()
        self._sums: dict[K, RunningMean] = {}
        self._starts: dict[K, Params] = {}
        """What the first of each group started from."""
        self._held: dict[K, list[Contribution]] = {}
        self._spool = Spool(aggregator.scratch)

    def contribution(self, client: ClientId, answer: TrainReply, start: Params, equal: bool = False) -> Contribution:
        """Return what a client brings to a mean: by its samples, up to the limit; or all count alike."""
        if equal:
            return Contribution(client, answer.params, start, 1)
        if answer.samples > self._heaviest:
            self._too_heavy[client] = answer.samples
        return Contribution(client, answer.params, start, min(answer.samples, self._heaviest))

    def add(self, group: K, member: Contribution) -> None:
        """Add what a client brings to a group, after the clients before it."""
        self._starts.setdefault(group, member.start)
        if self._private is not None:
            self._private.add(group, member)
            return
        if self._rule == "mean":
            self._sums.setdefault(group, RunningMean()).add(member.params, member.weight, member.tensor_weights)
            return
        if self._rule == "clipped":
            lengths = update_lengths(member.params, member.start)
            member = member._replace(params=self._spool.keep(member.params), lengths=lengths)
        self._held.setdefault(group, []).append(member)

    def means(
        self,
        models: Mapping[K, Params] | None = None,
        step: bool = True,
        sizes: Callable[[], Mapping[K, float]] = dict,
    ) -> dict[K, dict[str, Array]]:
        """Return the mean of each group that somebody brought something to; it ends the fold.

        Of those trained, the server's `step` is taken, as in `Aggregator.averages`. Private training has a model for
        each of the `models`, and needs to know how many clients are, or are to be expected, in their groups.
        """
        if self._private is not None:
            if models is None:
                raise TypeError("private training needs the models of all groups")
            means = self._private.means(models, sizes(), self._aggregator.source, self._aggregator.now())
            self._aggregator.clip = self._private.clip
            return self._aggregator.steps(means, models)
        for client, samples in self._too_heavy.items():
            self._aggregator.note_weight(client, samples, self._heaviest)
        if self._rule == "mean":
            means = {group: self._sums.pop(group).mean(self._starts[group]) for group in [*self._sums]}
        else:
            means = self._aggregator.means(self._held, self._kind)
        if self._kind != TRAINED or not step:
            return means
        return self._aggregator.steps(means, models or self._starts)


def average(
    aggregator: Aggregator,
    trained: Answers,
    start: Params,
    equal: bool = False,
    clients: int = 0,
) -> dict[str, Array]:
    """Put together what some of so many clients trained from one model: by their samples, or all count alike."""
    fold = Fold[int](aggregator)
    for client, answer in trained.items():
        fold.add(0, fold.contribution(client, answer, start, equal))
    return fold.means({0: start}, sizes=lambda: {0: clients})[0]
