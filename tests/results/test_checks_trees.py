"""Trees of merges in a run folder: heights may be infinite, where groups are never merged, and nothing else."""

import numpy as np
import pytest

from coterie.clustering import forest
from coterie.results.charts import completed_distances, tree_of
from coterie.results.checks import error_in_arrays

DISTANCES = np.array([[0, 1, np.nan], [1, 0, np.nan], [np.nan, np.nan, 0]])


def views(tree: np.ndarray) -> dict[str, np.ndarray]:
    numbers = np.arange(3)
    return {"grouped": numbers, "proximity": DISTANCES.astype(np.float32), "tree": tree, "labels": numbers // 2}


def test_what_is_never_merged_is_at_an_infinite_height() -> None:
    assert error_in_arrays(views(forest(DISTANCES))) is None  # type: ignore[arg-type]


@pytest.mark.parametrize(("place", "value"), [((0, 2), np.nan), ((1, 2), -np.inf), ((1, 3), np.inf), ((1, 0), np.inf)])
def test_other_numbers_that_are_none_are_refused(place: tuple[int, int], value: float) -> None:
    tree = forest(DISTANCES)
    tree[place] = value
    assert error_in_arrays(views(tree)) is not None  # type: ignore[arg-type]


def test_such_trees_are_drawn_apart_and_put_on_a_map() -> None:
    drawn = tree_of(forest(DISTANCES), ["a", "b", "c"], [0, 0, 1], title="", unit="")
    assert [merge.height for merge in drawn.merges] == [1.0]
    assert sorted(drawn.names) == ["a", "b", "c"]
    assert np.isfinite(completed_distances(DISTANCES)).all()
