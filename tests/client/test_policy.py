"""A policy holds questions whole: what passes setting by setting, but was never asked together, is refused."""

import json
from dataclasses import asdict, replace
from typing import Any

import pytest

from coterie.client import Policy
from coterie.messages import (
    EVALUATION,
    Anchor,
    ClassCounts,
    Evaluate,
    Guarantee,
    Losses,
    ModelSpec,
    Optimiser,
    Plan,
    Request,
    Schedule,
    Signature,
    Train,
)

SPEC, LIGHT = ModelSpec("mlp", (1, 8, 8), 10, {"hidden": 16}), ModelSpec("mlp", (1, 8, 8), 10, {"hidden": 8})
SITE = 100
"""Samples of the site that is asked."""
PLAN = Plan(Schedule(0.1), epochs=2, batch_size=10, momentum=0.5)
MODELS = ("model0", "model1")
TRIAL = replace(PLAN, epochs=1, holdout=0.1)


def asked(*verbs: Any, spec: ModelSpec = SPEC, kind: str = "train") -> Request:
    return Request(1, 0, spec, verbs, {}, kind)


SEEN = [
    asked(Train(PLAN)),
    asked(Signature(3), ClassCounts(), Train(replace(PLAN, epochs=4), start=("initial",), keep=False)),
    asked(Train(TRIAL, keep=False), spec=LIGHT),
    asked(Evaluate(on="holdout"), spec=LIGHT),
    asked(Evaluate(("own",)), Evaluate(), kind=EVALUATION),
    asked(Train(PLAN, keep=False, send=False), Evaluate("trained"), kind=EVALUATION),
    asked(Losses(MODELS), Train(replace(PLAN, anchors=(Anchor("centre0", 0.5),)), start=("best",))),
]
"""As FLAG asks, and IFCA with an anchor."""
POLICY = Policy.of(SEEN, 3, 5)


@pytest.mark.parametrize("request_", SEEN)
def test_what_was_seen_is_answered(request_: Request) -> None:
    assert POLICY.error_in(request_, SITE) is None


LESS = {
    "a part of a request": asked(Signature(3), ClassCounts()),
    "without keeping": asked(Train(PLAN, keep=False)),
    "nothing sent": asked(Train(PLAN, send=False)),
    "some of it sent": asked(Train(PLAN, send=("fc2.",))),
    "another stream": asked(Train(PLAN, purpose="walk"), kind="walk"),
    "no step": asked(Train(replace(PLAN, steps=0))),
}


@pytest.mark.parametrize("name", LESS)
def test_what_tells_no_more_is_answered(name: str) -> None:
    assert POLICY.error_in(LESS[name], SITE) is None


NEVER_TOGETHER = {
    "the hold-out of another network": (asked(Train(TRIAL)), "holdout = 0.1"),
    "its evaluation": (asked(Evaluate(on="holdout")), "evaluate is not asked for"),
    "what measures another": (
        asked(Evaluate(("own",)), spec=LIGHT),
        'of = ["own"] with on = "test" with share = null is',
    ),
    "a training that measures, sent": (asked(Train(PLAN), kind=EVALUATION), "keep = true with send = true is"),
    "kept where it was not": (asked(Train(PLAN, start=("initial",))), 'start = ["initial"] is'),
    "its own model, sent": (asked(Train(PLAN, start=("own",))), 'start = ["own"] is not'),
    "two trainings": (asked(Train(PLAN), Train(PLAN, purpose="again")), "train, train: this is not asked for in one"),
    "a signature after it": (asked(Train(PLAN), Signature(3)), "train, signature: this is not asked for in one"),
    "the other order": (asked(ClassCounts(), Signature(3)), "classcounts, signature: this is not"),
    "counts twice": (asked(ClassCounts(), ClassCounts()), "classcounts, classcounts: this is not"),
    "other vectors": (asked(Signature(2)), "signature: p = 2 is not asked for"),
    "an anchor elsewhere": (asked(Train(replace(PLAN, anchors=(Anchor("centre", 0.5),)))), "1 anchors of strength 0.5"),
    "its own model compared": (
        asked(Losses(("model", "own"))),
        "losses: 2 models, where this federation has 2 models by the name of model",
    ),
    "by another measure": (asked(Losses(MODELS, by="accuracy")), 'by = "accuracy" is not asked for'),
    "all but one in a batch": (asked(Train(replace(PLAN, batch_size=SITE - 1))), "batch_size = 99 is not asked for"),
    "all in a batch": (asked(Train(replace(PLAN, batch_size=SITE))), "batch_size = 100 is not asked for"),
    "a step": (asked(Train(replace(PLAN, steps=1))), "steps = 1 is not asked for"),
    "an epoch less": (asked(Train(replace(PLAN, epochs=1))), "1 epochs, where this federation has 2 epochs"),
    "another model": (asked(Losses(("model",) * 3)), "3 models, where this federation has 2 models"),
    "a weaker anchor": (
        asked(Losses(MODELS), Train(replace(PLAN, anchors=(Anchor("centre0", 0.1),)), start=("best",))),
        "1 anchors of strength 0.1, where this federation has 1 anchors of strength 0.5",
    ),
    "more epochs": (asked(Train(replace(PLAN, epochs=21))), "21 epochs, where this federation has 2 epochs"),
    "a part of the network": (asked(Train(replace(PLAN, train=("fc2.",)))), 'train = ["fc2."] is not asked for'),
    "nothing": (asked(), "nothing: this is not asked for"),
}


@pytest.mark.parametrize("name", NEVER_TOGETHER)
def test_what_was_never_asked_together_is_refused(name: str) -> None:
    question, why = NEVER_TOGETHER[name]
    assert why in str(POLICY.error_in(question, SITE))


ROOM: dict[str, tuple[list[Request], list[Request]]] = {
    "epochs": (
        [asked(Train(replace(PLAN, epochs=epochs))) for epochs in (1, 5, 20)],
        [asked(Train(replace(PLAN, epochs=epochs))) for epochs in (0, -1, 21, 10**9)],
    ),
    "steps": (
        [asked(Train(replace(PLAN, steps=steps))) for steps in (1, 17)],
        [asked(Train(replace(PLAN, steps=steps))) for steps in (-1, 10**9)],
    ),
    "batch_size": (  # by their number at this site: of all but one, one would be left over
        [asked(Train(replace(PLAN, batch_size=size))) for size in (SITE, 2**20)],
        [asked(Train(replace(PLAN, batch_size=size))) for size in (1, SITE - 1)],
    ),
    "models": (
        [asked(Losses(tuple(f"model{k}" for k in range(count)))) for count in (1, 20)],
        [asked(Losses(tuple(f"model{k}" for k in range(21)))), asked(Losses(("model0", "own")))],
    ),
    "anchors": (
        [asked(Losses(MODELS), Train(replace(PLAN, anchors=anchors), start=("best",)))
         for anchors in ((), (Anchor("centre3", 0.1),), (Anchor("centre0", 1.0),))],
        [asked(Losses(MODELS), Train(replace(PLAN, anchors=anchors), start=("best",)))
         for anchors in ((Anchor("own", 0.1),), (Anchor("centre", 1.1),), (Anchor("centre", -0.1),),
                         (Anchor("centre", float("nan")),), (Anchor("centre", 0.1),) * 2)],
    ),
}  # fmt: skip


@pytest.mark.parametrize("field", ROOM)
def test_a_setting_has_room_where_the_method_says_so(field: str) -> None:
    within, beyond = ROOM[field]
    open_ = Policy.of(SEEN, 3, 5, [field])
    for question in within:
        assert open_.error_in(question, SITE) is None
        assert POLICY.error_in(question, SITE) is not None
    assert all(open_.error_in(question, SITE) for question in beyond)
    assert [*open_.lines()] != [*POLICY.lines()]


def test_what_another_question_covers_is_not_listed() -> None:
    fewer = Policy.of([*SEEN, *(LESS[name] for name in ("a part of a request", "nothing sent"))], 3, 5)
    assert fewer == POLICY
    assert fewer.digest == Policy.of(reversed(SEEN), 3, 5).digest


def test_it_is_read_as_it_was_written() -> None:
    again = Policy.read(json.loads(json.dumps(asdict(POLICY))))
    assert (again, again.digest) == (POLICY, POLICY.digest)
    for damaged in ({"questions": [3]}, {"questions": [{"network": 0}]}, {"seed": "0"}, {"unfixed": 3}):
        with pytest.raises((TypeError, KeyError, AttributeError)):
            Policy.read({**json.loads(json.dumps(asdict(POLICY))), **damaged})


def test_its_lines_name_each_verb_once_and_all_questions() -> None:
    lines = [*POLICY.lines()]
    assert "networks: mlp hidden=16, mlp hidden=8" in lines
    assert 'signature: measure "theta1"; p 3' in lines
    [described] = [line for line in lines if line.startswith("  signature, classcounts, train")]
    [warmup] = [line for line in lines if line.startswith(described.split(", ")[2].removesuffix(" (of mlp hidden=16)"))]
    assert warmup.endswith("4 epochs; lr (rate 0.1, decay 0.0, power 0.75); momentum 0.5; send all; start initial")
    assert sum(line.startswith("  ") for line in lines) == len(POLICY.questions) == 7


def test_what_learns_is_agreed_and_told() -> None:
    plan = replace(PLAN, train=("fc2.", "fc1.bias"))
    policy = Policy.of([asked(Train(plan))], 3, 5)
    assert any("only fc2., fc1.bias learn" in line for line in policy.lines())
    assert policy.error_in(asked(Train(plan)), SITE) is None
    for other in (None, ("fc2.",), ("fc2.", "fc1.")):
        assert "train" in str(policy.error_in(asked(Train(replace(PLAN, train=other))), SITE))
    assert Policy.read(json.loads(json.dumps(asdict(policy)))) == policy


def test_where_all_learns_a_policy_is_what_it_was_before_plans_said_so() -> None:
    """Sites hold the policies under which they joined."""
    later = {"train", "optimiser", "clip", "smoothing", "metric"}
    assert not any(later & verb.keys() for verb in POLICY.verbs)
    assert all("loss" not in spec for spec in POLICY.networks)


@pytest.mark.parametrize(
    "more", [{"optimiser": Optimiser("adam"), "momentum": 0.0}, {"clip": 1.0}, {"smoothing": 0.1}], ids=str
)
def test_optimiser_clipping_and_smoothing_are_agreed_and_told(more: dict[str, Any]) -> None:
    plan, name = replace(PLAN, **more), next(iter(more))
    policy = Policy.of([asked(Train(plan))], 3, 5)
    assert policy.error_in(asked(Train(plan)), SITE) is None
    assert any(name in line for line in policy.lines())
    assert name in str(policy.error_in(asked(Train(PLAN)), SITE))
    assert name in str(Policy.of([asked(Train(PLAN))], 3, 5).error_in(asked(Train(plan)), SITE))
    assert Policy.read(json.loads(json.dumps(asdict(policy)))) == policy


def test_loss_and_metric_are_agreed_too() -> None:
    policy = Policy.of([asked(Evaluate(metric="auc"), spec=replace(SPEC, loss="binary"))], 3, 5)
    assert policy.error_in(asked(Evaluate(metric="auc"), spec=replace(SPEC, loss="binary")), SITE) is None
    assert "metric" in str(policy.error_in(asked(Evaluate(metric="f1"), spec=replace(SPEC, loss="binary")), SITE))
    assert "network" in str(policy.error_in(asked(Evaluate(metric="auc")), SITE))
    assert "network" in str(POLICY.error_in(asked(Train(PLAN), spec=replace(SPEC, loss="binary")), SITE))


def test_a_policy_from_before_a_setting_existed_allows_what_does_not_use_it() -> None:
    """Signatures had no noise when it was made: without noise they pass, with noise they are another question."""
    private = Signature(3, private=Guarantee(1.0, 1e-5), features=(1, 8, 8))
    content = json.loads(json.dumps(asdict(POLICY)))
    for question in content["questions"]:
        for verb in question["verbs"]:
            for later in ("private", "features"):
                verb.pop(later, None)
    earlier = Policy.read(content)
    assert earlier.error_in(asked(Signature(3)), SITE) is None
    assert "features" in str(earlier.error_in(asked(private), SITE))
    agreed = Policy.of([asked(private)], 3, 5)
    assert agreed.error_in(asked(private), SITE) is None
    weaker = replace(private, private=Guarantee(100.0, 1e-5))
    for other in (weaker, Signature(3)):
        assert agreed.error_in(asked(other), SITE) is not None
