"""Running networks: plans executed, models scored."""

from coterie.messages.plan import steps_per_epoch, total_steps
from coterie.training.batches import pool_size, steps
from coterie.training.choice import choose_trainer, one_thread
from coterie.training.evaluation import (
    CommonTest,
    SampleScores,
    by_frequency,
    digest,
    evaluate,
    guessing,
    losses,
    score,
)
from coterie.training.job import TOO_LARGE, Diverged, Job, Outcome, Trainer

__all__ = [
    "TOO_LARGE", "CommonTest", "Diverged", "Job", "Outcome", "SampleScores", "Trainer", "by_frequency",
    "choose_trainer", "digest", "evaluate", "guessing", "losses", "one_thread", "pool_size", "score", "steps",
    "steps_per_epoch", "total_steps",
]  # fmt: skip
