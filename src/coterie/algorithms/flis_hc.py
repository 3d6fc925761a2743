"""Hierarchical clusters by inference similarity (FLIS-HC, Morafah et al., 2022)."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Literal

from coterie.algorithms import algorithm
from coterie.algorithms.inference import RULES, UNIT, Cluster, Inference, clusters, together
from coterie.algorithms.one_shot import Floats, OneShotClustering
from coterie.clustering import Grouping, GroupingOptions, Rule, Threshold
from coterie.federation import Contribution, Federation, saved
from coterie.messages import Array, ClientId, Params, Train, TrainReply
from coterie.similarity import inference_similarity

ALIKE = 0.96
"""Agreement from which the released script joins clients whatever β is."""


@algorithm("flis-hc")
@dataclass(kw_only=True)
class FLISHC(Inference, OneShotClustering[Array]):
    """One model per group of clients whose models, each trained once, label the server's samples alike."""

    traits = replace(OneShotClustering.traits, rules=RULES, of_labels=True)

    hc_mode: Annotated[
        Literal["hierarchical", "row-threshold"],
        "row-threshold is the released script, which is not hierarchical: each client receives the mean of the last "
        f"models of those who agree with it on beta, or on {ALIKE}, of the samples; in the script only the latter, as "
        "beta is lost there: leave it out",
    ] = "hierarchical"

    last: dict[ClientId, Params] = saved(default_factory=dict)
    """What clients sent last; kept for row-threshold only."""

    def begin(self, fed: Federation) -> None:
        """All train once, are grouped, and start anew from θ⁰."""
        self.samples(fed)  # refuse what can't work before any client does
        super().begin(fed)

    def error_in_grouping(self, options: GroupingOptions) -> str | None:
        """The released script knows no rules."""
        if self.hc_mode == "row-threshold" and options.named is not None:
            return "hc_mode = 'row-threshold' knows beta only: leave out the keys of [grouping]"
        return super().error_in_grouping(options)

    def error_in_server_step(self) -> str | None:
        """The released script's means are of models from many rounds, which no model of the server led to."""
        if self.hc_mode == "row-threshold" and not self.server_step.takes_means:
            return "hc_mode = 'row-threshold' goes on from no model: leave out the server's optimiser"
        return super().error_in_server_step()

    def describe(self, fed: Federation, clients: Sequence[ClientId]) -> dict[ClientId, Array]:
        """Let each client train θ⁰ once; of its model only what it says of the server's samples is kept."""
        verb = Train(self.plan(fed), start=("initial",), keep=False, purpose="warm-up")
        replies = fed.ask(dict.fromkeys(clients, fed.request(verb, kind="warm-up")))
        models = [reply.answer(TrainReply).params for reply in replies.values()]
        return dict(zip(replies, self.predictions(fed, models), strict=True))

    def distances(self, a: Sequence[Array], b: Sequence[Array] | None = None) -> Floats:
        """1 − A: the share of the server's samples on which two models do not agree."""
        return 1 - inference_similarity(a, b)

    def form(self, fed: Federation, proximity: Floats) -> Grouping:
        """Cut the tree of 1 − A (Alg. 3); of the released script's clients each is a group, with neighbours."""
        if self.hc_mode == "hierarchical":
            return super().form(fed, proximity)
        reason = "Each client is by itself, and receives the mean of its neighbours."
        return replace(super().form(fed, proximity), rule=self.hc_mode, reason=reason)

    def rule(self, fed: Federation) -> Rule:
        """The rule that was asked for; the released script merges no clients."""
        return super().rule(fed) if self.hc_mode == "hierarchical" else Threshold(self.linkage, UNIT, threshold=-1.0)

    def round(self, fed: Federation, cohort: Sequence[ClientId]) -> None:
        """As PACFL: θ_z ← mean over the clients of the cohort in z; or, as the released script, over neighbours."""
        if self.hc_mode == "hierarchical":
            super().round(fed, cohort)
        else:
            self.place(fed, [client for client in cohort if client not in self.member])
            self.last |= {client: trained.params for client, trained in self.train(fed, cohort).items()}
            self.mix(fed)

    def place(self, fed: Federation, clients: Sequence[ClientId]) -> None:
        """Join the nearest group; or get to know the neighbours."""
        super().place(fed, clients)
        if self.hc_mode == "row-threshold":
            self.mix(fed)

    def mix(self, fed: Federation) -> None:
        """θ_i ← mean of the last models of i's neighbours; θ⁰ for those that have not trained yet."""
        near, samples = self.neighbours(), fed.samples
        weights = fed.aggregator.weights({j: samples.get(j, 1) for j in self.described})
        once = fed.settings.aggregation.rule not in ("mean", "clipped")  # then those that have not trained do not count
        trained = {N: [j for j in N if j in self.last] if once else [] for N in set(near.values())}
        means = fed.aggregator.averages(
            {
                N: [Contribution(j, self.last.get(j, self.start), self.start, weights[j]) for j in trained[N] or N]
                for N in trained
            }
        )
        for client, group in self.member.items():
            self.models[group] = means[near[client]]

    def neighbours(self) -> dict[ClientId, Cluster]:
        """Return who agrees with each client on β, or on 0.96, of the samples; it itself does."""
        if not self.described:
            return {}
        A = inference_similarity(list(self.described.values()))
        around = clusters(list(self.described), A, ALIKE if self.beta is None else min(self.beta, ALIKE))
        return dict(zip(self.described, around, strict=True))

    def groups(self) -> dict[ClientId, int] | None:
        """Return the group of each client; in the released script's mode, clients with the same neighbours."""
        return super().groups() if self.hc_mode == "hierarchical" else together(self.neighbours())
