"""A run in which no two clients share a group says that it is one of clients that train alone."""

import pytest

from coterie.results.statistics import ALONE
from coterie.run.progress import Progress
from coterie.testing import small_run


class Heard(Progress):
    def __init__(self) -> None:
        self.phases: list[str] = []

    def phase(self, text: str) -> None:
        self.phases.append(text)


@pytest.mark.integration
@pytest.mark.parametrize(("groups", "said"), [(6, [f"round 0: {ALONE}"]), (5, []), (1, [])])
def test_it_is_said_once_and_as_soon_as_it_is_known(groups: int, said: list[str]) -> None:
    heard = Heard()
    result = small_run("pacfl", groups=groups, rounds=2, progress=heard)
    assert len({*(result.groups or [])}) == groups
    assert [phase for phase in heard.phases if ALONE in phase] == said


@pytest.mark.integration
def test_a_method_without_groups_is_not_warned_of() -> None:
    heard = Heard()
    small_run("solo", rounds=1, progress=heard)
    assert not [phase for phase in heard.phases if ALONE in phase]
