"""Private steps (DP-SGD): which samples are in which step, and what a training costs. The unit is one sample.

By coins, a sample is in each step with probability q, by a coin of its own that stays secret: the cost of T steps is
that of T Gaussian mechanisms, amplified by sampling. In shuffled epochs each sample is put into one of the K = 1/q
steps of an epoch, by a die of its own: whichever it is, it moves one sum by the clip, so that an epoch costs what one
Gaussian mechanism does, without amplification (mixtures are no farther apart than what is mixed). In neither does a
further sample move another, and there are as many steps for any number of samples.

Where test samples are drawn from the same ones as training samples, one more may put another in its place. That moves
a sum by up to twice the clip, and so the noise is doubled. (By coins both samples are in the same steps: the mixtures
(1 − q) N(0, 4z²) + q N(±1, 4z²) are then nearer to each other than (1 − q) N(0, z²) + q N(1, z²) is to N(0, z²).
`tests/training/test_private_steps.py` compares them.)
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
