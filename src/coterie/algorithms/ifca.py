"""Iterative federated clustering (IFCA, Ghosh et al., NeurIPS 2020)."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

import numpy as np
from annotated_types import Ge, Le

from coterie.algorithms import algorithm
from coterie.algorithms.grouped import GroupedMethod, default_group_count
from coterie.federation import CandidateModels, Federation, Trained
from coterie.messages import ClientId, Reply, Weighing


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
        int, Ge(0), Le(1000), "draw new models up to this often while too few choose one (IFCA's guard)"
    ] = 0

    @property
    def unfixed(self) -> tuple[str, ...]:
        """How many models there are follows from the size of a cohort."""
        return ("models",)

    def begin(self, fed: Federation) -> None:
        """θ_k ← different random models: were they equal, everyone would choose the first."""
        self.start, K = fed.initial(), default_group_count(fed)
        for attempt in range(self.init_retry + 1):
            self.models, self.member = [fed.initial(attempt * K + k) for k in range(K)], {}
            self.place(fed, fed.trainable if attempt < self.init_retry else [])
            share = np.bincount(list(self.member.values()), minlength=K) / max(len(self.member), 1)
            if share.min() >= (0.35 if K == 2 else 0.4 / K):
                break

    def round(self, fed: Federation, cohort: Sequence[ClientId]) -> None:
        """k_i ← argmin_k f(θ_k; D_i); θ_i ← LocalSGD(θ_{k_i}); θ_k ← mean of those who chose k."""
        candidates = self.candidates()

        def placed() -> Iterator[Reply]:
            for reply in fed.replies(self.requests_for(fed, candidates, cohort)):
                self.member[reply.client] = candidates.taken(reply)
                yield reply

        self.average(fed, Trained(placed()), self.weights == "equal")

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
            return CandidateModels(tuple(self.models), "train", "loss", last)
        return CandidateModels(tuple(self.models), "test", "accuracy", last)

    def model_for(self, client: ClientId) -> CandidateModels:
        """Everyone receives all models."""
        return self.candidates(self.member.get(client))

    @property
    def transfers(self) -> float:
        """K models down, one up."""
        return len(self.models) + 1.0
