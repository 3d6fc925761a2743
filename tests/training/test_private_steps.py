"""How the samples of private steps are drawn, and what they cost, against dp-accounting and by integration."""

import math
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pytest

from coterie.messages import Plan, PrivateSteps, Schedule
from coterie.privacy import Release, SecretRandomness, renyi
from coterie.training.private_steps import drawn_batches, hiding_replacement, training_release

COINS = PrivateSteps(clip=0.5, noise=1.2, rate=0.1)
SHUFFLED = replace(COINS, shuffled=True)
PLAN = Plan(Schedule(0.1), steps=25, private=COINS)


def test_what_is_charged() -> None:
    assert training_release(PLAN) == Release("training", 1.2, 25, 0.1)
    assert training_release(replace(PLAN, private=SHUFFLED)) == Release("training", 1.2, 3)  # the third is begun
    assert training_release(replace(PLAN, steps=0)) is None
    assert training_release(Plan(Schedule(0.1))) is None


def test_each_sample_is_in_one_step_of_a_shuffled_epoch_whatever_others_there_are() -> None:
    batches = drawn_batches(300, 20, SHUFFLED, np.random.default_rng(0))
    for epoch in (batches[:10], batches[10:]):
        assert sorted(np.concatenate(epoch).tolist()) == [*range(300)]
        sizes = np.array([len(batch) for batch in epoch])
        assert sizes.std() == pytest.approx(math.sqrt(300 * 0.1 * 0.9), rel=0.6)  # dice, not equal parts
    assert [len(drawn_batches(n, 7, SHUFFLED, np.random.default_rng(0))) for n in (0, 1, 500)] == [7, 7, 7]
    assert not np.array_equal(batches[0], batches[10])


def test_coins_are_independent_of_each_other() -> None:
    """Of pairs of samples in 4,000 steps: both in one as often as q² says, and in two steps in a row too."""
    drawn = np.zeros((4000, 2))
    for step, batch in enumerate(drawn_batches(2, 4000, replace(COINS, rate=0.3), SecretRandomness(bytes(16)))):
        drawn[step, batch] = 1
    error = 4 * math.sqrt(0.09 * 0.91 / 4000)
    assert drawn.mean(axis=0) == pytest.approx([0.3, 0.3], abs=4 * math.sqrt(0.21 / 4000))
    assert (drawn[:, 0] * drawn[:, 1]).mean() == pytest.approx(0.09, abs=error)
    assert (drawn[1:, 0] * drawn[:-1, 0]).mean() == pytest.approx(0.09, abs=error)


def test_twice_the_noise_hides_a_replacement() -> None:
    assert hiding_replacement(PLAN).private == replace(COINS, noise=2.4)
    with pytest.raises(TypeError):
        hiding_replacement(Plan(Schedule(0.1)))


@pytest.mark.integration
@pytest.mark.parametrize("rate", [0.05, 0.5, 1.0])
@pytest.mark.parametrize(("noise", "steps"), [(0.7, 1), (1.0, 30), (3.0, 300)])
def test_a_replacement_under_twice_the_noise_costs_no_more_than_a_removal(
    noise: float, steps: int, rate: float
) -> None:
    """By dp-accounting's privacy loss distributions, which know both neighbours."""
    accounting = pytest.importorskip("dp_accounting", reason="needs the extra: pip install 'coterie[private]'")
    pytest.importorskip("dp_accounting.pld")

    def epsilon(z: float, neighbours: object) -> float:
        accountant = accounting.pld.PLDAccountant(neighbours, value_discretization_interval=1e-3)
        event = accounting.PoissonSampledDpEvent(rate, accounting.GaussianDpEvent(z))
        return float(accountant.compose(event, steps).get_epsilon(1e-5))

    neighbours = accounting.NeighboringRelation
    grid = 1e-3 * math.sqrt(steps) + 1e-3
    replaced, removed = epsilon(2 * noise, neighbours.REPLACE_ONE), epsilon(noise, neighbours.ADD_OR_REMOVE_ONE)
    assert replaced <= removed + grid


@pytest.mark.parametrize("order", [2, 5, 14])
@pytest.mark.parametrize("rate", [0.02, 0.3, 0.9])
def test_so_it_does_by_renyi_divergence(rate: float, order: int) -> None:
    """By integration, of the pair that is farthest apart: gradients of length C in opposite directions."""
    noise = 0.8
    x = np.linspace(-40, 40, 200_001)

    def log_density(mean: float, sigma: float) -> npt.NDArray[np.float64]:
        parts = [np.log1p(-rate) - (x / sigma) ** 2 / 2, math.log(rate) - ((x - mean) / sigma) ** 2 / 2]
        return np.asarray(np.logaddexp(*parts) - math.log(sigma * math.sqrt(2 * math.pi)))

    p, q = log_density(1.0, 2 * noise), log_density(-1.0, 2 * noise)
    replaced = math.log(np.trapezoid(np.exp(order * p - (order - 1) * q), x)) / (order - 1)
    assert replaced <= renyi(Release("training", noise, rate=rate), order)
