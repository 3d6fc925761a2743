"""Which samples a step uses: passes, pairs, and the pools of a curriculum."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from coterie.messages import Curriculum, MetaStep, Plan, Schedule
from coterie.training import pool_size, steps, steps_per_epoch, total_steps

LR = Schedule(0.1)


def drawn(samples: int, plan: Plan, seed: int = 0, order: np.ndarray | None = None) -> list[tuple[np.ndarray, ...]]:
    return list(steps(samples, plan, np.random.default_rng(seed), order))


@pytest.mark.integration
@given(st.integers(1, 40), st.integers(1, 12), st.integers(0, 4), st.integers(0, 99))
def test_every_sample_once_per_epoch_in_full_batches_and_a_last_partial_one(
    samples: int, batch_size: int, epochs: int, seed: int
) -> None:
    plan = Plan(LR, epochs=epochs, batch_size=batch_size)
    batches = [batch for (batch,) in drawn(samples, plan, seed)]
    full, rest = divmod(samples, batch_size)
    sizes = [batch_size] * full + [rest] * (rest > 0)
    assert [len(batch) for batch in batches] == sizes * epochs
    assert steps_per_epoch(samples, plan) == len(sizes)
    assert total_steps(samples, plan) == len(batches)
    for epoch in range(epochs):
        seen = np.concatenate(batches[epoch * len(sizes) : (epoch + 1) * len(sizes)])
        np.testing.assert_array_equal(np.sort(seen), np.arange(samples))


def test_epochs_are_shuffled_differently_and_seeds_too() -> None:
    plan = Plan(LR, epochs=2, batch_size=50)
    (first,), (second,) = drawn(50, plan)
    assert not np.array_equal(first, second)
    assert not np.array_equal(first, np.arange(50))
    assert not np.array_equal(first, drawn(50, plan, seed=1)[0][0])


@given(
    st.integers(1, 30),
    st.integers(1, 7),
    st.integers(0, 15),
    st.none() | st.just(0.1),
    st.none() | st.just(Curriculum(a=0.7, b=0.1)),
)
def test_steps_are_as_many_as_asked_and_the_same_for_the_same_stream(
    samples: int, batch_size: int, count: int, meta_step: MetaStep | None, curriculum: Curriculum | None
) -> None:
    plan = Plan(LR, steps=count, batch_size=batch_size, meta_step=meta_step, curriculum=curriculum)
    order = np.random.default_rng(4).permutation(samples)
    first, again = drawn(samples, plan, 3, order), drawn(samples, plan, 3, order)
    assert len(first) == count == total_steps(samples, plan)
    for a, b in zip(first, again, strict=True):
        assert len(a) == len(b) == (1 if meta_step is None else 2)
        assert all(np.array_equal(i, j) for i, j in zip(a, b, strict=True))


@given(st.integers(1, 40), st.integers(1, 12), st.integers(1, 3))
def test_meta_steps_pair_consecutive_batches(samples: int, batch_size: int, epochs: int) -> None:
    """The batches are those of ordinary training: (b1, b2), (b3, b4), …; a last odd one is left out."""
    plan = Plan(LR, epochs=epochs, batch_size=batch_size, meta_step=MetaStep(0.1))
    pairs = drawn(samples, plan, seed=5)
    per_epoch = -(-samples // batch_size)
    ordinary = [batch for (batch,) in drawn(samples, Plan(LR, epochs=epochs, batch_size=batch_size), seed=5)]
    expected = []
    for epoch in range(epochs):
        batches = ordinary[epoch * per_epoch : (epoch + 1) * per_epoch]
        if per_epoch == 1:
            expected.append((batches[0], batches[0]))
        expected += [(batches[2 * k], batches[2 * k + 1]) for k in range(per_epoch // 2)]
    assert len(pairs) == len(expected) == epochs * max(1, per_epoch // 2)
    for (a, b), (c, d) in zip(pairs, expected, strict=True):
        np.testing.assert_array_equal(a, c)
        np.testing.assert_array_equal(b, d)


def test_a_single_batch_serves_both_halves_of_a_meta_step() -> None:
    (pair,) = drawn(4, Plan(LR, batch_size=10, meta_step=MetaStep(0.1)))
    np.testing.assert_array_equal(pair[0], pair[1])
    assert sorted(pair[0]) == [0, 1, 2, 3]


@pytest.mark.parametrize("meta_step", [None, MetaStep(0.1)])
@pytest.mark.parametrize("given_steps", [None, 5])
def test_without_samples_there_are_no_steps(meta_step: MetaStep | None, given_steps: int | None) -> None:
    plan = Plan(LR, epochs=3, steps=given_steps, meta_step=meta_step)
    assert drawn(0, plan) == []
    assert total_steps(0, plan) == 0


@given(
    st.integers(1, 60),
    st.integers(1, 8),
    st.integers(1, 30),
    st.floats(0, 1),
    st.floats(0, 1),
    st.sampled_from(["exponential", "step", "root", "linear", "quadratic"]),
)
def test_a_curriculum_draws_from_the_pool_of_the_moment_in_passes(
    samples: int, batch_size: int, count: int, a: float, b: float, pacing: str
) -> None:
    curriculum = Curriculum(pacing=pacing, a=a, b=b)  # type: ignore[arg-type]
    plan = Plan(LR, steps=count, batch_size=batch_size, curriculum=curriculum)
    order = np.random.default_rng(6).permutation(samples)
    seen: list[int] = []
    size = -1
    for t, (batch,) in enumerate(drawn(samples, plan, 7, order)):
        pool = pool_size(curriculum, t, count, samples, batch_size)
        if pool != size or len(seen) == pool:  # a new pass: the pool has grown, or all of it was seen
            seen, size = [], pool
        assert set(batch) <= set(order[:pool])
        assert len(batch) == min(batch_size, pool - len(seen))
        assert not set(batch) & set(seen)
        assert len(set(batch)) == len(batch)
        seen += list(batch)


def test_anti_and_curriculum_orders_show_opposite_ends_first() -> None:
    plan = Plan(LR, epochs=4, batch_size=5, curriculum=Curriculum(a=0.8, b=0.2))
    order = np.random.default_rng(8).permutation(50)
    easy, hard = drawn(50, plan, 1, order)[0][0], drawn(50, plan, 1, order[::-1])[0][0]
    assert set(easy) <= set(order[:10])
    assert set(hard) <= set(order[-10:])


def test_pools_grow_and_end_with_everything() -> None:
    plan = Plan(LR, epochs=10, batch_size=5, curriculum=Curriculum(a=0.5, b=0.1))
    order = np.arange(50)
    highest = [int(batch.max()) for (batch,) in drawn(50, plan, 1, order)]
    assert all(top < 5 for top in highest[:1])
    assert set(np.concatenate([batch for (batch,) in drawn(50, plan, 1, order)[50:60]])) == set(range(50))
    sizes = [pool_size(plan.curriculum, t, 100, 50, 5) for t in range(100)]  # type: ignore[arg-type]
    assert all(a <= b for a, b in pairwise(sizes))
    assert all(top < size for top, size in zip(highest, sizes, strict=True))


@given(samples=st.integers(1, 300), batch_size=st.integers(1, 60), seed=st.integers(0, 5))
def test_even_batches_are_as_many_and_differ_by_one_sample_at_most(samples: int, batch_size: int, seed: int) -> None:
    plan = Plan(Schedule(0.1), epochs=2, batch_size=batch_size)
    batches = [batch for (batch,) in steps(samples, plan, np.random.default_rng(seed), even=True)]
    assert len(batches) == total_steps(samples, plan)
    sizes = [len(batch) for batch in batches]
    assert max(sizes) - min(sizes) <= 1
    assert max(sizes) <= batch_size
    half = len(batches) // 2
    for epoch in (batches[:half], batches[half:]):
        assert sorted(np.concatenate(epoch).tolist()) == list(range(samples))
