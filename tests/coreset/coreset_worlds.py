"""Graphs for the tests, and the algorithm written once more, densely and from the formulas alone."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


def random_graph(n: int, seed: int, density: float = 0.3, loops: bool = False) -> Array:
    """A symmetric matrix of random weights."""
    rng = np.random.default_rng(seed)
    a = np.triu(rng.random((n, n)) * (rng.random((n, n)) < density), 0 if loops else 1)
    return np.triu(a) + np.triu(a, 1).T


def gaussians(n: int, seed: int) -> tuple[Array, Array]:
    """Three Gaussian components with 20, 30 and 50 % of the points, and which component each point is of."""
    rng = np.random.default_rng(seed)
    sizes = [n // 5, 3 * n // 10, n - n // 5 - 3 * n // 10]
    component = np.repeat([0, 1, 2], sizes)
    return np.array([[1, -3], [-3, 2], [3, 0]])[component] + rng.normal(size=(n, 2)), component


def dense_walk(a: Array, steps: int) -> Array:
    degrees = a.sum(axis=1)
    largest = degrees.max()
    p = (a - np.diag(degrees)) / largest + np.eye(len(a)) if largest > 0 else np.eye(len(a))
    return np.linalg.matrix_power(p, steps)


def dense_scgiga(
    a: Array, k: int, steps: int = 1, cost: Array | None = None, kappa: float = 1.0
) -> tuple[Array, list[float]]:
    """Return the weights of all nodes, and 1 − cos² after each iteration."""
    q = dense_walk(a, steps)
    n = len(q)
    norms = np.sqrt((q**2).sum(axis=0))
    unit = q / norms
    star = np.full(n, 1 / np.sqrt(n))
    w, y = np.zeros(n), np.zeros(n)
    costs = np.zeros(n) if cost is None else cost
    objective: list[float] = []
    for iteration in range(k):
        direction = star - (star @ y) * y
        length = np.linalg.norm(direction)
        if length < 1e-12:
            break
        if iteration == 0:
            score = unit.T @ star
        else:
            score = np.full(n, -np.inf)
            cosines = unit.T @ y
            fine = cosines**2 < 1 - 1e-13
            score[fine] = (unit.T @ (direction / length))[fine] / np.sqrt(1 - cosines[fine] ** 2)
        best = score.max()
        if best <= 0:
            break
        window = [v for v in range(n) if score[v] >= kappa * best]
        v = min(window, key=lambda v: (costs[v], -score[v]))
        if iteration == 0:
            delta = 1.0
        else:
            z0, z1, z2 = star @ unit[:, v], star @ y, unit[:, v] @ y
            delta = min((z0 - z1 * z2) / ((z0 - z1 * z2) + max(z1 - z0 * z2, 0)), 1.0)
        w = (1 - delta) * w
        w[v] += delta
        y = (1 - delta) * y + delta * unit[:, v]
        w, y = w / np.linalg.norm(y), y / np.linalg.norm(y)
        objective.append(float(1 - (star @ y) ** 2))
    w = w / norms
    qw = q @ w
    return w * max(0.0, float(qw @ np.full(n, 1 / n))) / float(qw @ qw), objective
