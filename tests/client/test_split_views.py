"""A server that tells the clients of a secure sum different things opens no smaller sum than they agreed to."""

from pathlib import Path

import pytest

pytest.importorskip("cryptography")

from split_views import Attack, masking, summed

EITHER = pytest.mark.parametrize("signed", [True, False], ids=["identities", "none"])


@pytest.mark.integration
@EITHER
def test_honest_clients_are_summed(tmp_path: Path, signed: bool) -> None:
    """Of four the last drops out: the tests below would open their sums."""
    everybody = range(4)
    server = Attack(tmp_path, dict.fromkeys(everybody, everybody), signed)
    agreed = masking(everybody, 3)
    for i in everybody:
        server.train(i, agreed)
    server.unmask(dict.fromkeys(range(3), range(3)))
    assert server.opened(range(3)) == summed(range(3), agreed)
    assert server.opened([0]) is None


@pytest.mark.integration
@EITHER
def test_clients_that_are_told_of_different_others_hold_nothing_of_each_other(tmp_path: Path, signed: bool) -> None:
    """Client 0 is told of 1 and 2 only, and 3 to 8 never of it.

    The mask of 0 would be restored by 1 and 2, to whom it is a survivor, and the keys of 1 and 2 by the others, to whom
    these dropped out. Each of these sums is large enough for who helps with it.
    """
    few, many = [1, 2], range(3, 9)
    views = {0: [0, *few], **dict.fromkeys(few, range(9)), **dict.fromkeys(many, range(1, 9))}
    server = Attack(tmp_path, views, signed)
    for i, view in views.items():
        server.train(i, masking(view, 3))
    server.unmask({**dict.fromkeys(few, range(9)), **dict.fromkeys(many, many)})
    assert server.secret(0, survived=True) is None
    assert server.opened([0]) is None


@pytest.mark.integration
@EITHER
def test_masks_of_clients_that_are_asked_different_things_do_not_cancel(tmp_path: Path, signed: bool) -> None:
    """All but client 0 are told of such weights that what they add is rounded to nothing."""
    everybody = range(5)
    server = Attack(tmp_path, dict.fromkeys(everybody, everybody), signed)
    agreed = masking(everybody, 5)
    for i in everybody:
        server.train(i, masking(everybody, 5, heaviest=1e30) if i else agreed)
    server.unmask(dict.fromkeys(everybody, everybody))
    assert server.opened(everybody) != summed([0], agreed)
