"""The papers' own communication formulas, which the exact ledger stands beside."""


def paper_megabits(rounds: int, fraction: float, transfers: float, parameters: int) -> float:
    """Return PACFL's cost: expected megabits of one client, both ways (ALGORITHMS 0.5).

    `transfers` counts model-sized messages per participating client and round: 2 for FedAvg.

    >>> round(paper_megabits(1, 0.1, 2, 62_006), 7)
    0.3968384
    """
    return rounds * fraction * transfers * 32 * parameters / 1e6


def sub_fedavg_bytes(rounds: int, clients: int, parameters: int, pruned: float = 0.0) -> float:
    """Return Sub-FedAvg's cost: bytes of all clients, both ways (ALGORITHMS 0.5).

    In each round so many `clients` receive a whole model, and send kept parameters in 32 bits and `pruned` ones, a
    share of all, in one; without pruning this is the cost of FedAvg.

    >>> round(sub_fedavg_bytes(500, 10, 62_000, 0.3) / 1e9, 2)
    2.12
    """
    return rounds * clients * parameters * 4 * (1 + (1 - pruned) + pruned / 32)
