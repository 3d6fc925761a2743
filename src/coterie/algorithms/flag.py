"""Clustering by class-wise data angles and gradients, with a search for the cut (FLAG)."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Literal, TypeVar

import numpy as np
import numpy.typing as npt
from annotated_types import Ge, Gt, Le, Lt

from coterie.algorithms import algorithm
from coterie.algorithms.one_shot import Floats
from coterie.algorithms.redescribed import Redescribed
from coterie.clustering import GroupingOptions, Rule, RuleSupport
from coterie.federation import Federation, saved
from coterie.messages import (
    Array,
    ClassCounts,
    ClassCountsReply,
    ClientId,
    Evaluate,
    EvaluateReply,
    ModelSpec,
    Params,
    Signature,
    SignatureReply,
    Train,
    TrainReply,
    Verb,
    Weighing,
    distance,
    update,
)
from coterie.models import initial
from coterie.similarity import Scales, classwise_angles, gradient_angles, mixed_proximity
from coterie.streams import stream

UNIT = "of the largest angle"
Description = Mapping[str, Array]
"""``vectors`` with their ``labels``, ``counts`` per class, and the ``update`` Δ."""
Group = frozenset[ClientId]
A = TypeVar("A", TrainReply, EvaluateReply)


@algorithm("flag")
@dataclass(kw_only=True)
class FLAG(Redescribed[Description]):
    """One model per group of clients whose data and first gradients both point the same way."""

    not_private = "its clients tell label counts, and train once more to be grouped"
    traits = replace(Redescribed.traits, rules=RuleSupport(("distances", "trial"), UNIT), of_labels=True)

    beta: Annotated[float, Ge(0), Le(1), "share of the data angles in the mixture; 1: data only, 0: gradients only"] = (
        0.5
    )
    delta: Annotated[float, Ge(0), Le(1), "range of the class weights, 1 ± delta; 0: no weights"] = 0.5
    share: Annotated[float, Gt(0), Le(1), "singular vectors per class, as a share of its samples"] = 0.01
    warmup: Annotated[
        int, Ge(0), "local epochs before the gradients are taken; 0: there are none, so that only data count"
    ] = 20
    warmup_until: Annotated[
        float | None,
        Gt(0),
        "end a client's warm-up once an epoch moves its model by less than this; warmup is then the largest number of "
        "epochs, and the server asks for one after the other",
    ] = None
    missing_angle: Annotated[float, Ge(0), Le(180), "degrees for a class that only one of two clients has"] = 180.0
    onesided_weight: Annotated[float, Ge(0), "weight of such a class, unless eps_mode is paper"] = 1.0
    eps_mode: Annotated[
        Literal["log1p", "paper"],
        "weights by ln(n + 1); or by ln(n + ε) as printed, also for a class that only one of two clients has",
    ] = "log1p"
    step: Annotated[float, Gt(0), Le(1), "trial: between two cuts that are tried, from 1 to 0"] = 0.1
    trial_clients: Annotated[int, Ge(1), "trial: clients that take part"] = 30
    trial_rounds: Annotated[int, Ge(1), Le(10_000), "trial: rounds"] = 5
    trial_epochs: Annotated[
        int | None, Ge(1), "trial: local epochs per round; by default 1, more where clients have under 200 samples"
    ] = None
    trial_holdout: Annotated[float, Gt(0), Lt(1), "trial: share of the samples that are held out to score"] = 0.1
    trial_model: Annotated[
        Literal["light", "same"], "trial: a perceptron with 64 hidden units, or the network of the run"
    ] = "light"

    scales: Scales | None = saved(default=None)
    """From the first clients; later ones are measured by them."""

    @property
    def most_requests(self) -> int:
        """A client is in one group at each cut of the trial, and is described and trained beside."""
        return self.warmup + min(self.trial_clients, math.ceil(1 / self.step) + 1) * (self.trial_rounds + 1) + 8

    @property
    def unfixed(self) -> tuple[str, ...]:
        """The trial's epochs follow from how many samples clients have."""
        return ("epochs",) if self.trial_epochs is None else ()

    def error_in_privacy(self) -> str | None:
        """Only a part of a description has a private form."""
        return "beside signatures it compares clients' first updates, which have no private form here: use pacfl"

    def error_in_grouping(self, options: GroupingOptions) -> str | None:
        """Distances are shares of the largest."""
        if options.threshold is not None and not 0 <= options.threshold <= 1:
            return f"a threshold of flag is a share of the largest angle, 0 to 1, got {options.threshold:g}: write 0.6"
        return None

    @property
    def weighing(self) -> Weighing:
        """In groups clients count by their samples."""
        return "samples"

    @property
    def verb(self) -> Signature:
        """What clients are asked for to describe their samples."""
        return Signature(per_label=True, share=self.share)

    def signatures(self) -> tuple[Signature, Mapping[ClientId, SignatureReply]]:
        """U_ic of the clients' classes."""
        return self.verb, {c: SignatureReply(d["vectors"], d["labels"]) for c, d in self.described.items()}

    def describe(self, fed: Federation, clients: Sequence[ClientId]) -> dict[ClientId, Description]:
        """Ask each client for U_ic of its classes c, its class counts n_ic, and Δ_i after some epochs from θ⁰."""
        epochs = self.warmup if self.warmup_until is None else min(1, self.warmup)
        warmup = Train(replace(fed.plan, epochs=epochs), start=("initial",), keep=False, purpose="warm-up")
        request = fed.request(self.verb, ClassCounts(), warmup, kind="describe")
        replies = fed.ask(dict.fromkeys(clients, request))
        models: dict[ClientId, Params] = {c: reply.answer(TrainReply).params for c, reply in replies.items()}
        if self.warmup_until is not None:
            self.continue_warmup(fed, models, self.warmup_until)
        described: dict[ClientId, Description] = {}
        for client, reply in replies.items():
            signature = reply.answer(SignatureReply)
            described[client] = {
                "vectors": signature.vectors,
                "labels": signature.labels,
                "counts": reply.answer(ClassCountsReply).counts,
                "update": update(models[client], self.start),
            }
        return described

    def continue_warmup(self, fed: Federation, models: dict[ClientId, Params], epsilon: float) -> None:
        """Let each client train for further epochs until one moves its model by less than ε; change `models` so."""
        moving = {client for client, model in models.items() if distance(model, self.start) >= epsilon}
        for epoch in range(2, self.warmup + 1):
            verb = Train(replace(fed.plan, epochs=1), keep=False, purpose=f"warm-up {epoch}")
            requests = {client: fed.request(verb, model=models[client], kind="describe") for client in sorted(moving)}
            for client, reply in fed.ask(requests).items() if requests else ():
                before, models[client] = models[client], reply.answer(TrainReply).params
                if distance(models[client], before) < epsilon:
                    moving.discard(client)

    def distances(self, a: Sequence[Description], b: Sequence[Description] | None = None) -> Floats:
        """A = β V̂ + (1 − β) Ĝ (Eqs. 2 to 6)."""
        V = classwise_angles(
            *_by_class(a),
            None if b is None else _by_class(b),
            delta=self.delta,
            missing_angle=self.missing_angle,
            eps_mode=self.eps_mode,
            onesided_weight=self.onesided_weight,
            scales=self.scales,
        )
        G = gradient_angles([d["update"] for d in a], None if b is None else [d["update"] for d in b])
        if self.scales is None:
            self.scales = Scales.of(V, G, _by_class(a)[1], self.eps_mode)
        return mixed_proximity(V, G, self.beta, self.scales)

    def rule(self, fed: Federation) -> Rule:
        """The cut search, unless another rule was asked for."""
        samples = np.median([max(count, 1) for count in fed.samples.values()])
        trial = FederatedTrial(
            fed,
            list(self.described),
            self.light(fed),
            self.trial_clients,
            self.trial_rounds,
            self.trial_epochs or math.ceil(200 / max(samples, 1)),
            self.trial_holdout,
        )
        return fed.settings.grouping.make("trial", unit=UNIT, linkage="average", score=trial.score, step=self.step)

    def light(self, fed: Federation) -> ModelSpec:
        """Return the network of the trial."""
        if self.trial_model == "same":
            return fed.spec
        return ModelSpec("mlp", fed.spec.shape, fed.spec.classes, {"hidden": 64})


def _by_class(described: Sequence[Description]) -> tuple[list[dict[int, Array]], Array]:
    """Return each client's vectors by class, and all class counts, (clients, C)."""
    counts = np.stack([d["counts"] for d in described])
    vectors = [{int(c): d["vectors"][:, d["labels"] == c] for c in np.flatnonzero(d["counts"])} for d in described]
    return vectors, counts


@dataclass
class FederatedTrial:
    """Some clients train one light model per group for a few rounds; the score is their accuracy on held-out samples.

    A group that occurs in several groupings is trained once.
    """

    fed: Federation
    clients: Sequence[ClientId]
    """All that are grouped, in the order of labels."""
    spec: ModelSpec
    size: int
    """How many clients take part."""
    rounds: int
    epochs: int
    holdout: float
    _scores: dict[Group, dict[ClientId, EvaluateReply]] = field(default_factory=dict)

    def score(self, labels: npt.NDArray[np.int64]) -> float:
        """Return the mean accuracy of the trial's clients on their held-out samples."""
        drawn = stream(self.fed.seed, "trial").permutation(len(self.clients))[: self.size]
        groups = [frozenset(self.clients[i] for i in drawn if labels[i] == group) for group in np.unique(labels[drawn])]
        self._train([group for group in groups if group not in self._scores])
        scores = [score for group in groups for score in self._scores[group].values() if score.samples]
        return float(np.mean([score.correct / score.samples for score in scores])) if scores else 0.0

    def _train(self, groups: list[Group]) -> None:
        """Train a model for each of these groups, all at once, and have its members score it."""
        fed = self.fed
        models: dict[Group, Params] = {group: initial(self.spec, fed.seed) for group in groups}
        plan = replace(fed.plan, epochs=self.epochs, holdout=self.holdout)
        for t in range(self.rounds):
            verb = Train(plan, keep=False, purpose=f"trial {t}")
            answers = self._ask(verb, TrainReply, models)
            own = {group: fed.aggregator.contributions(of, models[group]) for group, of in answers.items()}
            models |= fed.aggregator.averages(own, kind="trial")
        self._scores |= self._ask(Evaluate(on="holdout", share=self.holdout), EvaluateReply, models)

    def _ask(self, verb: Verb, kind: type[A], models: Mapping[Group, Params]) -> dict[Group, dict[ClientId, A]]:
        """Ask the members of all groups at once, each with its group's model."""
        requests = {
            client: request
            for group, model in models.items()
            for request in [self.fed.request(verb, model=model, spec=self.spec, kind="trial")]
            for client in group
        }
        replies = self.fed.ask(requests)
        return {
            group: {client: replies[client].answer(kind) for client in sorted(group) if client in replies}
            for group in models
        }
