"""Who takes part: worked out when somebody comes or goes, not in every round."""

from collections import Counter
from collections.abc import Iterator, Mapping

import numpy as np
import pytest

from coterie.federation import Engine, EngineWrapper
from coterie.federation.membership import Membership
from coterie.federation.sampling import LARGE, order_of_cohorts
from coterie.messages import Evaluate
from coterie.streams import stream
from coterie.testing import small_federation


class Watched(dict[int, int]):
    """Counts how often somebody goes through it."""

    walks = 0

    def __iter__(self) -> Iterator[int]:
        self.walks += 1
        return super().__iter__()


class Here(EngineWrapper):
    """These clients are there."""

    def __init__(self, inner: Engine, here: Mapping[int, int]) -> None:
        super().__init__(inner)
        self.here = here

    def present(self, round: int) -> Mapping[int, int]:
        return self.here


def test_a_roster_is_made_anew_only_when_somebody_comes_or_goes() -> None:
    members, here = Membership(max_strikes=2), Watched({5: 1, 2: 0, 9: 4})
    members.admit([2, 5], 0)
    first = members.roster(here)
    assert (first.clients, first.trainable, first.newcomers) == ((2, 5), (5,), (9,))
    walks = here.walks
    members.strike(5)
    assert members.roster(here) is first
    assert here.walks == walks
    members.admit([9], 3)
    assert members.roster(here).clients == (2, 5, 9)
    assert members.strike(5)
    assert members.roster(here).clients == (2, 9)
    assert members.roster({9: 4}).clients == (9,)
    assert (members.joined, {*members.admitted}) == ({9: 3}, {2, 5, 9})


def test_members_are_restored_also_from_earlier_versions() -> None:
    members = Membership(max_strikes=2)
    members.admit([0, 1], 0)
    members.admit([7], 4)
    members.strike(1)
    old = {"admitted": {0, 1, 7}, "joined": {7: 4}, "strikes": {1: 1}}
    for state in (members.save(), old):
        again = Membership.saved_in(state)
        assert (again.since, again.joined, again.strikes) == ({0: 0, 1: 0, 7: 4}, {7: 4}, {1: 1})


def test_rounds_do_not_go_through_all_clients() -> None:
    with small_federation("fedavg") as (run, _):
        fed, here = run.fed, Watched(dict.fromkeys(range(6), 30))
        fed.wrap_engine(lambda inner: Here(inner, here))
        assert fed.clients == (0, 1, 2, 3, 4, 5)
        walks = here.walks
        for t in range(1, 4):
            fed.start_round(t)
            cohort = fed.cohort(t)
            fed.ask(dict.fromkeys(cohort, fed.request(Evaluate("initial"))))
            assert (fed.newcomers, len(fed.trainable), len(cohort)) == ((), 6, 3)
        assert here.walks == walks


def test_cohorts_of_a_large_federation_are_drawn_alike() -> None:
    count, size, draws = 2 * LARGE, 500, 400
    drawn = [order_of_cohorts(stream(3, "cohort", t), count, size, only_first=True) for t in range(draws)]
    assert all(len({*cohort}) == size for cohort in drawn)
    halves = np.array([np.mean(np.array(cohort) < LARGE) for cohort in drawn])
    assert halves.mean() == pytest.approx(0.5, abs=5 * 0.5 / np.sqrt(size * draws))
    times = Counter(client for cohort in drawn for client in cohort)
    assert max(times.values()) < 40  # 10 are expected
    assert drawn[0] == order_of_cohorts(stream(3, "cohort", 0), count, size)[:size] != drawn[1]


def test_up_to_ten_thousand_clients_cohorts_are_as_they_were() -> None:
    order = stream(0, "cohort", 1).permutation(LARGE).tolist()
    assert order_of_cohorts(stream(0, "cohort", 1), LARGE, 7) == order
    assert order_of_cohorts(stream(0, "cohort", 1), LARGE, 7, only_first=True) == order[:7]
