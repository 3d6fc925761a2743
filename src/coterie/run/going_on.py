"""A run goes on to more than was asked at first, to the same numbers as if it had been: more rounds, more clients."""

import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate
from typing import Any

from coterie.errors import CoterieError
from coterie.federation.membership import Membership
from coterie.federation.sampling import cohort_share
from coterie.results.run_folder import RunFolder
from coterie.run.building import make_method, make_plan
from coterie.run.config import Config
from coterie.run.validation import Origins, make_config

AT_END = ("before_end", "row", "plus", "come")
"""What only the checkpoint of a last round holds."""


def asked_now(folder: RunFolder, config: Config, rounds: int | None, admit: Sequence[str]) -> Config:
    """Return the configuration of a run with other `rounds`, and the data of clients to `admit`, if they are given."""
    tables, given = config.model_dump(), {}
    if rounds is not None:
        tables["training"]["rounds"], given["training.rounds"] = rounds, "--rounds"
    for path in (os.path.abspath(os.path.expanduser(path)) for path in admit):
        if path in tables["newcomers"]["admit"]:
            raise CoterieError(
                f"'{path}' is among the data of clients that this run admits: if it was ended before they were, go on "
                f"with 'coterie resume {folder.path}'; give the data of each client once"
            )
        tables["newcomers"]["admit"].append(path)
        given["newcomers.admit"] = "--admit"
    return make_config(tables, Origins(str(folder.config_file), given)) if given else config


def with_other_rounds(state: Mapping[str, Any], before: Config, now: Config) -> dict[str, Any]:
    """Return a checkpoint as it would be in the same run with other rounds; refuse where that would differ."""
    done, rounds = int(state["round"]), now.training.rounds
    if error := _error_in_rounds(state, before, now, done):
        raise CoterieError(f"the run can't go on to round {rounds}: {error}")
    if done < before.training.rounds:
        return dict(state)
    rest = {key: value for key, value in state.items() if key not in AT_END}
    return rest | {key: state["before_end"][key] for key in ("evaluator", "federation")}


def _error_in_rounds(state: Mapping[str, Any], before: Config, now: Config, done: int) -> str | None:
    """Say why what a run has done would have been otherwise, or can't be had any more."""
    rounds = now.training.rounds
    if rounds <= done:
        return f"it has done {done}; ask for more than that"
    steps, models = now.privacy.private_steps, now.privacy.private_training
    if (models is not None and models.rounds is None) or (steps is not None and steps.trainings is None):
        return "its noise was made for as many rounds as it had, and more would cost more than it says; start a new run"
    since = Membership.saved_in(state["federation"]).since.values()
    if done == before.training.rounds and max(since, default=0) > done:
        return (
            f"clients joined after round {done}, which was the last then, and would join after round {rounds}; start a "
            f"new run with --rounds {rounds}"
        )
    if done == before.training.rounds and "before_end" not in state:
        return "an earlier version of Coterie ended it, which did not keep what is needed for that; start a new run"
    other = f"depends on how many rounds there are: in a run of {rounds}"
    members = _members(since, done)
    both = {clients: (schedules(before, clients), schedules(now, clients)) for clients in {*members}}
    for part, whose in enumerate((f"method '{now.algorithm.name}'", "the client curriculum")):
        for t, clients in enumerate(members, 1):
            was, would_be = (None if t > len(plan[part]) else plan[part][t - 1] for plan in both[clients])
            if was != would_be:
                return f"{whose} {other}, round {t} would have had {would_be}, not {was}; start a new run"
    return None


def _members(since: Iterable[int], rounds: int) -> list[int]:
    """Return how many clients took part in each round: those who join are in cohorts from the next one on."""
    joined = Counter(since)
    return list(accumulate(joined[t] for t in range(rounds)))


def schedules(config: Config, clients: int) -> tuple[list[str], list[str]]:
    """Return what in each round depends on how many there are: of the method, and of how clients are drawn."""
    training = config.training
    share = cohort_share(training.fraction, clients)
    return (
        list(make_method(config).schedule(training.rounds, share, make_plan(config))),
        list(config.curriculum.sampler.schedule(training.rounds, clients)),
    )
