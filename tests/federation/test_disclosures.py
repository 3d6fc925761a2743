"""What clients were asked with and without noise is counted, and survives a checkpoint."""

from coterie.federation.disclosures import Disclosures
from coterie.messages import ClassCounts, Guarantee, ModelSpec, Moments, Request, Signature

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
