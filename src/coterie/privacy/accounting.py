"""What releases cost together, as ε at a δ.

Two questions have two answers:

- **What does a plan cost that is known beforehand?** Privacy loss distributions, by the package dp-accounting (extra
  ``private``), are exact to the last digits; `noise_for` finds the noise for an ε.
- **May one more release go out?** Who asks has seen the answers before, and chooses the next question by them.
  Composition theorems are for plans; here a *privacy filter* is needed. Those that lose nothing are known for Gaussian
  mechanisms (Koskela et al., 2023; Smith and Thakurta, 2022), and for Rényi divergence of an order fixed beforehand
  (Feldman and Zrnic, 2021). `spent` is such a filter, without any package.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal, TypeAlias

import numpy as np

from coterie.errors import CoterieError
from coterie.privacy.gaussian import check_guarantee, composed_noise, gaussian_epsilon

Filter: TypeAlias = Literal["gaussian", "renyi"]
"""How a client adds up: ``gaussian`` is exact, and has no way to count samples drawn by coins; ``renyi`` has."""
ORDERS = range(2, 1025)
"""Among which the filter's order is chosen, by the limit alone."""
LEAST, LARGEST = 0.1, 1e9
"""Noise multipliers that are looked for: less takes very long to account, and protects nothing."""
PRECISION = 1e-3
"""Of noise multipliers that are looked for, as a share; they err on the safe side."""


@dataclass(frozen=True)
class Release:
    """Gaussian mechanisms, one after the other, each on the samples that a coin chose."""

    what: str
    """What was told, for people to read."""
    noise: float
    """z: the noise's standard deviation over the L2 sensitivity to adding or removing one unit."""
    steps: int = 1
    rate: float = 1.0
    """q: the probability by which a unit takes part in a step, by a coin of its own that stays secret. 1: all do."""

    def __post_init__(self) -> None:
        if not 0 < self.noise < math.inf:
            raise ValueError(f"noise = {self.noise} should be greater than 0, and finite")
        if not (type(self.steps) is int and self.steps >= 1):
            raise ValueError(f"steps = {self.steps} should be a whole number from 1 on")
        if not 0 < self.rate <= 1:
            raise ValueError(f"rate = {self.rate} should be greater than 0 and at most 1")


def epsilon_of(releases: Iterable[Release], delta: float, interval: float = 1e-4) -> float:
    """Return the ε of releases that are planned beforehand, if a unit is added or removed.

    Where all units take part in all of them that is a closed form; else it needs dp-accounting, which puts privacy
    losses on a grid of this `interval`: a coarser one is faster, and errs more, on the safe side.

    >>> round(epsilon_of([Release("signature", noise=5.2759), Release("label counts", noise=5.2759)], 1e-5), 3)
    1.0
    """
    check_guarantee(1.0, delta)
    counts = _counted(releases)
    if all(release.rate == 1 for release in counts):
        return _gaussian_spent(counts, delta)
    accounting = _dp_accounting()
    accountant = accounting.pld.PLDAccountant(value_discretization_interval=interval)
    for release, times in counts.items():
        step = accounting.GaussianDpEvent(release.noise)
        event = step if release.rate == 1 else accounting.PoissonSampledDpEvent(release.rate, step)
        accountant.compose(event, times * release.steps)
    return float(accountant.get_epsilon(delta))


def fixed_size_epsilon(noise: float, steps: int, cohort: int, population: int, delta: float) -> float:
    """Return the ε of steps whose cohorts have a fixed size, if a unit is *replaced*: the size of all is public.

    `noise` is relative to the largest norm S of one contribution, as elsewhere. Replacing one changes a sum by up to
    2S, which halves it: a cohort of fixed size costs much more than coins. By Rényi divergence (Wang et al., 2019).
    """
    if not 1 <= cohort <= population:
        raise ValueError(f"cohort = {cohort} should be 1 to {population}, the population")
    accounting = _dp_accounting()
    step = accounting.SampledWithoutReplacementDpEvent(population, cohort, accounting.GaussianDpEvent(noise / 2))
    accountant = accounting.rdp.RdpAccountant(neighboring_relation=accounting.NeighboringRelation.REPLACE_ONE)
    return float(accountant.compose(step, steps).get_epsilon(delta))


def noise_for(epsilon: float, delta: float, cost: Callable[[float], float]) -> float:
    """Return the least noise multiplier by which a plan costs at most ε: `cost` says what it does with one.

    >>> round(noise_for(1.0, 1e-5, lambda z: epsilon_of([Release("signature", z)], 1e-5)), 2)
    3.73
    """
    check_guarantee(epsilon, delta)
    from scipy.optimize import brentq

    beyond = cache(lambda log: cost(math.exp(log)) - epsilon)  # which may take seconds
    high, factor = 0.0, math.log(2)
    while beyond(high) > 0:
        high += factor
        if high > math.log(LARGEST):
            raise CoterieError(f"no noise makes this plan ({epsilon:g}, {delta:g})-private: plan fewer steps")
    low = high - factor
    while beyond(low) <= 0:  # never far below what is enough: little noise takes long to account
        low, high = low - factor, low
        if low < math.log(LEAST):
            return math.exp(high)
    return math.exp(brentq(beyond, low, high, xtol=PRECISION / 4) + PRECISION / 2)


def spent(releases: Mapping[Release, int], epsilon: float, delta: float, by: Filter) -> float:
    """Return the ε at δ that releases have cost, each so many times, for a client whose limit is (ε, δ).

    As long as each release goes out only if this is at most ε with it, all that ever goes out is (ε, δ)-private,
    however questions were chosen by earlier answers. The way of counting must be fixed beforehand: to take the better
    of two at each question would promise more than it keeps.
    """
    check_guarantee(epsilon, delta)
    if not releases:
        return 0.0
    if by == "gaussian":
        if sampled := next((release for release in releases if release.rate < 1), None):
            raise CoterieError(
                f"'{sampled.what}' draws samples by coins (rate {sampled.rate:g}), which the filter 'gaussian' can't "
                "count: let the site count by 'renyi', or ask without sampling"
            )
        return _gaussian_spent(releases, delta)
    order = filter_order(epsilon, delta)
    divergence = sum(times * release.steps * renyi(release, order) for release, times in releases.items())
    return max(0.0, divergence + _conversion(order, delta))


def filter_order(epsilon: float, delta: float) -> int:
    """Return the order by which releases are counted towards the limit (ε, δ); it depends on nothing else.

    It is three quarters of the one that leaves room for most Gaussian releases: of that, samples drawn by coins cost up
    to three times as much where there is little noise, and Gaussian releases cost a few per cent more by this one.
    """
    best = max(ORDERS, key=lambda order: (epsilon - _conversion(order, delta)) / order)
    return max(ORDERS[0], round(0.75 * best))


def renyi(release: Release, order: int) -> float:
    """Return the Rényi divergence of one step, of a whole order (Mironov et al., 2019, equation 4).

    >>> renyi(Release("signature", noise=2.0), order=8), round(renyi(Release("training", 2.0, rate=0.01), order=8), 6)
    (1.0, 0.000116)
    """
    z, q = release.noise, release.rate
    if q == 1:
        return order / (2 * z**2)
    from scipy.special import gammaln, logsumexp

    k = np.arange(order + 1)
    ways = gammaln(order + 1) - gammaln(k + 1) - gammaln(order - k + 1)
    return float(
        logsumexp(ways + (order - k) * math.log1p(-q) + k * math.log(q) + k * (k - 1) / (2 * z**2)) / (order - 1)
    )


def _conversion(order: int, delta: float) -> float:
    """Return what is added to a divergence of this order for an ε at δ (Canonne et al., 2020, Proposition 12)."""
    return math.log1p(-1 / order) - math.log(delta * order) / (order - 1)


def _gaussian_spent(releases: Mapping[Release, int], delta: float) -> float:
    told = [release.noise / math.sqrt(times * release.steps) for release, times in releases.items()]
    return gaussian_epsilon(composed_noise(told), delta) if told else 0.0


def _counted(releases: Iterable[Release]) -> dict[Release, int]:
    counts: dict[Release, int] = {}
    for release in releases:
        counts[release] = counts.get(release, 0) + 1
    return counts


def _dp_accounting() -> Any:
    try:
        import dp_accounting
        import dp_accounting.pld
        import dp_accounting.rdp
    except ImportError:
        raise CoterieError(
            "what sampling costs is worked out by the package dp-accounting: pip install 'coterie[private]'"
        ) from None
    return dp_accounting
