"""What clients were asked with and without noise is counted, and survives a checkpoint."""

from coterie.federation.disclosures import Disclosures
from coterie.messages import (
    ClassCounts,
    Guarantee,
    ModelSpec,
    Moments,
    Plan,
    PrivateSteps,
    Request,
    Schedule,
    Signature,
    Train,
)

SPEC, ONE = ModelSpec("mclr", (6,), 4), Guarantee(1.0, 1e-5)


def test_answers_are_counted_by_client_and_by_verb() -> None:
    told = Disclosures()
    private = Signature(2, private=ONE, features=(6,))
    told.note({0: Request(0, 0, SPEC, (private, Moments())), 1: Request(0, 0, SPEC, (Signature(2),))})
    told.note({0: Request(1, 0, SPEC, (ClassCounts(ONE),))})
    assert (told.noised, told.most) == ({0: 2}, 2)
    assert told.plain == {"moments": 1, "signature": 1}
    again = Disclosures()
    again.load(told.save())
    assert (dict(again.noised), again.plain) == ({0: 2}, told.plain)
    assert Disclosures().most == 0


def test_private_trainings_are_counted_in_steps_and_in_shuffled_epochs() -> None:
    told, coins = Disclosures(), Plan(Schedule(0.1), steps=20, private=PrivateSteps(1.0, 1.0, 0.1))
    shuffled = Plan(Schedule(0.1), steps=20, private=PrivateSteps(1.0, 1.0, 0.1, shuffled=True))
    none = Plan(Schedule(0.1), steps=0, private=PrivateSteps(1.0, 1.0, 0.1))
    told.note({0: Request(1, 0, SPEC, (Train(coins),)), 1: Request(1, 0, SPEC, (Train(shuffled),))})
    told.note({0: Request(2, 0, SPEC, (Train(coins),)), 2: Request(2, 0, SPEC, (Train(none),))})
    assert (told.trainings, told.steps, told.noised, told.plain) == ({0: 2, 1: 1}, {0: 40, 1: 2}, {}, {})
    again = Disclosures()
    again.load(told.save())
    assert dict(again.steps) == {0: 40, 1: 2}
    before = {key: value for key, value in told.save().items() if key not in ("trainings", "steps")}
    again.load(before)  # of an earlier version
    assert dict(again.steps) == {}
