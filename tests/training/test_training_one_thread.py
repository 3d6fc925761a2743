"""One thread per operation, in every library that computes."""

from __future__ import annotations

import subprocess
import sys

import pytest

PROGRAM = """
from threadpoolctl import threadpool_info
from coterie.training import one_thread
with one_thread():
    import scipy.linalg
    print([library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"])
"""


@pytest.mark.slow
def test_also_scipys_own_blas() -> None:
    """In a process of its own: here SciPy may have been imported before."""
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    assert set(eval(done.stdout)) == {1}
