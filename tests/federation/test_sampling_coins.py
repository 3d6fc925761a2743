"""Cohorts by coins: each client for itself, as the accounting of private training assumes."""

from types import SimpleNamespace
from typing import Any

import numpy as np
from scipy.stats import binomtest

from coterie.federation.noise_source import SeededNoise
from coterie.federation.sampling import PoissonSampler


def drawn(clients: int, fraction: float, round: int) -> list[int]:
    settings = SimpleNamespace(noise_source=SeededNoise(0))
    fed: Any = SimpleNamespace(settings=settings, round=round, trainable=tuple(range(clients)), fraction=fraction)
    (cohort,) = PoissonSampler().cohorts(fed, None)  # type: ignore[arg-type]
    return cohort


def test_cohorts_vary_in_size_as_coins_do() -> None:
    sizes = np.array([len(drawn(40, 0.1, t)) for t in range(1500)])
    assert binomtest(int(sizes.sum()), 40 * 1500, 0.1).pvalue > 0.001
    assert abs(sizes.var() / (40 * 0.1 * 0.9) - 1) < 0.15
    assert sizes.min() == 0  # nobody, at times
    assert drawn(40, 1.0, 3) == list(range(40))


def test_a_client_more_moves_nobody() -> None:
    for t in range(20):
        assert [client for client in drawn(41, 0.3, t) if client < 40] == drawn(40, 0.3, t)
