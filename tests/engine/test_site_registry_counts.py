"""Sites declare how many samples they have to train and to test on; what nobody can have is refused."""

from pathlib import Path

import pytest

from coterie.engine.flower.site_registry import SiteRegistry, error_in_introduction
from coterie.messages.limits import MOST_SAMPLES

SITE = {"name": "site-1", "proof": "0" * 32, "samples": 69, "tests": 17, "problem": ""}


def test_both_numbers_are_kept_and_brought_up_to_date(tmp_path: Path) -> None:
    registry = SiteRegistry.open(tmp_path / "sites.json")
    registry.register({5: SITE})
    assert (registry.samples, registry.tests) == ({0: 69}, {0: 17})
    registry.register({6: {**SITE, "samples": 70, "tests": 18}})
    again = SiteRegistry.open(tmp_path / "sites.json")
    assert (again.samples, again.tests) == ({0: 70}, {0: 18})


def test_a_run_that_began_without_the_second_goes_on(tmp_path: Path) -> None:
    registry = SiteRegistry.open(tmp_path / "sites.json")
    registry.register({5: {key: value for key, value in SITE.items() if key != "tests"}})
    text = (tmp_path / "sites.json").read_text()
    (tmp_path / "sites.json").write_text(text.replace(f',\n   "tests": {MOST_SAMPLES}', ""))
    assert "tests" not in (tmp_path / "sites.json").read_text()
    assert SiteRegistry.open(tmp_path / "sites.json").tests == {0: MOST_SAMPLES}


@pytest.mark.parametrize("tests", [-1, MOST_SAMPLES + 1, "17", 1.5, None])
def test_impossible_numbers_are_refused(tests: object) -> None:
    assert "impossible number of samples" in (error_in_introduction({**SITE, "tests": tests}) or "")
