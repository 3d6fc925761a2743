"""What turning, shading and inverting an image does to its outlines."""

import numpy as np
import pytest

from coterie.messages.verbs.moments import OF_AN_IMAGE
from coterie.similarity.outlines import NUMBERS, outlines


@pytest.fixture(params=[(1, 8, 8), (3, 9, 9), (2, 12, 7)])
def images(request: pytest.FixtureRequest) -> np.ndarray:
    return np.random.default_rng(0).normal(size=(5, *request.param)).astype(np.float32)


def cells(numbers: np.ndarray) -> np.ndarray:
    """Strength, cos, sin and shade in rows and columns of cells, (n, 4, 2, 2)."""
    return numbers.reshape(len(numbers), 4, 2, 2)


def test_they_are_as_many_as_the_verb_says(images: np.ndarray) -> None:
    assert outlines(images).shape == (5, OF_AN_IMAGE) == (5, NUMBERS)
    np.testing.assert_allclose(np.linalg.norm(outlines(images), axis=1), 1, rtol=1e-5)


def test_by_definition() -> None:
    image = np.random.default_rng(3).normal(size=(1, 1, 6, 6)).astype(np.float32)
    grey = (image[0, 0] - image.mean()) / image.std()
    framed = np.pad(grey, 1, mode="edge")
    expected = np.zeros((4, 2, 2))
    for i in range(6):
        for j in range(6):
            right, down = framed[i + 1, j + 2] - framed[i + 1, j], framed[i + 2, j + 1] - framed[i, j + 1]
            m, angle = np.hypot(right, down), np.arctan2(down, right)
            found = [np.sqrt(m), np.sqrt(m) * np.cos(2 * angle), np.sqrt(m) * np.sin(2 * angle), grey[i, j] / 4]
            expected[:, i // 3, j // 3] += np.array(found) / 9
    expected /= np.linalg.norm(expected)
    np.testing.assert_allclose(cells(outlines(image))[0], expected, rtol=1e-4, atol=1e-6)


def test_a_turned_image_has_turned_cells_and_directions(images: np.ndarray) -> None:
    before, after = cells(outlines(images)), cells(outlines(np.rot90(images, axes=(2, 3)).copy()))
    signs = np.array([1, -1, -1, 1])[:, None, None]
    np.testing.assert_allclose(after, signs * np.rot90(before, axes=(2, 3)), atol=1e-5)


def test_brightness_contrast_and_colour_do_not_count(images: np.ndarray) -> None:
    np.testing.assert_allclose(outlines(images * 7 + 3), outlines(images), atol=1e-4)
    np.testing.assert_allclose(outlines(images[:, ::-1]), outlines(images), atol=1e-5)


def test_an_inverted_image_differs_in_its_shades_only(images: np.ndarray) -> None:
    signs = np.array([1, 1, 1, -1])[:, None, None]
    np.testing.assert_allclose(cells(outlines(-images)), signs * cells(outlines(images)), atol=1e-5)


def test_a_blank_image_has_none_and_many_are_as_one_by_one() -> None:
    assert not outlines(np.full((2, 3, 5, 5), 9, np.float32)).any()
    assert outlines(np.zeros((0, 1, 4, 4), np.float32)).shape == (0, NUMBERS)
    many = np.random.default_rng(1).normal(size=(700, 3, 32, 32)).astype(np.float32)  # more than are worked on at once
    np.testing.assert_allclose(outlines(many)[[0, 681, 682, 699]], outlines(many[[0, 681, 682, 699]]), atol=1e-6)
    assert np.isfinite(outlines(np.ones((1, 1, 1, 5), np.float32) * np.arange(5, dtype=np.float32))).all()
