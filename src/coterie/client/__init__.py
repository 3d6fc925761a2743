"""What runs beside the data: a client's samples, its state, and its answers to the verbs."""

from coterie.client.client import Client, answer_together
from coterie.client.data import LocalData
from coterie.client.packed_store import PackedStore, states_in
from coterie.client.peers import Peers
from coterie.client.policy import Policy
from coterie.client.protection import UNPROTECTED, Protection
from coterie.client.releases import PrivacyTerms
from coterie.client.request_handler import RequestHandler
from coterie.client.store import CachedStore, DiskStore, MemoryStore, State, StateFiles, Store

__all__ = [
    "UNPROTECTED",
    "CachedStore",
    "Client",
    "DiskStore",
    "LocalData",
    "MemoryStore",
    "PackedStore",
    "Peers",
    "Policy",
    "PrivacyTerms",
    "Protection",
    "RequestHandler",
    "State",
    "StateFiles",
    "Store",
    "answer_together",
    "states_in",
]  # fmt: skip
