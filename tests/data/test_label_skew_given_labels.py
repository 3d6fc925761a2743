"""The partition in which every client has the labels that it is told."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from partition_world import division, mixed, table

from coterie.data.partitions.label_skew import read_sets
from coterie.errors import CoterieError


def test_sets_are_taken_in_turn_and_all_samples_of_used_labels_are_shared() -> None:
    y = mixed([50] * 6)
    made = division("given-labels", y, 6, labels="0+1/2+3/5")
    held = table(y, made)
    assert made.true_groups is not None
    assert made.true_groups.tolist() == [0, 1, 2, 0, 1, 2]
    assert (held[:, [0, 1, 2, 3, 5]].sum(axis=0) == 50).all()
    assert held[:, 4].sum() == 0
    for client, labels in enumerate([[0, 1], [2, 3], [5]] * 2):
        assert np.flatnonzero(held[client]).tolist() == labels
        assert (held[client, labels] == 25).all()


@given(
    st.sets(st.integers(0, 5), min_size=1),
    st.sets(st.integers(0, 5), min_size=1),
    st.integers(6, 30),
    st.integers(0, 99),
)
def test_what_the_first_client_gets_does_not_depend_on_the_second(
    first: set[int], second: set[int], samples: int, seed: int
) -> None:
    y = mixed([70] * 6)
    texts = ["+".join(map(str, sorted(labels))) for labels in (first, second)]
    alone = division("given-labels", y, 1, seed, labels=texts[0], samples=samples)
    both = division("given-labels", y, 2, seed, labels="/".join(texts), samples=samples)
    assert np.array_equal(alone.parts[0], both.parts[0])
    assert not set(both.parts[0]) & set(both.parts[1])
    held = table(y, both)
    for row, labels in zip(held, (first, second), strict=True):
        assert row.sum() == samples
        assert set(np.flatnonzero(row)) == labels
        assert np.ptp(row[sorted(labels)]) <= 1


def test_one_label_may_be_written_as_a_number() -> None:
    y = mixed([9] * 3)
    assert sorted(table(y, division("given-labels", y, 2, labels=2)).tolist()) == [[0, 0, 4], [0, 0, 5]]
    assert read_sets("2") == [[2]]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"labels": "0+7"}, "data set 'labels' has no label 7: its labels are 0, 1, 2"),
        ({"labels": "0+x"}, "should be sets of labels like 8+9/0+1"),
        ({"labels": "0/"}, "should be sets of labels like 8+9/0+1"),
        ({"labels": "0+0"}, "'0+0' names a label twice"),
        ({"labels": "0/1/2"}, "there are 3 sets of labels, but 2 clients: use at least 3 clients"),
        ({"labels": "0+1/2", "samples": 1}, "1 samples are too few for 2 labels: use at least 2"),
        ({"labels": "0/0", "samples": 20}, "of label 0 there are 10 samples left where 20 are needed"),
    ],
)
def test_refusals_say_what_to_write(options: dict[str, Any], message: str) -> None:
    with pytest.raises(CoterieError) as refused:
        division("given-labels", mixed([30] * 3), 2, **options)
    assert message in str(refused.value)
