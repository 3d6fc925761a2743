"""Parts as offsets are the lists of arrays that they stand for."""

import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from coterie.data import Dataset, Samples, divide
from coterie.data.parts import ClientParts, LabelParts, part_sizes, ranges

Lists = list[list[int]]
lists = st.lists(st.lists(st.integers(0, 50), max_size=5), max_size=6)


def listed(parts: object) -> Lists:
    return [part.tolist() for part in parts]  # type: ignore[attr-defined]


@given(lists, st.integers(-7, 7), st.integers(-7, 7), st.integers(0, 9))
def test_given_positions_are_those_of_the_list(expected: Lists, a: int, b: int, by: int) -> None:
    parts = ClientParts.of([np.array(part, np.int64) for part in expected])
    assert listed(parts) == expected
    assert [parts[i].tolist() for i in range(-len(expected), len(expected))] == expected * 2
    assert listed(parts[a:b]) == expected[a:b]
    assert listed(parts[::2]) == expected[::2]
    assert parts.together.tolist() == [position for part in expected for position in part]
    assert parts.owners.tolist() == [i for i, part in enumerate(expected) for _ in part]
    assert part_sizes(parts).tolist() == part_sizes([np.array(part) for part in expected]).tolist()
    assert listed(parts.moved(by)) == [[position + by for position in part] for part in expected]
    with pytest.raises(IndexError):
        parts[len(expected)]


@given(lists, st.integers(0, 9))
def test_ranges_lie_one_after_the_other(given: Lists, by: int) -> None:
    parts = ranges(given)
    assert parts.together.tolist() == list(range(sum(map(len, given))))
    assert part_sizes(parts).tolist() == [len(part) for part in given]
    assert listed(parts.moved(by)) == [(part + by).tolist() for part in parts]
    assert listed(parts[1:]) == listed(parts)[1:]


@given(st.lists(st.lists(st.booleans(), min_size=3, max_size=3), min_size=1, max_size=5), st.lists(st.integers(0, 2)))
def test_parts_by_label_are_all_samples_of_them(owned: list[list[bool]], labels: list[int]) -> None:
    y = np.sort(np.array(labels, np.int64))
    expected = [[i for i, label in enumerate(y) if own[label]] for own in owned]
    parts = LabelParts(np.searchsorted(y, np.arange(4)), np.array(owned))
    by = np.arange(len(owned)) * 100
    assert listed(parts) == listed(parts[:]) == expected
    assert part_sizes(parts).tolist() == [len(part) for part in expected]
    assert listed(parts.moved(by).moved(by)) == [[i + 200 * k for i in part] for k, part in enumerate(expected)]


def test_clients_with_the_same_labels_share_their_positions() -> None:
    parts = LabelParts(np.array([0, 5, 9]), np.array([[True, False], [False, True], [True, False]]))
    assert parts[0] is parts[2]
    assert parts[0] is not parts[1]


def test_the_parts_of_many_clients_are_two_arrays() -> None:
    y = np.arange(4000) % 4
    x = np.zeros((4000, 2), np.float32)
    pool = Dataset("many", Samples(x, y), Samples(x[:40], y[:40]), 4)
    data = divide(pool, "iid", {}, 1500, 0)
    assert isinstance(data.train_parts, ClientParts)
    assert data.train_parts.positions is None
    assert sys.getsizeof(data.train_parts.offsets) < 8 * 1600
    assert isinstance(data.test_parts, LabelParts)
    assert data.test_parts.owned.nbytes == 1500 * 4
