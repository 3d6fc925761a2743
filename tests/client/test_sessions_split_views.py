"""A server that tells the clients of a secure sum different things opens no smaller sum than they agreed to."""

from collections.abc import Sequence
from itertools import cycle, islice
from pathlib import Path

import pytest

pytest.importorskip("cryptography")

from split_views import Attack, masking, summed

from coterie.messages import Agree, Failure, Reply, Unmask
from coterie.secure import threshold

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
    assert not server.refused or signed
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
    assert len(server.refused) == int(signed)


@pytest.mark.integration
@EITHER
@pytest.mark.parametrize(("victims", "lost", "outside"), [(3, 3, 0), (7, 6, 2)], ids=["survivors", "sharers too"])
def test_clients_that_are_told_of_different_survivors_unmask_nothing(
    tmp_path: Path, signed: bool, victims: int, lost: int, outside: int
) -> None:
    """Each is told of enough survivors; and of each lost client two thirds are told that it is none.

    So the masks of victims are restored and the keys of those that are lost, and fewer are in the sum than anybody
    agreed to. With `outside` the victims are also told that some never shared secrets, with whom they have no masks
    then: that takes fewer victims. Only identities stop it, which simulated clients have not.
    """
    everybody = range(victims + lost + outside)
    wanted, gone, n = everybody[:victims], everybody[victims : victims + lost], len(everybody)
    sharers = {i: everybody[: victims + lost] if i in wanted else everybody for i in everybody}
    server, least = Attack(tmp_path, dict.fromkeys(everybody, everybody), signed), threshold(n)
    for i in everybody:
        server.train(i, masking(sharers[i], victims + 1))
    turn = cycle(gone)

    def told(i: int) -> set[int]:
        absent: Sequence[int] = [j for j in gone if j != i] if i in gone else [*islice(turn, len(sharers[i]) - least)]
        return {*sharers[i]} - {*absent}

    survivors = {i: told(i) for i in everybody}
    assert min(map(len, survivors.values())) > victims
    server.unmask(survivors)
    if signed:
        assert server.opened(wanted) is None
        assert not server.given
        assert all("the same survivors and question are signed by" in reason for reason in server.refused)
    else:
        assert server.opened(wanted) == summed(wanted, masking(sharers[0], victims + 1))


def refusal(answer: Reply | Failure) -> str:
    assert isinstance(answer, Failure), answer
    assert answer.kind == "withheld"
    return answer.detail


@pytest.fixture
def trained(tmp_path: Path) -> Attack:
    """Six clients with identities that have sent their inputs; four signatures restore a sum."""
    server = Attack(tmp_path, dict.fromkeys(range(6), range(6)), signed=True)
    for i in range(6):
        server.train(i, masking(range(6), 3))
    return server


def last(server: Attack, signatures: Sequence[str] | None) -> Unmask:
    """What client 0 is asked for its shares."""
    messages = tuple(server.sent[j][0] for j in range(1, 6))
    return Unmask(tuple(range(6)), messages, None if signatures is None else tuple(signatures))


@pytest.mark.integration
def test_too_few_or_forged_signatures_are_refused(trained: Attack) -> None:
    """Three others must have signed what client 0 has signed, and be who they are."""
    everybody = range(6)
    assert "has not signed" in refusal(trained.answer(0, last(trained, [""] * 5)))
    others = [trained.agree(j, everybody if j < 4 else range(5) if j == 4 else [0, 1, 2, 5]) for j in everybody][1:]
    for given, why in (
        (None, "0 signatures of 5 neighbours"),
        (others[:4], "4 signatures of 5"),
        ([""] * 5, "the same survivors and question are signed by 1 client, where 4 must have signed"),
        ([*others[:2], "", *others[3:]], "3 clients"),  # those of 4 and 5 are under other survivors
        ([*others[:2], others[0], *others[3:]], "3 clients"),  # of another client
        ([*others[:2], "00" * 64, "xy", ""], "3 clients"),
    ):
        assert why in refusal(trained.answer(0, last(trained, given)))
    assert isinstance(trained.answer(0, last(trained, others)), Reply)  # nothing of what was refused is an answer


@pytest.mark.integration
def test_survivors_are_signed_once_in_a_round_and_after_the_input(trained: Attack, tmp_path: Path) -> None:
    first = trained.agree(0, range(6))
    assert trained.agree(0, range(6)) == first
    assert "other inputs" in refusal(trained.answer(0, Agree((0, 1, 2, 3))))
    for survivors, why in (((0, 2, 3, 4), "is among them"), ((1, 2), "2 survivors"), ((1, 2, 3), "too few of this")):
        assert why in refusal(trained.answer(1, Agree(survivors)))
    other = Attack(tmp_path / "other", dict.fromkeys(range(3), range(3)), signed=True)
    assert "shared secrets" in refusal(other.answer(0, Agree((0, 1, 2))))
    without = Attack(tmp_path, dict.fromkeys(range(3), range(3)), signed=False)
    assert "no identity" in refusal(without.answer(0, Agree((0, 1, 2))))
