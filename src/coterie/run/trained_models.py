"""Finding a model in a run folder."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from coterie.algorithms import ALGORITHMS
from coterie.client import DiskStore
from coterie.data import Normalisation
from coterie.errors import CoterieError
from coterie.federation.checkpoint import load_checkpoint
from coterie.federation.served_model import SharedLayers, single
from coterie.messages import ModelSpec, Params
from coterie.models import initial
from coterie.results.run_folder import RunFolder
from coterie.run.config import Config
from coterie.run.plugins import import_plugins


@dataclass(frozen=True)
class TrainedModel:
    """A model that a run has made, and what is needed to use it."""

    params: Params
    whose: str
    spec: ModelSpec
    config: Config
    state: Mapping[str, Any]
    """The checkpoint."""

    @property
    def normalisation(self) -> Normalisation | None:
        """From raw inputs to what the network sees; None where it is not a formula."""
        known = self.state["normalise"]
        return None if known is None else Normalisation(**known)


def find_model(run: Path, client: int | None = None, group: int | None = None) -> TrainedModel:
    """Return a client's own model if it has trained, else what it would receive; or a group's; or that of all."""
    folder = RunFolder.open(run)
    if not folder.checkpoint.exists():
        raise CoterieError(f"'{run}' has no checkpoint yet: run it first with 'coterie resume {run}'")
    if client is not None and group is not None:
        raise CoterieError("a client and a group exclude each other: name one of them")
    state = load_checkpoint(folder.checkpoint)
    config = Config.model_validate_json(state["config"])  # the data set itself need not be there any more
    import_plugins(config.run.plugins)
    clients = int(config.data.clients or max(state["federation"]["admitted"], default=-1) + 1)
    if client is not None and not 0 <= client < clients:
        raise CoterieError(f"there is no client {client}: the run has clients 0 to {clients - 1}")
    algorithm = ALGORITHMS[config.algorithm.name](**config.algorithm.options)
    algorithm.load(state["algorithm"])

    def found(params: Params, whose: str) -> TrainedModel:
        return TrainedModel(params, whose, state["spec"], config, state)

    if group is not None:
        groups = algorithm.groups()
        known = sorted(set((groups or {}).values()))
        member = next((c for c, g in (groups or {}).items() if g == group), None)
        model = None if member is None else single(algorithm.model_for(member))
        if model is None:
            there = f"it has groups {', '.join(map(str, known))}" if known else "it has none"
            raise CoterieError(f"the run has no model of a group {group}: {there}")
        return found(model, f"the model of group {group}")
    last = state["round"] + ("plus" in state)  # newcomers after training train in a round of their own
    own = {} if client is None else DiskStore(folder.clients).load(client, before=last + 1)
    if "model" in own:
        return found(own["model"], f"client {client}'s own model")
    offers = [algorithm.model_for(i) for i in (range(clients) if client is None else [client])]
    if client is not None and isinstance(offers[0], SharedLayers):
        start = initial(state["spec"], config.run.seed)
        return found({**start, **offers[0].params}, f"the layers that client {client} would receive, over the start")
    received = [None if isinstance(offer, SharedLayers) else single(offer) for offer in offers]
    if any(model is None for model in received):
        trained = [i for i in range(clients) if "model" in DiskStore(folder.clients).load(i, before=last + 1)]
        hint = f"name a client that has trained, --client {trained[0]}" if trained else "and no client has trained"
        raise CoterieError(f"there is no one model at the server: {hint}")
    if any(model is not received[0] for model in received):
        raise CoterieError(
            "this run has several models: name a client, for instance --client 0 (or 'coterie export' a --cluster)"
        )
    whose = "the model of all clients" if client is None else f"the model that client {client} would receive"
    assert received[0] is not None
    return found(received[0], whose)
