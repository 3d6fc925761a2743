"""Metrics against scikit-learn, on scores with ties, lacking labels and nonsense."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst
from sklearn.metrics import accuracy_score, f1_score, roc_auc_score

from coterie.errors import CoterieError
from coterie.messages import ModelSpec
from coterie.models import initial
from coterie.training import CommonTest, score
from coterie.training.evaluation import softmax
from coterie.training.metrics import METRICS, measured, metric
from coterie.training.torch_trainer import TorchTrainer

scored = st.integers(2, 5).flatmap(
    lambda classes: st.integers(1, 30).flatmap(
        lambda samples: st.tuples(
            npst.arrays(np.float32, (samples, classes), elements=st.sampled_from([-2.0, -0.5, 0.0, 0.25, 1.0, 3.0])),
            npst.arrays(np.int64, samples, elements=st.integers(0, classes - 1)),
        )
    )
)


@pytest.mark.integration
@given(scored)
def test_metrics_are_those_of_scikit_learn(drawn: tuple[np.ndarray, np.ndarray]) -> None:
    scores, y = drawn
    given_labels = scores.argmax(axis=1)
    assert measured("accuracy", scores, y) == pytest.approx(accuracy_score(y, given_labels))
    assert measured("f1", scores, y) == pytest.approx(f1_score(y, given_labels, average="macro", zero_division=0))
    labels = np.unique(y)
    if len(labels) == 1:
        assert measured("auc", scores, y) is None
    else:
        areas = [roc_auc_score(y == label, scores[:, label]) for label in labels]
        assert measured("auc", scores, y) == pytest.approx(np.mean(areas))


def test_auc_of_two_labels_is_the_usual_one() -> None:
    rng = np.random.default_rng(0)
    probability, y = softmax(rng.normal(size=(200, 2)).astype(np.float32)), rng.integers(2, size=200)
    assert measured("auc", probability, y) == pytest.approx(roc_auc_score(y, probability[:, 1]))


def test_auc_of_several_labels_is_scikit_learns_one_against_the_rest() -> None:
    rng = np.random.default_rng(0)
    probability, y = softmax(rng.normal(size=(200, 4)).astype(np.float32)), np.arange(200) % 4
    expected = roc_auc_score(y, probability, multi_class="ovr")
    assert measured("auc", probability, y) == pytest.approx(expected)


def test_auc_tells_confident_samples_apart() -> None:
    """In float32 the probabilities of margins 15 and beyond are not all different from 1."""
    margins, y = np.float32([30, 15, 20, 25, -15, -30, 18, 28]), np.array([1, 0, 1, 0, 0, 0, 0, 1])
    outputs = np.stack([np.zeros_like(margins), margins], axis=1)
    assert measured("auc", softmax(outputs), y) == pytest.approx(roc_auc_score(y, margins))


@pytest.mark.parametrize("name", ["accuracy", "f1", "auc"])
def test_no_samples_and_no_numbers(name: str) -> None:
    assert measured(name, np.zeros((0, 3), np.float32), np.zeros(0, np.int64)) is None
    broken = np.full((4, 3), np.nan, np.float32)
    broken[0] = [np.inf, -np.inf, 0]
    assert 0 <= (measured(name, broken, np.array([0, 1, 2, 1])) or 0) <= 1


def test_a_metric_of_ones_own_is_a_share_or_refused() -> None:
    metric("test-only-top2")(lambda scores, y: float(np.mean((np.argsort(scores)[:, -2:] == y[:, None]).any(axis=1))))
    metric("test-only-seven")(lambda scores, y: 7.0)
    try:
        assert (
            measured("test-only-top2", np.eye(3, dtype=np.float32) + [[0, 0.2, 0.5]] * 3, np.array([0, 2, 0])) == 2 / 3
        )
        with pytest.raises(CoterieError, match=r"returned 7.0: return a share from 0 to 1"):
            measured("test-only-seven", np.eye(3, dtype=np.float32), np.arange(3))
    finally:
        for name in ("test-only-top2", "test-only-seven"):
            del METRICS._items[name]


@pytest.mark.parametrize("loss", [None, "binary"])
@pytest.mark.parametrize("offset", [None, np.float32([0, -3, 1])])
def test_a_common_test_set_measures_as_a_client_alone_does(loss: str | None, offset: np.ndarray | None) -> None:
    """Outputs are remembered, and scores of parts made of them; probabilities only where there is a softmax."""
    rng, spec = np.random.default_rng(1), ModelSpec("mclr", (4,), 3, loss=loss)
    x, y = rng.normal(size=(600, 4)).astype(np.float32), rng.integers(3, size=600)
    params, trainer = initial(spec, 0), TorchTrainer()
    common = CommonTest(x, y, lambda raw: raw)
    for part in (np.arange(600), np.arange(5, 400, 7), np.arange(0)):
        shared = common.score(trainer, spec, params, part, offset, "auc").summary()
        alone = score(trainer, spec, params, x[part], y[part], offset, "auc").summary()
        assert shared == alone
    outputs = trainer.logits(spec, params, x) + (0 if offset is None else offset)
    table = softmax(outputs) if loss is None else outputs
    expected = np.mean([roc_auc_score(y == label, table[:, label]) for label in range(3)])
    assert common.score(trainer, spec, params, np.arange(600), offset, "auc").score == pytest.approx(expected, abs=1e-6)
    assert common.score(trainer, spec, params, np.arange(600), offset).score is None
