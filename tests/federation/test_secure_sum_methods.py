"""Every method that works with secure sums: nothing that it trains is sent as it is, and a method's slip is refused."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("cryptography")

from coterie.algorithms import ALGORITHMS
from coterie.federation.loop import rounds
from coterie.messages import Train, TrainReply
from coterie.testing import RecordingEngine, small_federation

PAGE = Path(__file__).parents[2] / "docs" / "secure.md"
OWN = {name: ALGORITHMS[name]() for name in ALGORITHMS if ALGORITHMS[name].__module__.startswith("coterie.")}
METHODS = sorted(name for name, method in OWN.items() if method.weighing is not None)
FIRST_UPDATES = {"flag": "describe", "fedgroup": "pre-train", "fedgrouprox": "pre-train", "fedclust": "describe"}
"""The methods that form groups by first updates, and under what these are counted."""
SETTINGS: dict[str, Any] = {"dataset": "digits", "clients": 4, "fraction": 1.0, "rounds": 1}
GROUPS = {"ifca": 2, "pacfl": 1, "flag": 1, "fedgroup": 1, "fedgrouprox": 1, "fedclust": 1, "fielding": 1}
SECURE = {"secure": True, "secure_min": 3}


def ran(method: str, **settings: Any) -> tuple[list[Mapping[str, Any]], RecordingEngine]:
    """Run a method, and return the models that clients would receive then, and what passed."""
    given = {"algorithm_options": {"groups_of": "one"}} if method == "given-groups" else {"groups": GROUPS.get(method)}
    with small_federation(method, **{**SETTINGS, **given, **settings}) as (run, _):
        passed = run.fed.wrap_engine(RecordingEngine)
        for _ in rounds(run.fed, run.algorithm, run.evaluator, every=1):
            pass
        served = [run.algorithm.model_for(client) for client in run.fed.clients]
        flat = [getattr(model, "params", getattr(model, "layers", model)) for model in served]
        return [model for model in flat if isinstance(model, Mapping)], passed


def test_the_page_lists_the_methods_that_go_with_secure_sums_and_those_that_do_not() -> None:
    page = PAGE.read_text(encoding="utf-8").partition("## Which methods")[2].partition("A method of your own")[0]
    assert sorted(name for name in re.findall(r"[\w-]+", page) if name in OWN) == METHODS


@pytest.mark.integration
@pytest.mark.parametrize("method", METHODS)
def test_nothing_that_is_trained_is_sent_as_it_is(method: str) -> None:
    """But for first updates, where docs/secure.md says so."""
    _, passed = ran(method, **SECURE)
    told = {
        kind
        for (_, _, kind), reply in passed.replies.items()
        for part in reply.answers
        if isinstance(part, TrainReply) and (part.params or part.control)
    }
    assert told == ({FIRST_UPDATES[method]} if method in FIRST_UPDATES else set())


@pytest.mark.slow
@pytest.mark.parametrize("method", sorted({*METHODS} - {"ifca"}))
def test_models_of_every_method_are_those_without_masks(method: str) -> None:
    """To within rounding; for ifca see the tests of hidden choices."""
    (plain, _), (secure, _) = (ran(method, rounds=2, epochs=2, **more) for more in ({}, SECURE))
    assert len(plain) == len(secure) == 4
    apart = [np.abs(x[name] - y[name]).max() for x, y in zip(plain, secure, strict=True) for name in x]
    assert max(apart) < 2e-5


@pytest.mark.integration
def test_a_method_that_asks_for_a_training_as_it_is_is_told_so() -> None:
    """One of a user's own that says it makes nothing but means, and then asks single clients."""
    with small_federation("fedavg", **SETTINGS, **SECURE) as (run, _):
        fed = run.fed
        fed.start_round(1)
        request = fed.request(Train(fed.plan), model=fed.initial())
        with pytest.raises(TypeError, match=r"give it to fed\.replies"):
            fed.ask({0: request})
        assert len(fed.ask({0: fed.request(Train(fed.plan, send=False), model=fed.initial())})) == 1
