"""Inference similarity against counting agreements."""

import numpy as np
import pytest

from coterie.similarity import inference_similarity


def one_hot(labels: np.ndarray, classes: int) -> np.ndarray:
    return np.eye(classes)[labels]


def test_labels_give_the_share_of_samples_on_which_both_agree() -> None:
    labels = np.random.default_rng(0).integers(4, size=(6, 50))
    expected = [[np.mean([x == y for x, y in zip(a, b, strict=True)]) for b in labels] for a in labels]
    similarity = inference_similarity(labels)
    np.testing.assert_allclose(similarity, expected, atol=1e-15)
    np.testing.assert_array_equal(np.diagonal(similarity), 1)
    np.testing.assert_array_equal(similarity, similarity.T)
    np.testing.assert_allclose(inference_similarity(one_hot(labels, 4)), expected, atol=1e-14)
    np.testing.assert_allclose(inference_similarity(labels[:2], labels[2:]), similarity[:2, 2:])
    np.testing.assert_allclose(inference_similarity(one_hot(labels, 4)[:2], one_hot(labels, 4)[2:]), similarity[:2, 2:])


def test_soft_outputs_by_the_formula() -> None:
    b = np.random.default_rng(1).dirichlet(np.ones(3), size=(5, 20))
    expected = [[(x * y).sum() / np.linalg.norm(x) / np.linalg.norm(y) for y in b] for x in b]
    similarity = inference_similarity(b.astype(np.float32))
    np.testing.assert_allclose(similarity, expected, atol=1e-6)
    np.testing.assert_array_equal(np.diagonal(similarity), 1)
    assert similarity.min() >= 0
    assert similarity.max() <= 1


def test_models_that_know_one_class_and_a_single_client() -> None:
    np.testing.assert_array_equal(inference_similarity([[3] * 9, [3] * 9, [4] * 9]), [[1, 1, 0], [1, 1, 0], [0, 0, 1]])
    np.testing.assert_array_equal(inference_similarity([[3, 1]]), [[1]])
    assert inference_similarity(np.zeros((0, 4), int)).shape == (0, 0)


@pytest.mark.parametrize(
    ("predictions", "others", "message"),
    [
        (np.zeros(3, int), None, "shape"),
        (np.zeros((3, 0), int), None, "shape"),
        (np.zeros((3, 4)), None, "whole-number labels"),
        (-np.ones((2, 3, 4)), None, "negative numbers or NaN"),
        (np.full((2, 3, 4), np.nan), None, "negative numbers or NaN"),
        (np.full((2, 3, 4), np.inf), None, r"updates\[0\] holds NaN, infinity"),
        (np.zeros((3, 4), int), np.zeros((3, 5), int), "cannot be compared"),
    ],
)
def test_bad_input_is_refused(predictions: np.ndarray, others: np.ndarray | None, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        inference_similarity(predictions, others)
