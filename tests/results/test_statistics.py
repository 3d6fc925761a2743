"""Statistics of comparisons, against SciPy and NumPy."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from coterie.results.statistics import leader, paired, spread

fractions = st.floats(0, 1).map(lambda value: round(value, 4))


@given(st.lists(fractions, min_size=1, max_size=12))
def test_mean_and_sample_deviation(values: list[float]) -> None:
    found = spread(values)
    assert found is not None
    assert (found.n, found.mean) == (len(values), pytest.approx(np.mean(values)))
    assert found.std is None if len(values) == 1 else found.std == pytest.approx(np.std(values, ddof=1), abs=1e-12)


def test_of_nothing_there_is_nothing() -> None:
    assert spread([]) is None
    assert paired({0: 1.0}, {1: 1.0}) is None
    assert paired({}, {}) is None


@pytest.mark.integration
@given(st.lists(st.tuples(fractions, fractions), min_size=2, max_size=12), st.sampled_from([0.9, 0.95, 0.99]))
def test_paired_differences_are_scipys(pairs: list[tuple[float, float]], level: float) -> None:
    a, b = (dict(enumerate(column)) for column in zip(*pairs, strict=True))
    found = paired(a, b, level)
    assert found is not None
    differences = [x - y for x, y in pairs]
    assert (found.n, found.mean) == (len(pairs), pytest.approx(np.mean(differences), abs=1e-12))
    if np.std(differences) < 1e-9:
        return
    test = stats.ttest_rel([x for x, _ in pairs], [y for _, y in pairs])
    low, high = test.confidence_interval(level)
    assert (found.low, found.high) == (pytest.approx(low, abs=1e-9), pytest.approx(high, abs=1e-9))
    assert found.p == pytest.approx(test.pvalue, rel=1e-6, abs=1e-12)


def test_pairs_are_of_the_same_seed() -> None:
    """Orders differ, and one seed is missing on either side."""
    a, b = {0: 0.9, 3: 0.7, 1: 0.8, 7: 0.1}, {1: 0.78, 0: 0.85, 3: 0.69, 5: 0.9}
    found = paired(a, b)
    assert found is not None
    assert found.n == 3
    assert found.mean == pytest.approx((0.05 + 0.01 + 0.02) / 3)


def test_no_interval_from_one_seed_or_from_equal_differences() -> None:
    for a, b in (({0: 0.9}, {0: 0.8}), ({0: 0.9, 1: 0.8}, {0: 0.8, 1: 0.7}), ({0: 0.3, 1: 0.4}, {0: 0.3, 1: 0.4})):
        found = paired(a, b)
        assert found is not None
        assert found.mean == pytest.approx(a[0] - b[0])
        assert (found.low, found.high, found.p) == (None, None, None)


def by_seed(*values: float) -> dict[int, float]:
    return dict(enumerate(values))


def test_the_best_is_clear_only_against_every_other() -> None:
    methods = {
        "good": by_seed(0.90, 0.91, 0.89, 0.92),
        "bad": by_seed(0.50, 0.52, 0.49, 0.51),
        "near": by_seed(0.89, 0.92, 0.88, 0.91),
    }
    found = leader(methods, range(4))
    assert found is not None
    assert (found.label, found.rivals, found.clear) == ("good", ("near",), False)
    found = leader({label: methods[label] for label in ("bad", "good")}, range(4))
    assert found is not None
    assert (found.label, found.clear) == ("good", True)


def test_the_limit_is_divided_by_the_number_of_others() -> None:
    a, b = by_seed(0.90, 0.93, 0.91), by_seed(0.88, 0.90, 0.895)
    p = stats.ttest_rel([*a.values()], [*b.values()]).pvalue
    assert 0.05 / 2 < p < 0.05
    low = by_seed(0.1, 0.11, 0.102)
    both, three = leader({"a": a, "b": b}, range(3)), leader({"a": a, "b": b, "low": low}, range(3))
    assert both is not None
    assert three is not None
    assert both.clear
    assert three.rivals == ("b",)


def test_who_misses_a_seed_does_not_lead_but_is_a_rival() -> None:
    found = leader({"whole": by_seed(0.5, 0.6, 0.7), "part": {0: 0.99}, "none": {}}, range(3))
    assert found is not None
    assert (found.label, found.rivals, found.among) == ("whole", ("part",), " of those with every seed")
    assert leader({"one": by_seed(0.5, 0.6), "none": {}}, range(2)) is None
    assert leader({"a": {0: 0.5}, "b": {1: 0.5}}, range(2)) is None


@pytest.mark.integration
@pytest.mark.parametrize(("methods", "seeds"), [(2, 3), (5, 5)])
def test_equal_methods_are_seldom_told_apart(methods: int, seeds: int) -> None:
    """All are equally good: at most one comparison in twenty may name a clear best."""
    rng, trials = np.random.default_rng(0), 600
    wrong = 0
    for _ in range(trials):
        values = rng.normal(0.8, 0.02, (methods, seeds)) + rng.normal(0, 0.05, seeds)
        found = leader({str(m): by_seed(*row) for m, row in enumerate(values)}, range(seeds))
        assert found is not None
        wrong += found.clear
    assert wrong / trials <= 0.05 + 3 * (0.05 * 0.95 / trials) ** 0.5
