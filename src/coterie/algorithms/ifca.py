"""Iterative federated clustering (IFCA, Ghosh et al., NeurIPS 2020)."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import numpy as np
from annotated_types import Ge, Le

from coterie.algorithms import algorithm
from coterie.algorithms.grouped import GroupedMethod, default_group_count
from coterie.federation import CandidateModels, Contribution, Federation, Fold, Trained, saved
from coterie.messages import ClientId, Reply, Request, Weighing


@algorithm("ifca")
@dataclass(kw_only=True)
class IFCA(GroupedMethod):
    """K models, all sent to the cohort; each client trains the one that fits its data best."""

    not_private = "its clients choose among models by their losses, which are told without noise"

    criterion: Annotated[
        Literal["train-loss", "test-accuracy"],
        "by which a client chooses; test-accuracy is PACFL's code, which looks at the test samples (a leak)",
    ] = "train-loss"
    weights: Annotated[Literal["samples", "equal"], "of a group's members in its mean"] = "samples"
    init_retry: Annotated[
        int,
        Ge(0),
        Le(1000),
        "draw new models up to this often while too few choose one (IFCA's guard; too few for a sum, if it is secure)",
    ] = 0

    hidden: bool = saved(default=False)
    """Whether the server does not learn who chose which model: then nobody is in a group."""
    untold: bool = saved(default=False)
    """Whether it must not tell, as only those who took part have chosen, and who did is a secret."""

    @property
    def unfixed(self) -> tuple[str, ...]:
        """How many models there are follows from the size of a cohort."""
        return ("models",)

    def begin(self, fed: Federation) -> None:
        """θ_k ← different random models: were they equal, everyone would choose the first."""
        self.start, K = fed.initial(), default_group_count(fed)
        self.hidden, self.untold = fed.hides_choices, fed.settings.hides_who_came
        for attempt in range(self.init_retry + 1):
            self.models, self.member = [fed.initial(attempt * K + k) for k in range(K)], {}
            self.place(fed, fed.trainable if attempt < self.init_retry else [])
            share = np.bincount(list(self.member.values()), minlength=K) / max(len(self.member), 1)
            if share.min() >= least_share(fed, K):
                break

    def round(self, fed: Federation, cohort: Sequence[ClientId]) -> None:
        """k_i ← argmin_k f(θ_k; D_i); θ_i ← LocalSGD(θ_{k_i}); θ_k ← mean of those who chose k."""
        candidates = self.candidates()
        if self.hidden:
            self.average_hidden(fed, self.requests_for(fed, candidates, cohort))
            return

        def placed() -> Iterator[Reply]:
            for reply in fed.replies(self.requests_for(fed, candidates, cohort)):
                self.member[reply.client] = candidates.taken(reply)
                yield reply

        self.average(fed, Trained(placed()), self.weights == "equal")

    def average_hidden(self, fed: Federation, requests: Mapping[ClientId, Request]) -> None:
        """θ_k ← mean of those who chose k, of whom only the number is known."""
        fold = Fold[int](fed.aggregator)
        for k, mean in fed.means_of_choices(requests).items():
            fold.add(k, Contribution(-1, mean.params, self.models[k], mean.clients))
        for k, model in fold.means(dict(enumerate(self.models))).items():
            self.models[k] = model

    def place(self, fed: Federation, clients: Sequence[ClientId]) -> None:
        """Let clients say which model they would choose, unless that is hidden."""
        if not self.hidden:
            super().place(fed, clients)

    def error_in_hidden_choices(self) -> str | None:
        """Refuse what would tell of single choices."""
        if self.weights != "equal":
            return (
                "by its weight, the server could tell who chose a model, as it knows how many samples clients have: "
                "use its option weights = equal"
            )
        return "init_retry asks which model each client would choose: leave it out" if self.init_retry else None

    def groups(self) -> dict[ClientId, int] | None:
        """Return the group of each client that is in one, if that may be known."""
        return None if self.hidden or self.untold else super().groups()

    def load(self, state: Mapping[str, Any]) -> None:
        """Restore what `save` returned; in earlier versions no choice was hidden."""
        super().load({"hidden": False, "untold": False, **state})

    def expected_sizes(self, fed: Federation) -> Mapping[int, float]:
        """Who chooses which group is not public: as many are expected of each."""
        return dict.fromkeys(range(len(self.models)), len(fed.trainable) / len(self.models))

    @property
    def weighing(self) -> Weighing:
        """As the options say."""
        return self.weights

    def candidates(self, last: int | None = None) -> CandidateModels:
        """All models, and how clients choose."""
        if self.criterion == "train-loss":
            return CandidateModels(tuple(self.models), "train", "loss", last, self.hidden)
        return CandidateModels(tuple(self.models), "test", "accuracy", last, self.hidden)

    def model_for(self, client: ClientId) -> CandidateModels:
        """Everyone receives all models."""
        return self.candidates(self.member.get(client))

    @property
    def transfers(self) -> float:
        """K models down, one up; where choices are hidden, K up."""
        return len(self.models) * 2.0 if self.hidden else len(self.models) + 1.0


def least_share(fed: Federation, models: int) -> float:
    """Return which share of the clients must choose each model: IFCA's, and enough of a cohort for a secure sum.

    No more than 0.6/K for that: draws by which nearly as many choose each are too rare to wait for.
    """
    usual, secure = 0.35 if models == 2 else 0.4 / models, fed.settings.secure
    if secure is None:
        return usual
    return max(usual, min(secure.minimum / max(len(fed.cohort(1)), 1), 0.6 / models))
