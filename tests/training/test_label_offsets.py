"""Label offsets against closed forms and chance."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import softmax
from scipy.stats import chisquare

from coterie.training.label_offsets import label_offset, shrinkage

counts = st.lists(st.integers(0, 1000), min_size=1, max_size=12).map(np.array)


@given(counts)
def test_shrinkage_is_what_pearsons_statistic_leaves(counts: np.ndarray) -> None:
    s, labels = shrinkage(counts), len(counts)
    assert 0 <= s < 1
    if labels < 2 or not counts.any():
        assert s == 0
    elif (statistic := chisquare(counts).statistic) > 0:
        assert s == pytest.approx(max(0, 1 - (labels - 1) / statistic))


@pytest.mark.parametrize("samples", [20, 100, 600])
def test_counts_drawn_evenly_leave_next_to_nothing(samples: int) -> None:
    """X² of even draws is K − 1 on average, so that half of them leave nothing, and the others little."""
    draws = np.random.default_rng(0).multinomial(samples, np.full(10, 0.1), size=2000)
    left = np.array([shrinkage(draw) for draw in draws])
    assert np.mean(left == 0) > 0.5
    assert left.mean() < 0.15
    largest = [np.abs(label_offset(draw, "lacking")).max() for draw in draws if draw.all()]
    assert not largest or max(largest) == 0


@pytest.mark.parametrize(("samples", "least"), [(20, 0.88), (100, 0.97), (600, 0.99)])
def test_a_client_of_two_labels_keeps_nearly_all(samples: int, least: float) -> None:
    draws = np.random.default_rng(0).binomial(samples, 0.5, 500)
    for first in draws:
        two = np.array([first, samples - first, *[0] * 8])
        assert least < shrinkage(two) < 1


def test_an_imbalance_that_is_no_chance_stays() -> None:
    assert shrinkage(np.array([900, 50, 50])) > 0.99


@given(counts)
def test_offsets_by_hand(counts: np.ndarray) -> None:
    n, s = counts.sum(), shrinkage(counts)
    prior, lacking = label_offset(counts, "prior"), label_offset(counts, "lacking")
    assert prior.dtype == lacking.dtype == np.float32
    for y, of_label in enumerate(counts):
        if of_label:
            assert prior[y] == pytest.approx(s * np.log(of_label / n), rel=1e-6, abs=1e-7)
            assert lacking[y] == 0
        else:
            assert prior[y] == lacking[y] == pytest.approx(-s * np.log(n + 1), rel=1e-6)


def test_without_logits_the_prior_says_how_often_labels_are() -> None:
    """A network that knows nothing predicts the client's label frequencies, but for the rule of succession."""
    counts = np.array([6000, 3000, 1000, 0])
    told = softmax(label_offset(counts, "prior").astype(np.float64))
    assert told == pytest.approx([0.6, 0.3, 0.1, 1e-4], abs=1e-3)


def test_nobody_has_no_offset() -> None:
    for kind in ("prior", "lacking"):
        assert not label_offset(np.zeros(5, int), kind).any()  # type: ignore[arg-type]
