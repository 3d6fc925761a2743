"""The papers' own communication formulas, which the exact ledger stands beside."""

from __future__ import annotations


def paper_megabits(rounds: int, fraction: float, transfers: float, parameters: int) -> float:
    """Return PACFL's cost: expected megabits of one client, both ways (ALGORITHMS 0.5).

    `transfers` counts model-sized messages per participating client and round: 2 for FedAvg.

    >>> round(paper_megabits(1, 0.1, 2, 62_006), 7)
    0.3968384
    """
    return rounds * fraction * transfers * 32 * parameters / 1e6
