"""A rehearsal shows all that a method asks: its policy refuses no request of a real run, and what is not among them."""

import json
from collections.abc import Iterator
from dataclasses import asdict, replace
from typing import Any

import pytest

from coterie.algorithms import ALGORITHMS
from coterie.client import Policy
from coterie.deploy.rehearsal import policy_of
from coterie.deploy.terms import SamplesSection, ServerSection, Terms
from coterie.federation.loop import rounds
from coterie.messages import MaskedTrain, Reply, Request, Standardisation, Train
from coterie.testing import RecordingEngine, small_federation

pytestmark = pytest.mark.integration
CLIENTS = 8
VARIANTS: list[tuple[str, dict[str, Any]]] = [
    ("lg-fedavg", {"pretrain": 3}),
    ("lg-fedavg", {"pretrain": 2, "broadcast_all": True}),
    ("pacfl", {"diversity": 2}),
    ("pacfl", {"redescribe": 4}),
    ("pacfl", {"budget": 10, "assign": "recluster"}),
    ("fedgroup", {"alpha_pre": 1, "continue_pretraining": True, "pretrain_steps": 3}),
    ("fedgroup", {"alpha_pre": 1, "continue_pretraining": True, "pretrain_epochs": 1}),
    ("fedgroup", {"assignment": "random-each", "auxiliary": True, "direction": "latest"}),
    ("fedgrouprox", {"eager": True, "measure": "madc"}),
    ("cfl", {"min_round": 0, "eps1": 100.0, "eps2": 1e-6}),
    ("flag", {"warmup": 3, "warmup_until": 1e-6, "trial_rounds": 2}),
    ("flag", {"warmup": 0, "trial_rounds": 1, "trial_model": "same"}),
    ("fesem", {"init": "random"}),
    ("ifca", {"init_retry": 2}),
    ("ifca", {"criterion": "test-accuracy"}),
    ("flis-dc", {"select_on": "holdout"}),
    ("flis-dc", {"select_on": "server"}),
    ("flis-hc", {"hc_mode": "row-threshold"}),
    ("per-fedavg", {"momentum": 0.5}),
    ("fedsoft", {"selection": False, "tau": 2}),
    ("solo", {"epochs": 9}),
    ("sub-fedavg-un", {"validation": "test"}),
    ("sub-fedavg-st", {"l1": 1e-4, "statistics": "local"}),
]


def asked_in_a_run(method: str, options: dict[str, Any], **more: Any) -> tuple[Terms, list[tuple[Request, int]]]:
    """Train clients of different sizes, of which some are absent now and then, and one comes late."""
    settings: dict[str, Any] = {
        "dataset": "digits", "partition": "dirichlet:alpha=0.5", "clients": CLIENTS, "rounds": 5, "eval_every": 1,
        "newcomers": 1 / CLIENTS, "join_at": 3, "drop": 0.1,
    }  # fmt: skip
    chosen = {**ALGORITHMS[method].traits.battery.get("algorithm_options", {}), **options}
    asked: list[tuple[Request, int]] = []
    with small_federation(method, **settings | more, algorithm_options=chosen) as (run, data):

        def note(reply: Reply, request: Request) -> Reply:
            asked.append((request, len(data.train_parts[reply.client])))
            return reply

        run.fed.wrap_engine(lambda engine: RecordingEngine(engine, note))
        run.fed.standardisation = Standardisation((0.1,), (0.5,))  # as if it had been agreed on
        for _ in rounds(run.fed, run.algorithm, run.evaluator, every=1):
            pass
        run.evaluator.fine_tune()
        samples = SamplesSection(shape=list(data.shape), dtype="uint8", classes=data.classes)
        return Terms(run.config, samples, ServerSection(name="test")), asked


def cases() -> Iterator[Any]:
    yield from (pytest.param(method, {}, id=method) for method in ALGORITHMS)
    for method, options in VARIANTS:
        named = ",".join(f"{key}={value}" for key, value in options.items())
        yield pytest.param(method, options, id=f"{method}:{named}")


@pytest.mark.parametrize(("method", "options"), [*cases()])
def test_no_honest_request_is_refused(method: str, options: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a run with as many clients as were rehearsed with."""
    monkeypatch.setattr("coterie.deploy.rehearsal.FOUNDERS", CLIENTS - 1)
    terms, asked = asked_in_a_run(method, options)
    policy = policy_of(terms)
    errors = {error for request, samples in asked if (error := policy.error_in(request, samples))}
    assert asked
    assert not errors
    request, samples = asked[-1]
    assert policy.error_in(replace(request, verbs=()), samples) is not None
    assert Policy.read(json.loads(json.dumps(asdict(policy)))) == policy
    assert all(isinstance(line, str) for line in policy.lines())


@pytest.mark.integration
@pytest.mark.parametrize("method", ["fedavg", "ifca", "pacfl"])
def test_secure_sums_are_asked_for_and_nothing_less_secure(method: str) -> None:
    pytest.importorskip("cryptography")
    large = {"groups": 1} if method == "pacfl" else {}  # enough clients for a sum
    terms, asked = asked_in_a_run(method, {}, secure=True, secure_min=3, fraction=1.0, drop=0.0, **large)
    policy = policy_of(terms)
    assert not {error for request, samples in asked if (error := policy.error_in(request, samples))}
    request, samples, verb = next(
        (request, samples, verb)
        for request, samples in asked
        for verb in request.verbs
        if isinstance(verb, MaskedTrain)
    )
    for changed in ({"minimum": 4}, {"clip": 1e6}, {"weighing": "equal"}):
        other = replace(verb, masking=replace(verb.masking, **changed))
        assert policy.error_in(replace(request, verbs=(other,)), samples) is not None
    plain = Train(verb.plan, verb.start)
    assert policy.error_in(replace(request, verbs=(plain,)), samples) is not None
