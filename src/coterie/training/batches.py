"""Which samples each local step uses; shared by all trainers, so that they see the same batches."""

import math
from collections.abc import Iterator

import numpy as np

from coterie.messages import Curriculum, Plan
from coterie.messages.plan import Pacing, total_steps
from coterie.training.job import Index, Job
from coterie.training.private_steps import drawn_batches

Step = tuple[Index, ...]
"""One batch, or two where the plan has a meta-step."""


def steps(
    samples: int, plan: Plan, rng: np.random.Generator, order: Index | None = None, even: bool = False
) -> Iterator[Step]:
    """Yield the batches of each step: shuffled passes over the pool of the moment, the last batch partial.

    Without a curriculum the pool is everything. With one it is the first g(t) samples of `order`; when it
    grows, a new pass begins. With `even` there are as many batches, whose sizes differ by one at most.
    """
    total = total_steps(samples, plan)
    size, passes = -1, iter(())  # type: int, Iterator[Step]
    for step in range(total):
        wanted = samples
        if plan.curriculum is not None:
            wanted = pool_size(plan.curriculum, step, total, samples, plan.batch_size)
        if wanted != size:
            size = wanted
            # sorted, so that a pool of everything gives the very batches of training without a curriculum
            pool = np.arange(samples) if size == samples or order is None else np.sort(order[:size])
            passes = _passes(pool, plan, rng, even)
        yield next(passes)


def batches_of(job: Job) -> Iterator[Step]:
    """Yield the batches of each step of a job; those of private steps are all drawn at the first."""
    private = job.plan.private
    if private is None:
        yield from steps(len(job.y), job.plan, job.rng, job.order, job.even_batches)
        return
    drawn = drawn_batches(len(job.y), total_steps(len(job.y), job.plan), private, job.randomness)
    yield from ((batch,) for batch in drawn)


def _passes(pool: Index, plan: Plan, rng: np.random.Generator, even: bool) -> Iterator[Step]:
    while True:
        shuffled = pool[rng.permutation(len(pool))]
        batches = [shuffled[i : i + plan.batch_size] for i in range(0, len(shuffled), plan.batch_size)]
        if even:
            batches = np.array_split(shuffled, len(batches))
        if plan.meta_step is None:
            yield from ((batch,) for batch in batches)
        elif len(batches) == 1:
            yield (batches[0], batches[0])
        else:
            yield from zip(batches[0::2], batches[1::2], strict=False)


def pool_size(curriculum: Curriculum, step: int, total: int, samples: int, batch_size: int) -> int:
    """Return g(t), how many samples step t = 0 … T−1 may choose from (ALGORITHMS 6).

    >>> [pool_size(Curriculum(a=0.5, b=0.2), t, 10, 100, 10) for t in (0, 2, 5, 9)]
    [20, 52, 100, 100]
    """
    a, b = curriculum.a, curriculum.b
    if step >= a * total * (1 - 1e-12):
        return samples
    size = samples * (b + _growth(curriculum.pacing, step / (a * total), b)) + 1e-9
    return int(min(samples, max(size, min(batch_size, samples), 1)))


def _growth(pacing: Pacing, progress: float, b: float) -> float:
    """Return the share of samples beyond b that is in the pool, for progress in [0, 1)."""
    if pacing == "exponential":
        return (1 - b) * math.expm1(10 * progress) / math.expm1(10)
    if pacing == "step":
        return float(math.floor(progress))
    return float((1 - b) * progress ** {"root": 0.5, "linear": 1.0, "quadratic": 2.0}[pacing])
