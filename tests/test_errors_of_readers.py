"""Whatever bytes a reader is given: it reads them, or refuses them in one sentence, soon and without much memory."""

import subprocess
import sys
from pathlib import Path

import pytest

from coterie.errors import LONGEST, CoterieError

SCRIPT = Path(__file__).parent / "fuzzing" / "fuzz_readers.py"


def read_damaged(inputs: int, seed: int, keep: Path) -> None:
    """Read damaged inputs of all readers; what was not refused properly is kept, and named where this fails."""
    command = [sys.executable, str(SCRIPT), "--inputs", str(inputs), "--seed", str(seed), "--keep", str(keep)]
    done = subprocess.run(command, capture_output=True, text=True)
    print(done.stdout, done.stderr)
    assert done.returncode == 0


@pytest.mark.parametrize("quoted", ["a\nb\r\n", "\x1b[2J\x07", "\u2028\u202e\x00", "x" * 10**6])
def test_what_is_said_is_one_line_with_an_end(quoted: str) -> None:
    text = str(CoterieError(f"'{quoted}' is damaged: remove it"))
    assert text.isprintable()
    assert text.endswith("' is damaged: remove it")
    assert len(text) <= LONGEST


@pytest.mark.integration
def test_damaged_inputs_are_read_or_refused(tmp_path: Path) -> None:
    read_damaged(60, 1, tmp_path)


@pytest.mark.slow
def test_twenty_thousand_damaged_inputs_are_read_or_refused(tmp_path: Path) -> None:
    """Issue 19: no traceback, no "this is a bug", none over a second or 200 MB."""
    read_damaged(20_000, 0, tmp_path)
