"""Local and global layers (LG-FedAvg, Liang et al., 2020)."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal

from annotated_types import Ge

from coterie.algorithms import algorithm
from coterie.algorithms.shared_layers import PartlyShared, chosen, cuts, last_layers
from coterie.errors import CoterieError
from coterie.federation import ClientSampler, Federation, ServedModel, Trained, as_request, saved
from coterie.messages import ClientId, ModelSpec, Params, Request, Train, Weighing, frozen


@algorithm("lg-fedavg")
@dataclass(kw_only=True)
class LGFedAvg(PartlyShared):
    """Each client keeps its own first layers; only the last ones are shared and averaged."""

    not_private = None

    shared: Annotated[
        int | None, Ge(1), "how many of the last layers are global; by default 2, or all but one in small networks"
    ] = None
    weights: Annotated[Literal["samples", "equal"], "of clients in the mean; the original's are equal"] = "samples"
    pretrain: Annotated[int, Ge(0), "rounds of FedAvg at first, with whose model clients then begin (original)"] = 0
    broadcast_all: Annotated[bool, "send the global layers to all clients in every round (original)"] = False

    begun: set[ClientId] = saved(default_factory=set)
    """Who has layers of its own."""

    def shared_names(self, spec: ModelSpec) -> list[str]:
        """Name the last layers: two by default, or all but one where there are fewer."""
        count = len(cuts(spec))
        if count < 2:
            raise CoterieError(
                "lg-fedavg divides a network into local and global layers, but this one has one: use fedavg"
            )
        if self.shared is not None and self.shared >= count:
            raise CoterieError(
                f"lg-fedavg: shared = {self.shared} leaves no local layer, as the network has {count}: write less, or "
                "use fedavg"
            )
        return last_layers(spec, self.shared or min(2, count - 1))

    def check(self, spec: ModelSpec, sampler: ClientSampler) -> None:
        """Refuse a network without local layers, and requests to a client twice in a round."""
        super().check(spec, sampler)
        if self.broadcast_all and sampler.all_batches:
            raise CoterieError(
                "lg-fedavg: broadcast_all sends to all clients in every round, but with all_batches many take part "
                "later in it: leave out one of them"
            )

    @property
    def rehearsal_options(self) -> dict[str, Any]:
        """One round of FedAvg shows what all of them ask."""
        return {"pretrain": min(self.pretrain, 1)}

    def round(self, fed: Federation, cohort: Sequence[ClientId]) -> None:
        """θ_i ← own layers with the global ones on top; all are trained; the global ones are averaged."""
        if fed.round <= self.pretrain:
            self.start = self.mean(fed, self.train(fed, cohort, Train(fed.plan))) or self.start
            self.layers = chosen(self.start, self.layers)
            return
        if self.broadcast_all:
            quiet = Train(replace(fed.plan, steps=0, curriculum=None), send=False)
            fed.ask(self.requests(fed, [c for c in fed.trainable if c not in cohort], quiet))
        trained = self.train(fed, cohort, Train(fed.plan, send=tuple(self.layers)))
        self.layers = self.mean(fed, trained) or self.layers
        self.begun |= {*trained.clients}

    @property
    def weighing(self) -> Weighing:
        """As the options say."""
        return self.weights

    def mean(self, fed: Federation, trained: Trained) -> Params:
        """Return the mean of what clients send back, weighted by samples or equally; nothing if nobody does."""
        received = {**self.start, **self.layers}
        return fed.average(trained, received, self.weights == "equal") if trained else {}

    def train(self, fed: Federation, clients: Sequence[ClientId], verb: Train) -> Trained:
        """Let clients train what they would receive now; answers are there as they come."""
        return Trained(fed.replies(self.requests(fed, clients, verb)))

    def requests(self, fed: Federation, clients: Sequence[ClientId], verb: Train) -> dict[ClientId, Request]:
        """Return what lets clients train what they would receive now; those that receive the same get one request."""
        requests: dict[ClientId, Request] = {}
        made: dict[tuple[str, ...], Request] = {}
        for client in clients:
            _, start, models = as_request(self.model_for(client))
            if start not in made:
                made[start] = fed.request(replace(verb, start=start), models=models)
            requests[client] = made[start]
        return requests

    def model_for(self, client: ClientId) -> ServedModel:
        """Return the global layers, to lay over the client's own; a client without any gets FedAvg's whole model."""
        if self.pretrain and client not in self.begun:
            return frozen({**self.start, **self.layers})
        return super().model_for(client)
