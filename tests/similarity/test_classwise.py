"""FLAG's matrices against loops straight from its equations, and the cases that ALGORITHMS 5 decides."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.linalg import subspace_angles

from coterie.similarity import Scales, classwise_angles, gradient_angles, mixed_proximity, signature

C, FEATURES = 4, 9


def clients(seed: int, n: int) -> tuple[list[dict[int, np.ndarray]], np.ndarray]:
    """Signatures by class and sample counts; about half of the classes are missing, and some have one sample."""
    rng = np.random.default_rng(seed)
    counts = rng.integers(0, 2, (n, C)) * rng.integers(1, 30, (n, C))
    means = rng.normal(size=(C, FEATURES))
    signatures = [
        {c: signature(means[c] + rng.normal(size=(row[c], FEATURES)), 2) for c in range(C) if row[c]} for row in counts
    ]
    return signatures, counts


def equations(
    u: list[dict[int, np.ndarray]],
    n: np.ndarray,
    delta: float,
    missing: float = 180.0,
    onesided: float = 1.0,
    log: object = None,
    only: int | None = None,
) -> np.ndarray:
    """Eqs. 3 to 6; with `only`, weights are scaled by the range among the first so many clients, and cut off there."""
    ln = log or (lambda count: math.log(count + 1))
    W: dict[tuple[int, int, int], float] = {}
    for i in range(len(n)):
        for j in range(len(n)):
            for c in range(C):
                if n[i, c] and n[j, c]:
                    a, b = ln(n[i, c]), ln(n[j, c])  # type: ignore[operator]
                    W[i, j, c] = max(a, b) / max(min(a, b), 1e-12)
    first = len(n) if only is None else only
    valid = [w for (i, j, _), w in W.items() if i != j and i < first and j < first] or [1.0]
    low, high = min(valid), max(valid)
    V = np.zeros((len(n), len(n)))
    for i in range(len(n)):
        for j in range(len(n)):
            for c in range(C):
                if n[i, c] and n[j, c]:
                    angle = np.degrees(subspace_angles(u[i][c], u[j][c]).min())
                    share = min(max((W[i, j, c] - low) / (high - low), 0), 1) if high > low else 0.5
                    V[i, j] += angle * ((1 - delta) + 2 * delta * share) / C
                elif n[i, c] or n[j, c]:
                    V[i, j] += missing * onesided / C
    np.fill_diagonal(V, 0)
    return V


@pytest.mark.integration
@given(st.integers(0, 10**6), st.integers(1, 7), st.sampled_from([0.0, 0.3, 0.5, 1.0]))
def test_the_equations(seed: int, n: int, delta: float) -> None:
    u, counts = clients(seed, n)
    V = classwise_angles(u, counts, delta=delta)
    np.testing.assert_allclose(V, equations(u, counts, delta), atol=1e-4)
    np.testing.assert_array_equal(V, V.T)
    np.testing.assert_array_equal(np.diagonal(V), 0)


@pytest.mark.integration
@given(st.integers(0, 10**6), st.integers(2, 6), st.integers(1, 4))
def test_newcomers_are_measured_by_the_scales_of_the_old(seed: int, old: int, new: int) -> None:
    u, counts = clients(seed, old + new)
    updates = np.random.default_rng(seed).normal(size=(old + new, 5))
    V, G = classwise_angles(u[:old], counts[:old]), gradient_angles(updates[:old])
    scales = Scales.of(V, G, counts[:old])
    expected = equations(u, counts, 0.5, only=old)
    cross = classwise_angles(u[:old], counts[:old], (u[old:], counts[old:]), scales=scales)
    np.testing.assert_allclose(cross, expected[:old, old:], atol=1e-4)
    among = classwise_angles(u[old:], counts[old:], scales=scales)
    np.testing.assert_allclose(among, expected[old:, old:], atol=1e-4)
    # without scales, they are those of the first clients anyway
    np.testing.assert_array_equal(classwise_angles(u[:old], counts[:old], (u[old:], counts[old:])), cross)
    np.testing.assert_array_equal(mixed_proximity(V, G, 0.3, scales), mixed_proximity(V, G, 0.3))
    A = mixed_proximity(cross, gradient_angles(updates[:old], updates[old:]), 0.3, scales)
    assert A.min() >= 0
    assert A.max() <= 1
    if V.max() > 0:
        data = np.clip(cross / V.max(), 0, 1)
        np.testing.assert_allclose(mixed_proximity(cross, cross, 1.0, scales), data)


def test_without_weights_v_is_the_plain_mean() -> None:
    """δ = 0 (ALGORITHMS 12.9)."""
    u, counts = clients(3, 5)
    V = classwise_angles(u, counts, delta=0)
    counts[counts > 0] = 7
    np.testing.assert_allclose(classwise_angles(u, counts, delta=0.5), V)  # equal weights are 1


def test_classes_that_one_or_none_has() -> None:
    x, y = np.eye(3)[:, [0]], np.eye(3)[:, [1]]
    u, counts = [{0: x}, {0: y, 1: x}, {0: x}], np.array([[5, 0, 0], [5, 2, 0], [5, 0, 0]])
    V = classwise_angles(u, counts)
    np.testing.assert_allclose(V, [[0, 90, 0], [90, 0, 90], [0, 90, 0]])  # (90 + 180 + 0) / 3
    assert classwise_angles(u, counts, missing_angle=90)[0, 1] == pytest.approx(60)
    assert classwise_angles(u, counts, onesided_weight=1.5)[0, 1] == pytest.approx(120)


def test_black_samples_of_a_class_are_at_90() -> None:
    black = signature(np.zeros((4, 3)), 2)
    u, counts = [{0: np.eye(3)[:, [0]]}, {0: black}, {0: black}], np.array([[4], [4], [4]])
    np.testing.assert_allclose(classwise_angles(u, counts), [[0, 90, 90], [90, 0, 0], [90, 0, 0]])


def as_printed(u: list[dict[int, np.ndarray]], n: np.ndarray, delta: float, epsilon: float = 1e-6) -> np.ndarray:
    """Eqs. 3 to 6 letter by letter: W and its range over all i, j and c."""
    ln, N = np.log(n + epsilon), range(len(n))
    W = np.array([[np.maximum(ln[i], ln[j]) / np.minimum(ln[i], ln[j]) for j in N] for i in N])
    low, high = W.min(), W.max()
    weights = (1 - delta) + (W - low) * ((1 + delta) - (1 - delta)) / (high - low)
    angles = np.zeros_like(W)
    for i in N:
        for j in N:
            for c in range(C):
                if n[i, c] and n[j, c]:
                    angles[i, j, c] = 0 if i == j else np.degrees(subspace_angles(u[i][c], u[j][c]).min())
                elif n[i, c] or n[j, c]:
                    angles[i, j, c] = 180
    return (angles * weights).sum(axis=2) / C


@pytest.mark.parametrize("seed", range(6))
def test_the_weights_as_printed(seed: int) -> None:
    """`eps_mode = "paper"`, with classes of one sample, whose logarithm is almost 0, and classes of one client only."""
    u, counts = clients(seed, 6)
    for delta in (0.5, 1.0):
        V = classwise_angles(u, counts, delta=delta, eps_mode="paper")
        np.testing.assert_allclose(V, as_printed(u, counts, delta), atol=1e-4)
        scales = Scales.of(V, V, counts, "paper")
        cross = classwise_angles(u[:2], counts[:2], (u[2:], counts[2:]), delta=delta, eps_mode="paper", scales=scales)
        np.testing.assert_allclose(cross, V[:2, 2:], atol=1e-9)


def test_as_printed_a_class_of_one_client_only_weighs_least() -> None:
    """W = ln n / ln ε is below 0 where only one has the class: W' is 1 − δ at the smallest."""
    x = np.eye(3)[:, [0]]
    u, counts = [{0: x, 1: x}, {0: x}, {0: x}], np.array([[50, 50, 0], [50, 0, 0], [2, 0, 0]])
    V = classwise_angles(u, counts, delta=0.5, eps_mode="paper")
    assert V[0, 1] == pytest.approx(180 * 0.5 / 3)
    assert classwise_angles(u, counts, delta=0.5)[0, 1] == pytest.approx(180 / 3)


def test_gradient_angles() -> None:
    x = np.array([[1.0, 0.0], [1.0, 1.0], [-2.0, 0.0], [0.0, 0.0], [3.0, 3.0]])
    expected = [
        [0, 45, 180, 90, 45],
        [45, 0, 135, 90, 0],
        [180, 135, 0, 90, 135],
        [90, 90, 90, 0, 90],
        [45, 0, 135, 90, 0],
    ]
    np.testing.assert_allclose(gradient_angles(x), expected)
    wide = np.random.default_rng(0).normal(size=(2, 50_000)).astype(np.float32)
    angles = gradient_angles(np.vstack([wide, 3 * wide]))
    assert angles[0, 2] == angles[1, 3] == 0
    np.testing.assert_allclose(gradient_angles(x[:2], x[2:]), np.array(expected)[:2, 2:], atol=1e-9)


def test_mixture() -> None:
    V, G = np.array([[0, 40.0], [40, 0]]), np.array([[0, 90.0], [90, 0]])
    V3, G3 = np.array([[0, 10, 20.0], [10, 0, 5], [20, 5, 0]]), np.array([[0, 90, 45.0], [90, 0, 30], [45, 30, 0]])
    np.testing.assert_array_equal(mixed_proximity(V3, G3, 1), V3 / 20)
    np.testing.assert_array_equal(mixed_proximity(V3, G3, 0), G3 / 90)
    np.testing.assert_allclose(mixed_proximity(V3, G3, 0.4), 0.4 * V3 / 20 + 0.6 * G3 / 90)
    np.testing.assert_array_equal(mixed_proximity(0 * V, 0 * G), 0)
    np.testing.assert_array_equal(mixed_proximity(0 * V, G, 0.5), G / 180)


def test_newcomers_beyond_the_scales() -> None:
    scales = Scales(1.0, 1.0, angle_max=10.0, gradient_max=0.0)
    np.testing.assert_array_equal(mixed_proximity([[5.0, 30.0]], [[0.0, 20.0]], 0.5, scales), [[0.25, 1.0]])


def test_bad_input_is_refused() -> None:
    u, counts = [{0: np.eye(3)}, {1: np.eye(3)}], np.array([[3, 0], [0, 3]])
    with pytest.raises(ValueError, match="client 1: class 0 has a count without a signature"):
        classwise_angles(u, np.array([[3, 0], [1, 3]]))
    with pytest.raises(ValueError, match="other client 0: class 0"):
        classwise_angles(u, counts, (u, 0 * counts))
    with pytest.raises(ValueError, match=r"shape \(2 clients, classes\)"):
        classwise_angles(u, counts[:1])
    with pytest.raises(ValueError, match="whole numbers"):
        classwise_angles(u, -counts)
    with pytest.raises(ValueError, match="2 classes, but those of others have 3"):
        classwise_angles(u, counts, ([], np.zeros((0, 3), int)))
    with pytest.raises(ValueError, match="delta = 2"):
        classwise_angles(u, counts, delta=2)
    with pytest.raises(ValueError, match="eps_mode = 'log2'"):
        classwise_angles(u, counts, eps_mode="log2")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"beta = 1\.1"):
        mixed_proximity(np.eye(2), np.eye(2), 1.1)
    with pytest.raises(ValueError, match="shape"):
        mixed_proximity(np.eye(2), np.eye(3))
