"""Maximum mean discrepancy by brute force."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from random_samples import sample, sizes
from scipy.spatial.distance import cdist

from coterie.similarity import mmd, pairwise
from coterie.similarity.measures import samples as module


@given(sizes, st.booleans())
def test_mmd_by_brute_force(size: tuple[int, int, int, int], unbiased: bool) -> None:
    seed, n, m, f = size
    x, y = sample(seed, n, f), sample(seed + 1, m, f, 1.0)
    both = np.vstack([x, y])
    median = np.median([np.linalg.norm(a - b) for i, a in enumerate(both) for b in both[:i]])
    for given_width, sigma in ((None, median), (0.7, 0.7)):
        xx, yy, xy = (np.exp(-(cdist(a, b) ** 2) / (2 * sigma**2)) for a, b in ((x, x), (y, y), (x, y)))
        if unbiased:
            own = [1.0 if len(k) == 1 else k[~np.eye(len(k), dtype=bool)].mean() for k in (xx, yy)]
        else:
            own = [xx.mean(), yy.mean()]
        expected = sum(own) - 2 * xy.mean()
        found = mmd(x, y, bandwidth=given_width, unbiased=unbiased, squared=True)
        assert found == pytest.approx(expected, abs=1e-12)
        assert mmd(x, y, bandwidth=given_width, unbiased=unbiased) == pytest.approx(max(expected, 0) ** 0.5, abs=1e-6)


def test_unbiased_mmd_has_a_mean_of_0_between_equals() -> None:
    rng = np.random.default_rng(0)
    found = [mmd(*rng.normal(size=(2, 12, 2)), bandwidth=1.0, unbiased=True, squared=True) for _ in range(400)]
    assert abs(np.mean(found)) < 3 * np.std(found) / 20
    assert min(found) < 0


def test_many_samples_in_float32_and_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    samples = [sample(i, 9 + i, 3, i) for i in range(4)]
    exact = pairwise("mmd", samples, unbiased=True)
    monkeypatch.setattr(module, "LARGE", 10)
    monkeypatch.setattr(module, "AT_ONCE", 25)
    np.testing.assert_allclose(pairwise("mmd", samples, unbiased=True), exact, atol=1e-5)
