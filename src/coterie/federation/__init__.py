"""The server's side: its only view of the clients, the round loop, evaluation and checkpoints."""

from coterie.federation.algorithm import Algorithm
from coterie.federation.engine import Engine
from coterie.federation.federation import Federation
from coterie.federation.ledger import Ledger
from coterie.federation.offer import Layers, Offer, Several, terms

__all__ = ["Algorithm", "Engine", "Federation", "Layers", "Ledger", "Offer", "Several", "terms"]
