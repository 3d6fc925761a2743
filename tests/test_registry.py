"""Names to things, also from several threads at once."""

import subprocess
import sys

import pytest

from coterie.errors import CoterieError
from coterie.models import MODELS


@pytest.mark.integration
def test_the_first_look_up_may_come_from_several_threads() -> None:
    """Each in a new process, since a registry is filled only once."""
    script = """
import threading
from coterie.models import MODELS
barrier, found = threading.Barrier(8), []
def look() -> None:
    barrier.wait()
    found.append("mclr" in MODELS)
threads = [threading.Thread(target=look) for _ in range(8)]
for thread in threads: thread.start()
for thread in threads: thread.join()
assert found == [True] * 8, found
"""
    subprocess.run([sys.executable, "-c", script], check=True)


def test_a_name_can_be_taken_once_only() -> None:
    assert "mclr" in MODELS
    with pytest.raises(CoterieError, match="registered already"):

        @MODELS.register("mclr")
        def other(shape: tuple[int, ...], classes: int) -> None:
            """Take a name that is taken."""


def test_the_values_that_a_message_offers_are_accepted() -> None:
    from coterie.data import PARTITIONS

    with pytest.raises(CoterieError, match="should be 'proportional' or 'R'"):
        PARTITIONS.validate("sc-niid", {"allocation": "S"})
    for written in ("R", "r"):  # capital letters do not matter
        assert PARTITIONS.validate("sc-niid", {"allocation": written})["allocation"] == "R"


def test_an_unknown_name_says_how_a_method_of_ones_own_is_found() -> None:
    with pytest.raises(CoterieError, match=r"there are: .*mclr.*; one of your own needs --plugin FILE"):
        MODELS["zzzzzz"]
    with pytest.raises(CoterieError, match=r"did you mean 'mclr'\?$"):
        MODELS["mclrr"]
