"""Samples of several clients for tests of measures."""

import numpy as np
from hypothesis import strategies as st

sizes = st.tuples(st.integers(0, 10**6), st.integers(1, 12), st.integers(1, 12), st.integers(1, 5))


def sample(seed: int, n: int, features: int, mean: float = 0.0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return rng.normal(mean, 1, (n, features)) @ rng.normal(size=(features, features)) + rng.normal(size=features)
