"""The server's side: its only view of the clients, the round loop, evaluation and checkpoints."""

from coterie.federation.algorithm import Algorithm
from coterie.federation.engine import Engine, EngineWrapper
from coterie.federation.federation import Federation
from coterie.federation.ledger import Ledger
from coterie.federation.served_model import CandidateModels, ServedModel, SharedLayers, as_request

__all__ = [
    "Algorithm",
    "CandidateModels",
    "Engine",
    "EngineWrapper",
    "Federation",
    "Ledger",
    "ServedModel",
    "SharedLayers",
    "as_request",
]
