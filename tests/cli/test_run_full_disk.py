"""A disk that is really full, in a mount namespace of our own."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from command_line import Answer, refusal

pytestmark = pytest.mark.integration

UNSHARE = ["unshare", "--mount"] if os.getuid() == 0 else ["unshare", "--map-root-user", "--mount"]


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What `full_disk_scenarios.py` saw."""
    folder = tmp_path_factory.mktemp("disks")
    if shutil.which("unshare") is None:
        pytest.skip("there is no `unshare`")
    trial = f"mount -t tmpfs -o size=64k tmpfs '{folder}'"
    if subprocess.run([*UNSHARE, "sh", "-c", trial], capture_output=True).returncode:
        pytest.skip("file systems can't be mounted here, not even in a namespace of our own")
    script = Path(__file__).parent / "full_disk_scenarios.py"
    done = subprocess.run([*UNSHARE, sys.executable, str(script), str(folder)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr

    def answers(value: dict[str, Any]) -> Any:
        return Answer(**value) if set(value) == {"code", "out", "err"} else value

    return json.loads(done.stdout, object_hook=answers)  # type: ignore[no-any-return]


def test_a_disk_that_fills_up_in_the_middle_costs_nothing_but_time(seen: dict[str, Any]) -> None:
    what = seen["full_in_the_middle"]
    for attempt in ("failed", "still full"):
        assert "free some space" in refusal(what[attempt])
    assert "coterie resume" in refusal(what["failed"])
    assert what["left"] == []
    assert not what["finished too early"]
    assert what["resumed"] == Answer(0, "", "")
    assert what["outcome"] == seen["whole"]


def test_the_message_says_which_disk_is_full(seen: dict[str, Any]) -> None:
    for attempt in ("failed", "still full"):
        assert "full_in_the_middle/run" in refusal(seen["full_in_the_middle"][attempt])


def test_a_disk_that_is_full_from_the_start(seen: dict[str, Any]) -> None:
    what = seen["full_from_the_start"]
    assert "free some space" in refusal(what["failed"])
    assert what["mended"] == Answer(0, "", "")
    assert what["outcome"] == seen["whole"]


def test_what_fits_on_a_disk_can_be_resumed_there(seen: dict[str, Any]) -> None:
    what = seen["resumed_beside_its_own_states"]
    assert what["started"] == Answer(0, "", "")
    assert what["resumed"] == Answer(0, "", "")


def test_a_disk_that_is_too_small_is_seen_before_anything_is_written(seen: dict[str, Any]) -> None:
    what = seen["too_small_for_the_states"]
    assert "too_small_for_the_states" in refusal(what["failed"])
    assert what["left"] == {}


def test_the_message_says_how_much_is_needed(seen: dict[str, Any]) -> None:
    assert "0.0 GB" not in refusal(seen["too_small_for_the_states"]["failed"])


def test_predictions_are_written_whole_or_not_at_all(seen: dict[str, Any]) -> None:
    what = seen["predictions_on_a_full_disk"]
    message = refusal(what["failed"])
    assert "full" in message
    assert not what["left"]
    assert "coterie resume" not in message, "resuming a run does not mend this"
