"""Newcomers beside groups that stay, and models matched after grouping anew."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from coterie.clustering import LINKAGES, Threshold, cut, distance_to_groups, extend, matched, tree


def line(*places: float) -> np.ndarray:
    return np.abs(np.subtract.outer(places, places))


def test_they_join_what_is_near_and_found_what_is_not() -> None:
    old, new = np.array([0.0, 1.0, 10.0, 11.0]), np.array([0.5, 10.4, 30.0, 30.5, 60.0])
    grouping = Threshold("average", "degrees", threshold=3.0).group(line(*old))
    extended = extend(grouping, np.abs(new[:, None] - old), line(*new))
    assert extended.labels.tolist() == [0, 0, 1, 1, 0, 1, 2, 2, 3]
    assert extended.n_groups == 4
    assert extended.confidence == grouping.confidence


def test_a_bridge_does_not_merge_old_groups() -> None:
    """PACFL's claim that old groups never change is false for grouping anew; here they are kept."""
    old = np.array([0.0, 4.0])
    grouping = Threshold("single", "degrees", threshold=2.0).group(line(*old))
    assert extend(grouping, np.abs(np.array([[2.0]]) - old), [[0]]).labels.tolist() == [0, 1, 0]
    assert cut(tree(line(0, 4, 2), "single"), threshold=2.0).tolist() == [0, 0, 0]


def test_who_joined_does_not_move_a_group() -> None:
    grouping = Threshold("average", "degrees", threshold=3.0).group(line(0.0, 0.2))
    first = extend(grouping, [[2.8, 2.8]], [[0]])
    assert first.labels.tolist() == [0, 0, 0]
    second = extend(first, [[5.0, 5.0, 2.0]], [[0]])  # near the newcomer, not the founders
    assert second.labels.tolist() == [0, 0, 0, 1]


def test_founders_of_later_groups_are_joined_too() -> None:
    grouping = Threshold("weighted", "degrees", threshold=3.0).group(line(0.0, 1.0))
    first = extend(grouping, [[50.0, 50.0]], [[0]])
    assert extend(first, [[51.0, 51.0, 1.0]], [[0]]).labels.tolist() == [0, 0, 1, 1]


@pytest.mark.integration
@given(st.sampled_from(["single", "complete", "average", "weighted"]), st.integers(2, 9), st.integers(0, 9999))
def test_the_distance_to_a_group_is_that_of_its_tree(linkage: str, n: int, seed: int) -> None:
    """With everyone in one group and the newcomer far away, SciPy's last merge is at that very distance."""
    rng = np.random.default_rng(seed)
    inside = rng.uniform(1, 2, (n, n))
    inside = np.triu(inside, 1) + np.triu(inside, 1).T
    cross = rng.uniform(50, 60, (1, n))
    grouping = Threshold(linkage, "degrees", threshold=10.0).group(inside)
    everyone = np.block([[inside, cross.T], [cross, np.zeros((1, 1))]])
    assert distance_to_groups(grouping, cross) == pytest.approx(tree(everyone, linkage)[-1, 2])


def test_all_linkages_take_newcomers() -> None:
    for linkage in LINKAGES:
        grouping = Threshold(linkage, "degrees", threshold=3.0).group(line(0.0, 1.0, 20.0))
        assert extend(grouping, [[0.4, 0.6, 19.5]], [[0]]).labels.tolist()[-1] == 0


def test_nobody_new() -> None:
    grouping = Threshold("average", "degrees", threshold=3.0).group(line(0.0, 1.0))
    assert extend(grouping, np.zeros((0, 2)), np.zeros((0, 0))).labels.tolist() == [0, 0]


def test_blocks_of_other_sizes_and_nan_are_refused() -> None:
    grouping = Threshold("average", "degrees", threshold=3.0).group(line(0.0, 1.0))
    with pytest.raises(ValueError, match="cross should have the shape"):
        extend(grouping, [[1.0]], [[0]])
    with pytest.raises(ValueError, match="finite"):
        extend(grouping, [[1.0, np.nan]], [[0]])


def test_models_go_to_where_most_of_their_clients_are() -> None:
    assert matched([0, 0, 0, 1, 1], [1, 1, 0, 0, 0]) == {0: 1, 1: 0}
    assert matched([0, 0, 1, 2], [0, 0, 0, 0]) == {0: 0}
    assert matched([0, 0, 0], [0, 1, 1]) == {0: 1}
