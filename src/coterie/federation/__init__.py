"""The server's side: its only view of the clients, the round loop, evaluation and checkpoints."""

from coterie.federation.aggregation import Aggregator, Contribution
from coterie.federation.algorithm import Algorithm, Traits
from coterie.federation.by_client import IntsByClient
from coterie.federation.engine import Engine, EngineWrapper
from coterie.federation.exchange import Ledger
from coterie.federation.federation import Federation
from coterie.federation.fold import Fold
from coterie.federation.sampling import ClientSampler
from coterie.federation.served_model import CandidateModels, ServedModel, SharedLayers, as_request
from coterie.federation.settings import FederationSettings, ServerData
from coterie.federation.state import saved
from coterie.federation.trained import Answers, Trained

__all__ = [
    "Aggregator", "Algorithm", "Answers", "CandidateModels", "ClientSampler", "Contribution", "Engine", "EngineWrapper",
    "Federation", "FederationSettings", "Fold", "IntsByClient", "Ledger", "ServedModel", "ServerData", "SharedLayers",
    "Trained", "Traits", "as_request", "saved",
]  # fmt: skip
