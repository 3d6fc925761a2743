"""What chance does where noise is as large as what it is added to: predicted from halves, seen in wholes."""

import numpy as np
import pytest

from coterie.clustering import noise, wide_halves


@pytest.mark.parametrize("sigma", [0.02, 0.1, 0.2, 0.4, 1.5])
def test_wholes_are_as_far_apart_as_halves_say(sigma: float) -> None:
    """A direction in 400 dimensions; each client has it twice, with noise of its own."""
    rng, clients, k = np.random.default_rng(0), 60, 400
    halves = np.eye(k)[0] + sigma * rng.normal(size=(2, clients, k))
    first, second, whole = (v / np.linalg.norm(v, axis=1, keepdims=True) for v in (*halves, halves.sum(axis=0)))
    between = np.degrees(np.arccos(np.clip(np.abs(whole @ whole.T), 0, 1)))[np.triu_indices(clients, 1)]
    apart = np.degrees(np.arccos(np.abs((first * second).sum(axis=1))))
    expected = np.sqrt(2) * noise(wide_halves(apart), np.ones(clients))
    assert between.mean() / expected.mean() == pytest.approx(1.0, abs=0.05)
    if sigma >= 0.2:  # taken as they are, halves would say much less
        assert between.mean() / (np.sqrt(2) * noise(apart, np.ones(clients)).mean()) > 1.25
