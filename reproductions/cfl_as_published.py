r"""CFL with the two bugs of the code behind PACFL's tables; each can be switched off, to see what is due to it.

    coterie run --plugin reproductions/cfl_as_published.py --algorithm cfl-as-published --dataset fashion_mnist \
        --partition label-skew:rho=0.2 --model lenet5 --clients 100 --server-share 0 --rounds 200 --epochs 10 \
        --momentum 0.5 --eval-every 10

With ``stale=false,positions=false`` only the clients that trained in a round count, and groups hold the right clients.
"""

from dataclasses import dataclass
from typing import Annotated

import numpy as np

import coterie
from coterie.clustering import bipartition, should_split
from coterie.federation import Algorithm, saved
from coterie.messages import Params, Train, TrainReply, frozen, update
from coterie.similarity import update_cosines


@coterie.algorithm("cfl-as-published")
@dataclass(kw_only=True)
class CFLAsPublished(Algorithm):
    """CFL as the authors of PACFL ran it: a model and a last update per client, and groups as lists of clients."""

    stale: Annotated[bool, "old updates of clients that did not train count again in every round"] = True
    positions: Annotated[bool, "after a split, positions inside the group are taken for numbers of clients"] = True
    eps1: float = 0.4
    eps2: float = 1.6
    min_round: int = 20

    models: list[Params] = saved(default_factory=list)
    """One per client, W."""
    last: dict[int, Params] = saved(default_factory=dict)
    """The last update of each client, ΔW; of one that has never trained it is 0."""
    clusters: list[list[int]] = saved(default_factory=list)

    def begin(self, fed):
        """Give all clients θ⁰ and put them into one group."""
        self.models = [fed.initial() for _ in fed.clients]
        self.clusters = [list(range(len(self.models)))]

    def round(self, fed, cohort):
        """Let the cohort train, split groups, and add to every member's W the mean ΔW of its group."""
        # A model per client, so a request per client.
        requests = {client: fed.request(Train(fed.plan), model=self.models[client]) for client in cohort}
        trained = {client: reply.answer(TrainReply).params for client, reply in fed.ask(requests).items()}
        fresh = {c: {n: params[n] - self.models[c][n] for n in params} for c, params in trained.items()}
        self.last = {**self.last, **{client: frozen(delta) for client, delta in fresh.items()}}
        zero = {name: np.zeros_like(value) for name, value in self.models[0].items()}
        rows = {c: update(self.last.get(c, zero), zero) for c in range(len(self.models))}
        divided: list[list[int]] = []
        for cluster in self.clusters:
            counted = [c for c in cluster if self.stale or c in fresh]
            if counted and fed.round > self.min_round:
                updates = np.stack([rows[c] for c in counted])
                if should_split(updates, self.eps1, self.eps2):
                    divided += self.split(cluster, counted, rows)
                    continue
            divided.append(cluster)
        self.clusters = divided
        models = list(self.models)
        for cluster in self.clusters:
            counted = [c for c in cluster if self.stale or c in fresh]
            if not counted:
                continue
            mean = {n: np.mean([self.last.get(c, zero)[n] for c in counted], axis=0, dtype=np.float64) for n in zero}
            for client in cluster:  # a client that is in two groups by mistake gets both means
                models[client] = {n: (models[client][n] + mean[n]).astype(np.float32) for n in zero}
        self.models = [frozen(model) for model in models]

    def split(self, cluster, counted, rows):
        """Return the two halves of a group, by the cosines of updates; who has none goes to the first."""
        directions = np.stack([rows[c] for c in counted])
        halves = bipartition(update_cosines(directions))
        if self.positions and self.stale:
            return [[int(p) for p in half] for half in halves]
        left, right = ([counted[p] for p in half] for half in halves)
        means = np.stack([np.mean([rows[c] for c in side], axis=0) for side in (left, right)])
        for client in set(cluster) - set(counted):
            known = rows[client].any()
            side = int(update_cosines([rows[client]], means).argmax()) if known else 0
            (left, right)[side].append(client)
        return [sorted(left), sorted(right)]

    def model_for(self, client):
        """Return W."""
        return self.models[client]

    def groups(self):
        """Return the first group that names each client."""
        return {client: g for g, cluster in reversed([*enumerate(self.clusters)]) for client in cluster}
