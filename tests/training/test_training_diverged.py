"""Where the numbers end: at which step, and that nothing of it stays behind."""

import numpy as np
import pytest

from coterie.messages import MetaStep, ModelSpec, Plan, Schedule
from coterie.models import initial
from coterie.training import Diverged, Job, Trainer, steps

SPEC = ModelSpec("mclr", (4,), 3)


def job(plan: Plan, x: np.ndarray, seed: int = 0, **changes: np.ndarray) -> Job:
    start = initial(SPEC, 0) | changes
    return Job(SPEC, plan, start, x, np.arange(len(x)) % 3, np.random.default_rng(seed))


def samples(n: int = 20) -> np.ndarray:
    return np.random.default_rng(1).normal(size=(n, 4)).astype(np.float32)


@pytest.mark.parametrize("poison", [np.nan, np.inf])
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_says_at_which_step_a_bad_sample_came(trainer: Trainer, poison: float, seed: int, momentum: float) -> None:
    plan = Plan(Schedule(0.1), epochs=2, batch_size=3, momentum=momentum)
    x = samples()
    x[11, 2] = poison
    batches = [batch for (batch,) in steps(20, plan, np.random.default_rng(seed))]
    expected = next(step for step, batch in enumerate(batches) if 11 in batch)
    with pytest.raises(Diverged, match=rf"loss is not finite at step {expected}\b") as raised:
        trainer.train(job(plan, x, seed))
    assert raised.value.step == expected


@pytest.mark.parametrize("half", [0, 1])
def test_says_at_which_meta_step_a_bad_sample_came(trainer: Trainer, half: int) -> None:
    plan = Plan(Schedule(0.1), epochs=2, batch_size=3, meta_step=MetaStep(0.1))
    pairs = list(steps(20, plan, np.random.default_rng(0)))
    x = samples()
    x[pairs[2][half][0]] = np.nan
    with pytest.raises(Diverged) as raised:
        trainer.train(job(plan, x))
    assert raised.value.step == 2


def test_a_huge_rate_shows_in_the_loss_of_the_next_step(trainer: Trainer) -> None:
    with pytest.raises(Diverged, match="loss is not finite at step 1") as raised:
        trainer.train(job(Plan(Schedule(1e38), batch_size=5), samples() * 100))
    assert raised.value.step == 1


def test_a_huge_rate_in_the_last_step_shows_in_the_parameters(trainer: Trainer) -> None:
    with pytest.raises(Diverged, match=r"parameter is not finite, or beyond .*, at step 1"):
        trainer.train(job(Plan(Schedule(3e38), steps=1, batch_size=5), samples() * 100))


def test_a_received_model_that_is_not_finite_ends_at_once(trainer: Trainer) -> None:
    with pytest.raises(Diverged) as raised:
        trainer.train(job(Plan(Schedule(0.1)), samples(), **{"fc.bias": np.float32([0, np.nan, 0])}))
    assert raised.value.step == 0


def test_a_received_model_that_is_not_finite_is_noticed_even_without_a_step(trainer: Trainer) -> None:
    with pytest.raises(Diverged):
        trainer.train(job(Plan(Schedule(0.1)), samples(0), **{"fc.bias": np.float32([0, np.nan, 0])}))


def test_large_but_finite_numbers_are_no_divergence(trainer: Trainer) -> None:
    """A loss of hundreds is bad, not infinite."""
    outcome = trainer.train(job(Plan(Schedule(100.0), epochs=2, batch_size=5), samples()))
    assert np.isfinite(outcome.loss)
    assert outcome.loss > 10


def test_nothing_of_it_stays_behind(trainer: Trainer) -> None:
    good = Plan(Schedule(0.1), epochs=2, batch_size=5, momentum=0.9)
    before = trainer.train(job(good, samples()))
    with pytest.raises(Diverged):
        trainer.train(job(Plan(Schedule(1e38), batch_size=5, momentum=0.9), samples() * 100))
    after = trainer.train(job(good, samples()))
    assert after.loss == before.loss
    assert all(np.array_equal(after.params[name], value) for name, value in before.params.items())
