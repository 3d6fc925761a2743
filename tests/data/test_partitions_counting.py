"""Tables of counts: mending them is possible whenever it can be, moves no more than it must, and keeps proportions."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from partition_world import Table, mixed
from scipy.sparse import csr_array
from scipy.sparse.csgraph import maximum_flow

from coterie.data.partitions import counting
from coterie.data.partitions.counting import TooFewError, best_draw, by_owner, cut, dealt, lacking, mended


@st.composite
def tables(draw: st.DrawFn) -> Table:
    shape = draw(st.integers(1, 12)), draw(st.integers(1, 5))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    return np.floor(rng.lognormal(0, 1.5, shape) * rng.integers(0, 2, shape)).astype(np.int64)


@given(tables(), st.integers(0, 10))
def test_mending_gives_all_the_minimum_and_moves_only_what_lacks(counts: Table, minimum: int) -> None:
    before, clients = counts.copy(), len(counts)
    if clients * minimum > counts.sum():
        with pytest.raises(TooFewError):
            mended(counts, minimum)
        return
    table, moved = mended(counts, minimum)
    assert np.array_equal(counts, before)
    assert moved == lacking(counts, minimum)
    assert np.array_equal(table.sum(axis=0), counts.sum(axis=0))
    assert table.min() >= 0
    sizes = counts.sum(axis=1)
    assert (table.sum(axis=1)[sizes < minimum] == minimum).all()
    assert (table.sum(axis=1)[sizes >= minimum] >= minimum).all()
    assert (table[sizes < minimum] >= counts[sizes < minimum]).all()
    assert (table[sizes >= minimum] <= counts[sizes >= minimum]).all()


def test_a_client_keeps_its_proportions_if_the_large_ones_have_its_labels() -> None:
    counts = np.array([[4, 2, 0, 0], [300, 200, 100, 500], [50, 100, 90, 800]])
    table, moved = mended(counts, 12)
    assert (table[0].tolist(), moved) == ([8, 4, 0, 0], 6)


def test_samples_come_from_the_largest_client_that_has_the_label() -> None:
    counts = np.array([[0, 1], [50, 0], [30, 9], [20, 19], [2, 2]])
    table, moved = mended(counts, 4)
    assert moved == 3
    assert table.tolist() == [[0, 4], [50, 0], [30, 7], [20, 18], [2, 2]]  # sizes 39 and 39, then 38 and 39


def test_a_client_without_samples_gets_the_commonest_label_of_the_largest() -> None:
    table, _ = mended(np.array([[0, 0, 0], [10, 60, 20], [0, 0, 50]]), 5)
    assert table.tolist() == [[0, 5, 0], [10, 55, 20], [0, 0, 50]]


def possible(counts: Table, allowed: np.ndarray, minimum: int) -> bool:
    """Whether labels can be shared so that each client gets the minimum: an independent answer, by maximal flow."""
    clients, labels = counts.shape
    graph = np.zeros((clients + labels + 2, clients + labels + 2), np.int32)
    graph[0, 2 : 2 + labels] = counts.sum(axis=0)
    graph[2 : 2 + labels, 2 + labels :] = np.where(allowed.T, 10_000, 0)
    graph[2 + labels :, 1] = minimum
    return bool(maximum_flow(csr_array(graph), 0, 1).flow_value == clients * minimum)


@given(tables(), st.integers(1, 8), st.integers(0, 2**32))
def test_where_clients_may_not_have_all_labels_mending_succeeds_if_anything_can(
    counts: Table, minimum: int, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    allowed = (rng.random(counts.shape) < 0.5) | (counts > 0)
    allowed[:, rng.integers(counts.shape[1])] |= rng.random(len(counts)) < 0.5
    if not possible(counts, allowed, minimum):
        with pytest.raises(TooFewError):
            mended(counts, minimum, allowed)
        return
    table, moved = mended(counts, minimum, allowed)
    assert np.array_equal(table.sum(axis=0), counts.sum(axis=0))
    assert table.min() >= 0
    assert table.sum(axis=1).min() >= minimum
    assert not table[~allowed].any()
    assert moved >= lacking(counts, minimum)


def test_a_sample_is_passed_on_where_nobody_can_give_it_directly() -> None:
    counts = np.array([[1, 0, 0, 0], [2, 1, 0, 0], [0, 2, 1, 0], [0, 0, 5, 4]])
    allowed = np.array([[1, 0, 0, 0], [1, 1, 0, 0], [0, 1, 1, 0], [0, 0, 1, 1]], bool)
    table, moved = mended(counts, 3, allowed)
    assert table.tolist() == [[3, 0, 0, 0], [0, 3, 0, 0], [0, 0, 3, 0], [0, 0, 3, 4]]
    assert moved == 6


@given(st.lists(st.floats(0, 1), min_size=1, max_size=20), st.integers(0, 1000))
def test_cutting_gives_out_everything_in_proportion(weights: list[float], samples: int) -> None:
    shares = np.array(weights) + (sum(weights) == 0)
    shares = shares / shares.sum()
    counts = cut(shares, samples)
    assert counts.sum() == samples
    assert counts.min() >= 0
    assert np.abs(counts - shares * samples).max() < 1 + 1e-6
    assert not counts[shares == 0].any()


@given(st.integers(1, 6), st.integers(0, 2**32))
def test_dealing_follows_the_table(clients: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    y = mixed([30, 20, 10])
    counts = np.stack([rng.multinomial(size - 3, np.full(clients, 1 / clients)) for size in (30, 20, 10)], axis=1)
    parts = dealt(y, np.arange(3), counts, rng)
    assert [np.bincount(y[part], minlength=3).tolist() for part in parts] == counts.tolist()
    held = np.concatenate(parts)
    assert len(set(held.tolist())) == len(held) == 51


def test_owners_get_their_positions_and_nobody_the_rest() -> None:
    parts = by_owner(np.array([2, -1, 0, 2, -1, 0]), 4)
    assert [part.tolist() for part in parts] == [[2, 5], [], [0, 3], []]


def test_drawing_stops_at_the_first_good_table_and_else_keeps_the_best_of_twenty() -> None:
    drawn = iter(np.array([[[1], [7]], [[3], [5]], [[4], [4]], [[0], [8]]]))
    assert best_draw(lambda: next(drawn), 4).tolist() == [[4], [4]]
    assert len(list(drawn)) == 1
    sizes = iter([*range(5, 0, -1), 6, *range(5, -9, -1)])
    assert best_draw(lambda: np.array([[next(sizes)], [90]]), 10).tolist() == [[6], [90]]
    assert len(list(sizes)) == 0


def test_mending_many_clients_takes_steps_as_they_move_samples(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not a look at all clients for each sample: twice as many clients with the same shares are twice the work."""
    looked_at: list[int] = []
    largest = counting._Givers.largest

    def counted(self: counting._Givers, label: int) -> int | None:
        before = len(self._heaps[label])
        found = largest(self, label)
        looked_at.append(1 + before - len(self._heaps[label]))
        return found

    monkeypatch.setattr(counting._Givers, "largest", counted)
    work = []
    for clients in (50, 500):
        counts = np.tile(np.array([[0, 0], [1, 2], [30, 1], [9, 40], [12, 12]]), (clients // 5, 1))
        looked_at.clear()
        table, moved = mended(counts, 10)
        assert (table.sum(axis=1) >= 10).all()
        assert moved == 17 * clients // 5
        work.append(sum(looked_at))
    assert work[1] <= 12 * work[0]
