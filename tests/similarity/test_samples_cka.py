"""Alignments by their definitions."""

import numpy as np
import pytest
from random_samples import sample

from coterie.similarity import centred_gram, cka_of_grams, linear_cka, moment_cka


@pytest.mark.parametrize(("n", "f", "g"), [(20, 3, 5), (6, 9, 2), (5, 8, 30)])
def test_linear_cka_by_its_definition(n: int, f: int, g: int) -> None:
    x, y = sample(1, n, f), sample(2, n, g)
    h = np.eye(n) - 1 / n
    k, m = h @ x @ x.T @ h, h @ y @ y.T @ h
    expected = np.trace(k @ m) / np.sqrt(np.trace(k @ k) * np.trace(m @ m))
    assert linear_cka(x, y) == pytest.approx(expected)
    turn = np.linalg.qr(sample(3, f, f))[0]
    assert linear_cka(3 * x @ turn + 4, y) == pytest.approx(expected)
    assert linear_cka(x, -x) == pytest.approx(1)


def test_linear_cka_of_constant_features() -> None:
    x, still = sample(0, 7, 3), np.full((7, 4), 0.1)
    assert (linear_cka(x, still), linear_cka(still, x), linear_cka(still, still * 3)) == (0, 0, 1)
    assert linear_cka(x[:1], x[:1]) == 1
    with pytest.raises(ValueError, match="same inputs"):
        linear_cka(x, x[:4])


def test_moment_cka_by_its_definition() -> None:
    x, y = sample(1, 9, 4), sample(2, 6, 4)
    s, t = x.T @ x, y.T @ y
    assert moment_cka(x, y) == pytest.approx((s * t).sum() / np.linalg.norm(s) / np.linalg.norm(t))
    assert moment_cka(x, -5 * x) == pytest.approx(1)
    assert moment_cka(np.eye(4)[:2], np.eye(4)[2:]) == 0
    black = np.zeros((3, 4))
    assert (moment_cka(x, black), moment_cka(black, black)) == (0, 1)


@pytest.mark.integration
def test_moments_of_many_features_are_compared_in_the_directions_that_matter() -> None:
    rng = np.random.default_rng(0)
    axes = rng.normal(size=(300, 300)) * np.geomspace(1, 1e-3, 300)[:, None] + 0.05
    x, y = (rng.normal(1, 1, (n, 300)) * scale @ axes for n, scale in ((80, 1), (120, np.linspace(0, 1, 300))))
    s, t = x.T @ x, y.T @ y
    exact = (s * t).sum() / np.linalg.norm(s) / np.linalg.norm(t)
    assert moment_cka(x, y) == pytest.approx(exact, abs=1e-4)
    assert exact < 0.95


def test_grams_give_the_linear_cka() -> None:
    rng = np.random.default_rng(0)
    outputs = [rng.normal(size=(20, width)) for width in (3, 5, 40)] + [np.ones((20, 4)), np.zeros((20, 2))]
    direct = [[linear_cka(a, b) for b in outputs] for a in outputs]
    assert cka_of_grams([centred_gram(each) for each in outputs]) == pytest.approx(np.array(direct), abs=1e-9)
