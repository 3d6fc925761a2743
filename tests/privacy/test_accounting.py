"""What releases cost: against published numbers, dp-accounting and its own examples, and as a filter."""

import math
import sys

import numpy as np
import pytest

from coterie.errors import CoterieError
from coterie.privacy import (
    Filter,
    Release,
    epsilon_of,
    filter_order,
    fixed_size_epsilon,
    gaussian_epsilon,
    gaussian_sigma,
    noise_for,
    renyi,
    spent,
)

TRAINING = Release("training", noise=1.1, steps=14063, rate=256 / 60000)


def classic(release: Release, delta: float) -> float:
    """ε from Rényi divergence as published tables have it: without the newer conversion."""
    return min(release.steps * renyi(release, order) + math.log(1 / delta) / (order - 1) for order in range(2, 100))


@pytest.mark.parametrize(
    ("release", "epsilon"),
    [
        (Release("Abadi et al., 2016, section 3.2", 4.0, 10_000, 0.01), 1.26),
        (Release("TensorFlow Privacy, MNIST, 15 epochs", 1.3, 3516, 256 / 60000), 1.19),
        (TRAINING, 3.01),
    ],
)
def test_published_tables(release: Release, epsilon: float) -> None:
    assert classic(release, 1e-5) == pytest.approx(epsilon, abs=0.006)


def test_divergence_is_that_of_the_densities() -> None:
    """Of (1 − q) N(0, z²) + q N(1, z²) from N(0, z²), by an integral."""
    z, q, order = 0.9, 0.2, 5
    x = np.linspace(-30, 40, 200_001)
    nobody = np.exp(-(x**2) / (2 * z**2)) / (z * math.sqrt(2 * math.pi))
    ratio = 1 - q + q * np.exp((2 * x - 1) / (2 * z**2))
    integral = np.sum(nobody * ratio**order) * (x[1] - x[0])
    assert renyi(Release("", z, rate=q), order) == pytest.approx(math.log(integral) / (order - 1))


def test_releases_without_sampling_are_one_gaussian_mechanism() -> None:
    releases = [Release("signature", 4.0), Release("signature", 4.0), Release("counts", 3.0, steps=2)]
    together = (2 / 16 + 2 / 9) ** -0.5
    assert epsilon_of(releases, 1e-5) == pytest.approx(gaussian_epsilon(together, 1e-5))
    assert epsilon_of([], 1e-5) == 0.0


@pytest.mark.integration
def test_dp_accounting_agrees_on_plans() -> None:
    accounting = pytest.importorskip("dp_accounting")
    plain = [Release("signature", 4.0), Release("counts", 3.0, steps=2)]
    accountant = accounting.pld.PLDAccountant().compose(accounting.GaussianDpEvent(4.0))
    accountant.compose(accounting.GaussianDpEvent(3.0), 2)
    assert epsilon_of(plain, 1e-5) == pytest.approx(accountant.get_epsilon(1e-5), rel=1e-3)
    # exact accounting is below the divergence's, but not by much
    assert 0.75 * classic(TRAINING, 1e-5) < epsilon_of([TRAINING], 1e-5) < classic(TRAINING, 1e-5)
    assert epsilon_of([TRAINING, *plain], 1e-5) > max(epsilon_of([TRAINING], 1e-5), epsilon_of(plain, 1e-5))
    for order in (2, 7, 64):
        rdp = accounting.rdp.RdpAccountant(orders=[order])
        rdp.compose(accounting.PoissonSampledDpEvent(TRAINING.rate, accounting.GaussianDpEvent(TRAINING.noise)), 300)
        assert 300 * renyi(TRAINING, order) == pytest.approx(rdp._rdp[0], rel=1e-6)


@pytest.mark.integration
def test_dp_accountings_own_examples() -> None:
    """Of its tests, `test_get_epsilon_gaussian_pld`: what a Gaussian mechanism costs."""
    accounting = pytest.importorskip("dp_accounting")
    for sigma in (1.0, 3.0):
        accountant = accounting.pld.PLDAccountant().compose(accounting.GaussianDpEvent(sigma))
        for delta in (1e-1, 1e-2, 1e-3):
            assert epsilon_of([Release("", sigma)], delta) == pytest.approx(accountant.get_epsilon(delta), rel=1e-6)


@pytest.mark.integration
def test_cohorts_of_fixed_size_cost_more_than_coins() -> None:
    """1,000 clients, 100 a round, 100 rounds: 5.2 by coins; of fixed size more, and much more by its sensitivity 2S."""
    pytest.importorskip("dp_accounting")
    coins = epsilon_of([Release("", 1.0, steps=100, rate=0.1)], 5e-4)
    assert coins == pytest.approx(5.15, abs=0.01)
    assert fixed_size_epsilon(2.0, 100, 100, 1000, 5e-4) == pytest.approx(11.51, abs=0.01)
    assert fixed_size_epsilon(1.0, 100, 100, 1000, 5e-4) == pytest.approx(80.0, abs=0.1)
    with pytest.raises(ValueError, match="cohort = 5"):
        fixed_size_epsilon(1.0, 1, 5, 4, 1e-5)


def test_noise_for_a_plan_is_enough_and_half_of_it_is_not() -> None:
    def cost(noise: float) -> float:
        return classic(Release("", noise, steps=50, rate=0.05), 1e-5)

    for epsilon in (0.5, 2.0, 30.0):
        noise = noise_for(epsilon, 1e-5, cost)
        assert 0.99 * epsilon < cost(noise) <= epsilon < 1.5 * epsilon < cost(noise / 2)
    with pytest.raises(CoterieError, match="plan fewer steps"):
        noise_for(1.0, 1e-5, lambda noise: 2.0)


def test_without_the_package_sampling_has_no_price(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "dp_accounting", None)
    assert epsilon_of([Release("signature", gaussian_sigma(1.0, 1e-5))], 1e-5) == pytest.approx(1.0)
    with pytest.raises(CoterieError, match=r"pip install 'coterie\[private\]'"):
        epsilon_of([TRAINING], 1e-5)


@pytest.mark.parametrize("by", ["gaussian", "renyi"])
def test_a_filter_never_lets_more_out_than_its_limit(by: Filter) -> None:
    """Releases go out as long as they fit, chosen anew each time; what is out costs no more than the limit."""
    limit, rng = (2.0, 1e-5), np.random.default_rng(3)
    out: dict[Release, int] = {}
    for _ in range(200):
        wish = Release("", float(rng.choice([4.0, 9.0, 20.0])), steps=int(rng.integers(1, 4)))
        if spent({**out, wish: out.get(wish, 0) + 1}, *limit, by) <= limit[0]:
            out[wish] = out.get(wish, 0) + 1
    exact = epsilon_of([release for release, times in out.items() for _ in range(times)], limit[1])
    assert 0.8 * limit[0] < exact <= limit[0]
    assert exact <= spent(out, *limit, by) + 1e-9
    assert spent({}, *limit, by) == 0.0


def test_a_release_of_the_whole_budget_fits_the_exact_filter() -> None:
    whole = Release("signature", gaussian_sigma(1.0, 1e-5))
    assert spent({whole: 1}, 1.0, 1e-5, "gaussian") <= 1.0 < spent({whole: 2}, 1.0, 1e-5, "gaussian")
    assert spent({whole: 1}, 1.0, 1e-5, "renyi") == pytest.approx(1.111, abs=0.001)  # what a fixed order loses


def test_sampled_releases_need_the_filter_that_counts_them() -> None:
    with pytest.raises(CoterieError, match="let the site count by 'renyi'"):
        spent({TRAINING: 1}, 8.0, 1e-5, "gaussian")
    order = filter_order(8.0, 1e-5)
    cost = spent({TRAINING: 1}, 8.0, 1e-5, "renyi")
    assert cost == pytest.approx(
        TRAINING.steps * renyi(TRAINING, order) + math.log1p(-1 / order) - math.log(1e-5 * order) / (order - 1)
    )


@pytest.mark.parametrize(
    "wrong", [{"noise": 0.0}, {"noise": math.nan}, {"steps": 0}, {"steps": 1.5}, {"rate": 0.0}, {"rate": 1.1}]
)
def test_what_is_no_release_is_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=f"{next(iter(wrong))} = "):
        Release("", **{"noise": 1.0, **wrong})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("epsilon", "steps", "noise"),
    [(1.0, 20, 2.103), (1.0, 500, 8.447), (2.0, 20, 1.363), (2.0, 500, 4.58), (4.0, 500, 2.574), (8.0, 20, 0.681)],
)
def test_the_order_suits_training_by_coins(epsilon: float, steps: int, noise: float) -> None:
    """What costs ε as privacy loss distributions have it costs, by our order, little more than by the best one."""
    training = Release("training", noise, steps, 0.1)
    by_order = {
        order: steps * renyi(training, order) + math.log1p(-1 / order) - math.log(1e-5 * order) / (order - 1)
        for order in range(2, 40)
    }
    assert spent({training: 1}, epsilon, 1e-5, "renyi") <= 1.12 * min(by_order.values())
