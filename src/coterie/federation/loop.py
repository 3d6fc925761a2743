"""The round loop."""

from collections.abc import Iterator

from coterie.federation.algorithm import Algorithm
from coterie.federation.evaluation import Evaluation, Evaluator
from coterie.federation.federation import Federation
from coterie.federation.newcomers import admit


def rounds(
    fed: Federation, algorithm: Algorithm, evaluator: Evaluator, every: int, done: int | None = None
) -> Iterator[tuple[int, Evaluation | None]]:
    """Run a method, and yield after each round, with the accuracies where they are due.

    Round 0 is the work before the first. `every` = 0 evaluates at the end only. A run that resumes names the last
    round that was `done`; the method, the federation and the evaluator then hold their state already.
    """
    fed.start_round(done or 0)
    if done is None:
        algorithm.begin(fed)
        fed.note_incidents()
        yield 0, None
    for t in range(fed.round + 1, fed.rounds + 1):
        fed.start_round(t)
        if t in fed.settings.drifts:
            evaluator.forget()
        for cohort in fed.sampler.cohorts(fed, algorithm):
            algorithm.round(fed, cohort)
        admit(fed, algorithm)
        evaluation = evaluator.evaluate() if due(t, fed.rounds, every) else None
        fed.note_incidents()
        yield t, evaluation


def due(round: int, rounds: int, every: int) -> bool:
    """Whether accuracies are measured after a round."""
    return round == rounds or (every > 0 and round % every == 0)


def evaluated_rounds(rounds: int, every: int, done: int) -> list[int]:
    """Return the rounds up to `done` after which accuracies were measured."""
    return [round for round in range(1, done + 1) if due(round, rounds, every)]


def afterwards(fed: Federation, algorithm: Algorithm, evaluator: Evaluator) -> None:
    """Admit who comes when training is over, and measure their accuracy; that of the others stays as it was."""
    fed.start_round(fed.rounds + 1)
    newcomers = admit(fed, algorithm)
    if newcomers:
        evaluator.evaluate(newcomers)
    fed.note_incidents()
