"""The round loop, which admits newcomers in the same way for every method."""

from collections.abc import Callable, Iterator, Sequence

from coterie.federation.algorithm import Algorithm
from coterie.federation.evaluation import Evaluation, Evaluator
from coterie.federation.federation import Federation
from coterie.federation.served_model import as_request, single
from coterie.federation.standardising import agree
from coterie.messages import ClientId, Failure, Train
from coterie.messages.plan import with_epochs

NEWCOMER = "newcomer"
"""The heading under which the ledger counts what newcomers' first training costs."""


def rounds(
    fed: Federation,
    algorithm: Algorithm,
    evaluator: Evaluator,
    every: int,
    done: int | None = None,
    before_end: Callable[[Evaluation | None], None] = lambda evaluation: None,
) -> Iterator[tuple[int, Evaluation | None]]:
    """Run a method, and yield after each round, with the accuracies if they are due.

    Round 0 is the work before the first. `every` = 0 evaluates at the end only. A run that resumes names the last
    round that was `done`; the method, the federation and the evaluator then hold their state already. `before_end` is
    called in the last round before anything is measured that is so only because it is the last.
    """
    fed.start_round(done or 0)
    if done is None:
        if fed.settings.input_moments is not None:
            fed.standardisation = agree(fed, fed.settings.input_moments)
        algorithm.begin(fed)
        fed.note_incidents()
        yield 0, None
    for t in range(fed.round + 1, fed.settings.rounds + 1):
        fed.start_round(t)
        if t in fed.settings.drifts:
            evaluator.forget()
        for cohort in fed.sampler.cohorts(fed, algorithm):
            algorithm.round(fed, cohort)
        fed.end_training()
        admit(fed, algorithm)
        evaluation = evaluator.evaluate() if due(t, every) else None
        if t == fed.settings.rounds:
            before_end(evaluation)
            evaluation = evaluator.evaluate_at_end(evaluation)
        fed.note_incidents()
        yield t, evaluation


def due(round: int, every: int) -> bool:
    """Whether accuracies are measured after a round, whichever is the last."""
    return every > 0 and round % every == 0


def evaluated_rounds(last: int | None, every: int, done: int) -> list[int]:
    """Return the rounds up to `done` after which accuracies were measured; None: whichever is the last."""
    return [round for round in range(1, done + 1) if due(round, every) or round == last]


def afterwards(fed: Federation, algorithm: Algorithm, evaluator: Evaluator, round: int | None = None) -> None:
    """Admit clients that join after training, and measure their accuracy; that of the others stays as it was.

    They come in the round after the last, or in a later one.
    """
    fed.start_round(round or fed.settings.rounds + 1)
    newcomers = admit(fed, algorithm)
    if newcomers:
        evaluator.evaluate(newcomers)
    fed.note_incidents()


def admit(fed: Federation, algorithm: Algorithm) -> Sequence[ClientId]:
    """Admit clients that joined since the last round: the method places them, and they fine-tune what they receive.

    They are in cohorts from the next round on.
    """
    newcomers = list(fed.newcomers)
    able = [client for client in newcomers if fed.samples[client] > 0]
    for client in sorted(set(newcomers) - set(able)):
        fed.events.note(Failure(client, fed.round, "empty", "no training samples: it is never sampled"))
    if able:
        algorithm.admit(fed, able)
    fed.admit(newcomers)
    if able and fed.settings.newcomer_epochs:
        _fine_tune(fed, algorithm, able)
    return newcomers


def founders(fed: Federation, algorithm: Algorithm) -> list[ClientId]:
    """Return the newcomers that are in groups of newcomers only, if the method allows such groups."""
    if not algorithm.traits.allows_new_groups:
        return []
    groups = algorithm.groups() or {}
    old = {group for client, group in groups.items() if client not in fed.joined}
    return sorted(client for client in fed.joined if client in groups and groups[client] not in old)


def _fine_tune(fed: Federation, algorithm: Algorithm, clients: list[ClientId]) -> None:
    """Let each train what it receives on its own samples, and keep the result as its own model."""
    plan = with_epochs(algorithm.newcomer_plan(fed), fed.settings.newcomer_epochs)
    requests = {}
    for client in clients:
        served = algorithm.model_for(client)
        served = single(served) or served  # of several models, the one that the client took when it was placed
        verbs, start, models = as_request(served)
        train = Train(plan, start=start, send=False, purpose="newcomer")
        requests[client] = fed.request(*verbs, train, kind=NEWCOMER, models=models)
    fed.ask(requests)
