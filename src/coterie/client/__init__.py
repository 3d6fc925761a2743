"""What runs beside the data: a client's samples, its state, and its answers to the verbs."""

from coterie.client.client import Client
from coterie.client.data import LocalData
from coterie.client.request_handler import RequestHandler
from coterie.client.store import CachedStore, DiskStore, MemoryStore, State, Store

__all__ = [
    "CachedStore", "Client", "DiskStore", "LocalData", "MemoryStore", "RequestHandler", "State", "Store",
]  # fmt: skip
