"""Sites declare how many samples they have to train and to test on; what nobody can have is refused."""

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("cryptography", reason="needs the extra: pip install 'coterie[flower]'")

from coterie.engine.flower.identity import NO_CERTIFICATE, signed
from coterie.engine.flower.site_registry import SiteRegistry, error_in_introduction
from coterie.messages.limits import MOST_SAMPLES

NONCE = "0" * 32
SITE: dict[str, Any] = {"name": "site-1", "samples": 69, "tests": 17, "problem": ""}


def test_both_numbers_are_kept_and_brought_up_to_date(tmp_path: Path) -> None:
    registry = SiteRegistry.open(tmp_path / "sites.json")

    def register(node: int, **changes: int) -> None:
        said = signed({**SITE, **changes}, "s" * 32, registry.federation, NO_CERTIFICATE, NONCE)
        registry.register({node: said}, {node: NONCE})

    register(5)
    assert (registry.samples, registry.tests) == ({0: 69}, {0: 17})
    register(6, samples=70, tests=18)
    again = SiteRegistry.open(tmp_path / "sites.json")
    assert (again.samples, again.tests) == ({0: 70}, {0: 18})


@pytest.mark.parametrize("tests", [-1, MOST_SAMPLES + 1, "17", 1.5, None])
def test_impossible_numbers_are_refused(tests: object) -> None:
    assert "impossible number of samples" in (error_in_introduction({**SITE, "tests": tests}) or "")
