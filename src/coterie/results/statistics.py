"""What several seeds allow to say: spread, paired differences, and whether one method is clearly the best."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

BySeed = Mapping[int, float]
NO_SPREAD = 1e-12
"""Deviations below this are rounding: values that are all alike tell nothing about their spread."""


@dataclass(frozen=True)
class Spread:
    """Of one number over seeds; `std` is that of a sample (n - 1), None for a single seed."""

    n: int
    mean: float
    std: float | None


@dataclass(frozen=True)
class Difference:
    """Of two methods over the `n` seeds that both have; no interval for one seed, nor where all seeds differ alike."""

    n: int
    mean: float
    low: float | None
    high: float | None
    p: float | None
    """Of the two-sided paired t test."""


@dataclass(frozen=True)
class Leader:
    """Who has the highest mean, and which others it can't be told from."""

    label: str
    rivals: tuple[str, ...]
    among: str = ""
    """Of whom it is the highest, where some miss a seed and so can't lead."""
    p: Mapping[str, float | None] = field(default_factory=dict)
    """Of the paired t test against each of the others; None where there is none."""
    equals: tuple[str, ...] = ()
    """Rivals with every seed and the same mean."""
    common: Mapping[str, int] = field(default_factory=dict)
    """Seeds that it shares with each of the others."""
    best: str = "highest"
    """What its mean is."""

    @property
    def clear(self) -> bool:
        """Whether it is significantly better than all others."""
        return not self.rivals

    def named(self) -> str:
        """Say who has the highest mean.

        >>> Leader("a", ("b", "c"), equals=("b",)).named(), Leader("a", ()).named()
        ('a and b have the same mean, the highest', 'a has the highest mean')
        >>> Leader("a", ("b",), equals=("b",)).named()
        'a and b have the same mean'
        """
        if self.equals:
            labels = ", ".join([self.label, *self.equals[:-1]])
            others = {*self.rivals, *self.p} - {*self.equals}
            return f"{labels} and {self.equals[-1]} have the same mean" + f", the {self.best}" * bool(others)
        return f"{self.label} has the {self.best} mean"

    def not_told_from(self, listed: Callable[[Sequence[str]], str]) -> str:
        """Say which others it can't be told from, and why; empty where there are none but equals."""
        tested = [label for label in self.rivals if label not in self.equals and self.p.get(label) is not None]
        untested = [label for label in self.rivals if label not in self.equals and label not in tested]
        counts = sorted({self.common[label] for label in tested})
        seeds = f"{counts[0]} seeds" if len(counts) == 1 else f"{counts[0]} to {counts[-1]} seeds" if counts else ""
        parts = [f"not significantly different from {listed(tested)} (paired t test, {seeds})"] if tested else []
        parts += [f"no test against {listed(untested)} (fewer than two common seeds, or all alike)"] if untested else []
        return "; ".join(parts)


def spread(values: Sequence[float]) -> Spread | None:
    """Return mean and standard deviation; None of nothing.

    >>> spread([1.0, 2.0, 3.0])
    Spread(n=3, mean=2.0, std=1.0)
    """
    if not values:
        return None
    mean = math.fsum(values) / len(values)
    if len(values) == 1:
        return Spread(1, mean, None)
    return Spread(len(values), mean, math.sqrt(math.fsum((v - mean) ** 2 for v in values) / (len(values) - 1)))


def mean(values: Iterable[float | None]) -> float | None:
    """Return the mean of the values that are there; None of nothing.

    >>> mean([0.5, None, 1.0]), mean([None])
    (0.75, None)
    """
    there = [value for value in values if value is not None]
    return math.fsum(there) / len(there) if there else None


def by_group(values: Sequence[float | None], groups: Sequence[int], many: int = 0) -> list[list[float | None]]:
    """Return the values of each group; groups are numbered from 0, and at least so `many`.

    >>> by_group([0.5, 0.7, 1.0], [0, 0, 2], many=4)
    [[0.5, 0.7], [], [1.0], []]
    """
    of_group: list[list[float | None]] = [[] for _ in range(max([many - 1, *groups]) + 1)]
    for value, group in zip(values, groups, strict=True):
        of_group[group].append(value)
    return of_group


def paired(a: BySeed, b: BySeed, level: float = 0.95) -> Difference | None:
    """Compare a with b seed by seed, with the t interval of the mean difference; None without a common seed.

    >>> difference = paired({0: 0.9, 1: 0.8, 2: 0.7}, {0: 0.8, 1: 0.75, 2: 0.65})
    >>> f"{difference.mean:.4f} [{difference.low:.4f}, {difference.high:.4f}]"
    '0.0667 [-0.0050, 0.1384]'
    """
    difference = spread([a[seed] - b[seed] for seed in a if seed in b])
    if difference is None:
        return None
    if difference.std is None or difference.std < NO_SPREAD:
        return Difference(difference.n, difference.mean, None, None, None)
    from scipy.stats import t

    error, freedom = difference.std / math.sqrt(difference.n), difference.n - 1
    reach = float(t.ppf((1 + level) / 2, freedom)) * error
    p = 2 * float(t.sf(abs(difference.mean) / error, freedom))
    return Difference(difference.n, difference.mean, difference.mean - reach, difference.mean + reach, p)


def leader(methods: Mapping[str, BySeed], seeds: Sequence[int], alpha: float = 0.05) -> Leader | None:
    """Find the highest mean over all seeds, and whom it can't be told from; None with fewer than two methods.

    It is told from another method if the paired t test says so with p < alpha / (methods - 1), Bonferroni's correction:
    then, whichever method came out highest, one that is not the best is called the clear best with a probability of
    at most alpha. Methods that miss a seed can't lead.
    """
    measured = {label: values for label, values in methods.items() if values}
    whole = {label: spread([*values.values()]) for label, values in measured.items() if set(seeds) <= set(values)}
    if len(measured) < 2 or not whole:
        return None
    first = max(whole, key=lambda label: over.mean if (over := whole[label]) else -math.inf)
    limit = alpha / (len(measured) - 1)
    leads = {label: paired(measured[first], values) for label, values in measured.items() if label != first}
    rivals = [
        label for label, lead in leads.items() if lead is None or lead.p is None or lead.p >= limit or lead.mean <= 0
    ]
    among = " of those with every seed" if len(whole) < len(measured) else ""
    same = [label for label in rivals if label in whole and (lead := leads[label]) and abs(lead.mean) < NO_SPREAD]
    return Leader(
        first,
        tuple(rivals),
        among,
        p={label: lead.p if lead else None for label, lead in leads.items()},
        equals=tuple(same),
        common={label: lead.n if lead else 0 for label, lead in leads.items()},
    )


def group_count(groups: Iterable[int | None] | None) -> int | None:
    """Return how many groups clients are in; None where a method forms none.

    >>> group_count([0, 2, None, 2])
    2
    """
    return None if groups is None else len({*groups} - {None})


ALONE = (
    "every group has one client: nobody learns from anybody else, as with 'solo'; for larger groups set groups or a "
    "larger threshold in [grouping], or another method"
)
"""What is said where `all_alone`."""


def all_alone(groups: Iterable[int | None] | None) -> bool:
    """Say whether clients are in groups of which none has two of them.

    >>> all_alone([0, 1, None]), all_alone([0, 1, 1]), all_alone([0]), all_alone(None)
    (True, False, False, False)
    """
    members = [group for group in groups or () if group is not None]
    return len(members) > 1 and len({*members}) == len(members)
