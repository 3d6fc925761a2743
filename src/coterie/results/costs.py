"""The papers' own communication formulas, which the exact ledger stands beside."""

from coterie.messages.verbs.prune import transfers_when_pruned


def paper_megabits(rounds: int, fraction: float, transfers: float, parameters: int) -> float:
    """Return PACFL's cost: expected megabits of one client, both ways (ALGORITHMS 0.5).

    `transfers` counts model-sized messages per participating client and round: 2 for FedAvg.

    >>> round(paper_megabits(1, 0.1, 2, 62_006), 7)
    0.3968384
    """
    return rounds * fraction * transfers * 32 * parameters / 1e6


def sub_fedavg_bytes(rounds: int, clients: int, parameters: int, pruned: float = 0.0) -> float:
    """Return Sub-FedAvg's cost: bytes of all clients, both ways (ALGORITHMS 0.5).

    `clients` take part in each round; without pruning this is the cost of FedAvg.

    >>> round(sub_fedavg_bytes(500, 10, 62_000, 0.3) / 1e9, 2)
    2.12
    """
    return rounds * clients * parameters * 4 * transfers_when_pruned(pruned)
