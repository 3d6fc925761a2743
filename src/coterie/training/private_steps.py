"""Private steps (DP-SGD): which samples are in which step, and what a training costs. The unit is one sample.

By coins, a sample is in each step with probability q, by a coin of its own that stays secret: the cost of T steps is
that of T Gaussian mechanisms, amplified by sampling. In shuffled epochs each sample is put into one of the K = 1/q
steps of an epoch, by a die of its own: whichever it is, it moves one sum by the clip, so that an epoch costs what one
Gaussian mechanism does, without amplification (mixtures are no farther apart than what is mixed). In neither does a
further sample move another, and there are as many steps for any number of samples.

Where test samples are drawn from the same ones as training samples, one more may put another in its place. That moves
a sum by up to twice the clip, and so the noise is doubled. Without coins, and in shuffled epochs, that is enough since
only clip and noise in relation count. With coins it is proven for one step: given all other coins, the two data sets
lead to P = (1 − q) A + q B and P' = (1 − q) A + q B', with A = N(0, 4z²) and B, B' = N(v, 4z²), N(v', 4z²) of lengths
|v|, |v'| ≤ 1. For any ε and e^ε' = 1 + q (e^ε − 1) then (Balle, Barthe and Gaboardi, 2018, Theorem 2)

    δ_ε'(P, P') = q δ_ε(B, (1 − β) A + β B') ≤ q max(δ_ε(B, A), δ_ε(B, B')) ≤ q δ_ε(N(1, z²), N(0, z²)),

as B is at most 1 from A and 2 from B'; the right-hand side is just what a removal costs at ε' with noise z. For many
steps together that is not enough: theorems of composition also ask how often P is the less likely of the two, which a
removal bounds worse than it bounds itself. That many steps cost no more than removals do is checked by numbers, not
proven: `tests/training/test_private_steps.py` has privacy loss distributions and Rényi divergences of both.
"""

from dataclasses import replace

import numpy as np

from coterie.messages import Plan, PrivateSteps
from coterie.privacy import Randomness, Release
from coterie.training.job import Index

TRAINING = "training"
"""What it is called in a client's ledger."""


def training_release(plan: Plan) -> Release | None:
    """Return what is charged for executing a plan; None if it makes no private step."""
    private, steps = plan.private, plan.steps
    if private is None or not steps:
        return None
    if private.shuffled:
        return Release(TRAINING, private.noise, -(-steps // steps_of_epoch(private)))
    return Release(TRAINING, private.noise, steps, private.rate)


def steps_of_epoch(private: PrivateSteps) -> int:
    """Return K, the steps of a shuffled epoch.

    >>> steps_of_epoch(PrivateSteps(clip=1.0, noise=1.0, rate=0.3, shuffled=True))
    3
    """
    return max(1, round(1 / private.rate))


def drawn_batches(samples: int, steps: int, private: PrivateSteps, randomness: Randomness) -> list[Index]:
    """Draw the samples of all steps; a batch may be empty."""
    if not private.shuffled:
        return [np.flatnonzero(randomness.random(samples) < private.rate) for _ in range(steps)]
    batches, of_epoch = list[Index](), steps_of_epoch(private)
    while len(batches) < steps:
        places = (randomness.random(samples) * of_epoch).astype(np.int64)
        batches += [np.flatnonzero(places == place) for place in range(of_epoch)]
    return batches[:steps]


def hiding_replacement(plan: Plan) -> Plan:
    """Return a plan whose noise also hides that a sample took the place of another."""
    if plan.private is None:
        raise TypeError("a plan without private steps has no noise")
    return replace(plan, private=replace(plan.private, noise=2 * plan.private.noise))
