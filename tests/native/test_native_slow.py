"""Long runs over the compiled trainer: random cases, hostile calls, and both under sanitizers; `make slow`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import sanitize

from coterie.native import available

pytestmark = pytest.mark.slow
HERE = Path(__file__).parent


def run(script: str, *arguments: str) -> None:
    """Run a script in a process of its own; what it says is shown where it fails."""
    done = subprocess.run([sys.executable, str(HERE / script), *arguments], capture_output=True, text=True)
    print(done.stdout, done.stderr)
    assert done.returncode == 0


@pytest.mark.skipif(not available(), reason="Coterie was installed without a C++ compiler")
def test_ten_thousand_random_cases() -> None:
    """Issue 4: no crash, no disagreement with PyTorch."""
    run("fuzz.py", "--cases", "10000", "--seed", "0")


@pytest.mark.skipif(not available(), reason="Coterie was installed without a C++ compiler")
def test_twenty_thousand_hostile_calls() -> None:
    """Issue 19: no input through the binding ends the process."""
    run("hostile_calls.py", "--calls", "20000", "--seed", "1")


def test_sanitizers_find_nothing() -> None:
    """Issue 4: no wrong access, no undefined behaviour, no leak."""
    if reason := sanitize.missing():
        pytest.skip(reason)
    run("sanitize.py", "--cases", "500", "--seed", "1")
