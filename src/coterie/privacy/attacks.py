"""Attacks on what clients send, as a server can make them, and how much privacy they disprove.

An attack gives each trial a score: the higher, the more a sample looks like one of those that were used. Trials are of
members, which were, and of others, which were not but are otherwise alike.
"""

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

SHARES = (0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5)
"""Of the trials that are guessed at either end of the scores, among which the best is looked for."""
WORTH = 0.01
"""Trials beyond (WORTH / δ)² are left out of a bound: each may be one of those that δ gives away."""
HALVINGS = 40


def auc(members: npt.ArrayLike, others: npt.ArrayLike) -> tuple[float, float]:
    """Return the area under the ROC curve, and its standard error (DeLong et al., 1988).

    The error is that of independent trials. Scores of samples of one client are not quite.

    >>> [round(number, 3) for number in auc([3.0, 4.0, 2.0], [1.0, 2.0])]
    [0.917, 0.118]
    """
    high, low = np.sort(np.asarray(members, np.float64)), np.sort(np.asarray(others, np.float64))
    if not len(high) or not len(low):
        raise ValueError(f"{len(high)} members and {len(low)} others: there should be at least one of each")
    above = _share_below(high, low)
    below = 1 - _share_below(low, high)
    parts = (part.var(ddof=1) / len(part) for part in (above, below) if len(part) > 1)
    return float(above.mean()), math.sqrt(sum(parts))


def _share_below(scores: Floats, others: Floats) -> Floats:
    """Return for each score the share of others below it, equal ones by half; `others` are sorted."""
    ends = [np.searchsorted(others, scores, side) for side in ("left", "right")]
    return np.asarray((ends[0] + ends[1]) / (2 * len(others)))


def projection_lengths(vectors: npt.ArrayLike, rows: npt.ArrayLike) -> Floats:
    """Return ‖Qᵀx‖ / ‖x‖ of samples in rows, where Q spans the vectors, (features, vectors): 1 if x lies in them.

    >>> projection_lengths([[1.0], [0.0]], [[3.0, 4.0], [2.0, 0.0]])
    array([0.6, 1. ])
    """
    basis, x = np.asarray(vectors, np.float64), _flat(rows)
    left, sizes, _ = np.linalg.svd(basis, full_matrices=False)
    span = left[:, sizes > 1e-6 * sizes.max(initial=0.0)]
    return _over(np.linalg.norm(x @ span, axis=1), np.linalg.norm(x, axis=1))


def nearest_cosines(vectors: npt.ArrayLike, rows: npt.ArrayLike) -> Floats:
    """Return for each vector, a column, the largest |cosine| with a sample, (vectors,).

    >>> nearest_cosines([[1.0, 0.0], [0.0, -1.0]], [[3.0, 4.0], [0.0, 2.0]])
    array([0.6, 1. ])
    """
    columns, x = np.asarray(vectors, np.float64), _flat(rows)
    unit = _over(x, np.linalg.norm(x, axis=1, keepdims=True))
    return np.asarray(np.abs(unit @ _over(columns, np.linalg.norm(columns, axis=0))).max(axis=0, initial=0.0))


def _flat(rows: npt.ArrayLike) -> Floats:
    samples = np.asarray(rows)
    return samples.reshape(len(samples), -1).astype(np.float64)


def _over(a: Floats, b: Floats) -> Floats:
    """Divide; 0 where there is nothing to divide by."""
    return np.divide(a, b, out=np.zeros_like(a), where=b > 0)


@dataclass(frozen=True)
class ProvenEpsilon:
    """What an attack shows of ε: it is at least this, or the attack was lucky, or trials differ by more than chance."""

    epsilon: float
    right: int
    """Guesses that were right."""
    guesses: int
    trials: int
    """Of which the attack guessed some, and left out those that it could not tell."""


def proven_epsilon(
    members: npt.ArrayLike,
    others: npt.ArrayLike,
    delta: float,
    rng: np.random.Generator,
    confidence: float = 0.95,
    steps: int = 1,
) -> ProvenEpsilon:
    """Return a lower bound of ε from an attack's scores, by guesses that it would make.

    Half of the trials say from which scores on to guess "member", and up to which "not"; the other half are guessed.
    There are as many members as others among them.
    """
    high, low = (rng.permutation(np.asarray(scores, np.float64)) for scores in (members, others))
    each = min(len(high), len(low), max(2, int((WORTH / delta) ** 2) if delta else len(high)))
    half = each // 2
    if not half:
        return ProvenEpsilon(0.0, 0, 0, 0)
    upper, lower = _thresholds(high[:half], low[:half], confidence)
    right, guesses = _guessed(high[half:each], low[half:each], upper, lower)
    trials = 2 * (each - half)
    return ProvenEpsilon(epsilon_bound(right, guesses, trials, delta, confidence, steps), right, guesses, trials)


def _thresholds(high: Floats, low: Floats, confidence: float) -> tuple[float, float]:
    """Return from which score on, and up to which, guesses show most; infinite ones if none are made at that end."""
    ordered = np.sort(np.concatenate([high, low]))
    uppers = [math.inf, *(float(np.quantile(ordered, 1 - share, method="higher")) for share in SHARES)]
    lowers = [-math.inf, *(float(np.quantile(ordered, share, method="lower")) for share in SHARES)]
    choices = [(upper, lower) for upper in uppers for lower in lowers if lower < upper]
    return max(choices, key=lambda choice: lower_limit(*_guessed(high, low, *choice), confidence))


def _guessed(high: Floats, low: Floats, upper: float, lower: float) -> tuple[int, int]:
    """Return how many guesses are right, and how many there are."""
    right = int((high >= upper).sum() + (low <= lower).sum())
    return right, right + int((low >= upper).sum() + (high <= lower).sum())


def lower_limit(successes: int, trials: int, confidence: float = 0.95) -> float:
    """Return Clopper and Pearson's lower limit of a probability.

    >>> round(lower_limit(90, 100), 4)
    0.8363
    """
    from scipy.special import betaincinv

    return float(betaincinv(successes, trials - successes + 1, 1 - confidence)) if successes else 0.0


def epsilon_bound(
    right: int, guesses: int, trials: int, delta: float = 0.0, confidence: float = 0.95, steps: int = 1
) -> float:
    """Return the ε that so many right guesses disprove: with this confidence the mechanism's is larger. At least 0.

    Of a mechanism that is (ε, δ)-private no attack guesses better than a coin that is right with probability
    e^ε / (1 + e^ε), however the trials depend on each other, if each was made a member by a fair coin (Steinke, Nasr
    and Jagielski, 2023, Theorem 5.2). With δ = 0 the bound is ln(p / (1 - p)) of Clopper and Pearson's lower limit p.

    `steps` says how many times the unit of ε is exchanged between a member and another: 2 where one sample more or
    less is a client taken away and another added.

    >>> round(epsilon_bound(right=90, guesses=100, trials=1000), 3), epsilon_bound(52, 100, 100)
    (1.631, 0.0)
    """
    if not 0 <= right <= guesses <= trials:
        raise ValueError(f"{right} right of {guesses} guesses in {trials} trials can't be")

    def disproved(epsilon: float) -> bool:
        each = _group_delta(delta, epsilon, steps)
        return each < 1 and _chance(right, guesses, trials, steps * epsilon, each) < 1 - confidence

    if not guesses or not disproved(0.0):
        return 0.0
    low, high = 0.0, 1.0
    while disproved(high):
        low, high = high, 2 * high
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if disproved(middle) else (low, middle)
    return low


def _group_delta(delta: float, epsilon: float, steps: int) -> float:
    """Return the δ of several units at once: δ (1 + e^ε + ... + e^((steps - 1) ε))."""
    return delta * sum(math.exp(min(step * epsilon, 700.0)) for step in range(steps))


def _chance(right: int, guesses: int, trials: int, epsilon: float, delta: float) -> float:
    """Return an upper bound of the probability of so many right guesses, or more."""
    from scipy.special import betainc, gammaln

    if not right:
        return 1.0
    accuracy = 1 / (1 + math.exp(-epsilon))
    tail = float(betainc(right, guesses - right + 1, accuracy))
    if not delta:
        return tail
    k = np.arange(right - 1, -1, -1)
    ways = gammaln(guesses + 1) - gammaln(k + 1) - gammaln(guesses - k + 1)
    fewer = np.cumsum(
        np.exp(ways + k * math.log(accuracy) - (guesses - k) * (epsilon + math.log1p(math.exp(-epsilon))))
    )
    return tail + 2 * trials * delta * float((fewer / np.arange(1, right + 1)).max())
