"""Every rule against its definition, in float64 and by loops."""

from __future__ import annotations

import numpy as np
import pytest
from aggregation_world import RNG, START, Noted, members, moved

from coterie.federation.aggregation import Contribution, middle


@pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 8])
@pytest.mark.parametrize("case", ["random", "ties", "all equal", "zero updates", "1e38", "one 1e38", "equal norms"])
def test_every_rule_against_its_definition(n: int, case: str) -> None:
    """In float64, straight from the definitions; groups of one and two are cut, or are means."""
    rng = np.random.default_rng(n)
    start = {"w": rng.normal(size=(4, 3)).astype(np.float32), "b": rng.normal(size=3).astype(np.float32)}
    vectors = rng.normal(size=(n, 15))
    if case == "ties":
        vectors = rng.integers(0, 2, (n, 15)).astype(float)
    elif case == "all equal":
        vectors[:] = vectors[0]
    elif case == "zero updates":
        vectors[:] = 0
    elif case == "1e38":
        vectors *= 1e37
    elif case == "one 1e38":
        vectors[-1] = 1e38
    elif case == "equal norms":
        vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    origin = np.concatenate([start["w"].ravel(), start["b"]]).astype(float)
    models = [
        {"w": row[:12].reshape(4, 3).astype(np.float32), "b": row[12:].astype(np.float32)} for row in origin + vectors
    ]
    rows = np.array([np.concatenate([m["w"].ravel(), m["b"]]) for m in models], float)
    weights = rng.integers(1, 9, n).astype(float)
    group = [Contribution(c, m, start, weights[c]) for c, m in enumerate(models)]
    updates = rows - origin
    lengths = np.linalg.norm(updates, axis=1)
    moved_lengths = lengths[lengths > 0]
    limit = 3 * (np.median(moved_lengths) if len(moved_lengths) >= 3 else np.linalg.norm(origin))
    cut = origin + updates * np.minimum(1, limit / np.maximum(lengths, 1e-300))[:, None]
    seen = cut if n < 3 else rows
    apart = ((seen[:, None] - seen[None]) ** 2).sum(axis=2)
    nearest = [sorted(range(n), key=lambda j, i=i: (apart[i, j], j))[: n // 2 + 1] for i in range(n)]
    mixed = np.array([seen[near].mean(axis=0) for near in nearest])
    out = min((n - 1) // 2, int(np.ceil(n / 4)))
    neighbours = max(n - max(n - 3, 0) // 2 - 2, 1)
    scores = [sum(sorted(apart[i, j] for j in range(n) if j != i)[:neighbours]) for i in range(n)]
    expected = {
        ("mean", "none"): np.average(rows, axis=0, weights=weights),
        ("clipped", "none"): np.average(cut, axis=0, weights=weights),
        ("median", "none"): np.median(seen, axis=0),
        ("median", "neighbours"): np.median(mixed, axis=0),
        ("trimmed", "none"): np.sort(seen, axis=0)[out : n - out].mean(axis=0),
        ("trimmed", "neighbours"): np.sort(mixed, axis=0)[out : n - out].mean(axis=0),
        ("krum", "none"): rows[int(np.argmin(scores))] if n >= 3 else np.median(seen, axis=0),
    }
    size = np.abs(rows).max()
    for (rule, mixing), vector in expected.items():
        found = Noted(rule=rule, mixing=mixing).averages({0: group})[0]
        result = np.concatenate([found["w"].ravel(), found["b"]])
        assert np.allclose(result, vector, rtol=1e-4, atol=1e-5 * (1 if case != "1e38" else size)), rule


def test_the_median_among_owners_is_theirs() -> None:
    for n in range(1, 9):
        for count in range(1, n + 1):
            stack = RNG.normal(size=(n, 1)).astype(np.float32)
            owners = np.arange(n)[:, None] < count
            result = middle(stack, (n - 1) // 2, owners)[0]
            assert result == pytest.approx(float(np.median(stack[:count])), rel=1e-5)


@pytest.mark.parametrize("rule", ["krum", "median"])
def test_weights_do_not_drown_in_statistics(rule: str) -> None:
    """Liars send statistics like the others', which differ by hundreds, and weights turned round."""
    rng = np.random.default_rng(5)
    way, middle_of = rng.normal(size=(3, 4)), np.full(3, 500.0)

    def model(weight: float, spread: float) -> dict[str, np.ndarray]:
        statistics = middle_of + spread * rng.normal(size=3)
        noise = 0.05 * rng.normal(size=(3, 4))
        return {
            "fc.weight": (START["fc.weight"] + weight * way + noise).astype(np.float32),
            "bn.running_var": statistics.astype(np.float32),
            "bn.num_batches_tracked": np.array(9),
        }

    models = [model(1, 100) for _ in range(5)] + [model(-1, 1) for _ in range(2)]
    result = Noted(rule=rule).averages({0: members(*models)})[0]["fc.weight"]
    assert np.abs(result - START["fc.weight"] - way).max() < 0.3


def test_statistics_that_lie_are_far_too() -> None:
    honest = [moved(1.0, statistics=0.1 + 0.01 * k) for k in range(5)]
    liars = [{**honest[k], "bn.running_var": np.full(3, 1e9, np.float32)} for k in range(2)]
    for rule in ("krum", "median", "trimmed"):
        result = Noted(rule=rule).averages({0: members(*liars, *honest)})[0]
        assert np.all(result["bn.running_var"] < 2)
