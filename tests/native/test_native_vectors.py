"""Which instruction sets the library offers: those that the system says this machine has."""

from pathlib import Path

import pytest

from coterie.native import Network, Stage, available

CPUINFO = Path("/proc/cpuinfo")
NEEDED = {4: set(), 8: {"avx2", "fma"}, 16: {"avx512f", "avx512dq", "avx512bw", "avx512vl"}}


@pytest.mark.skipif(not available(), reason="the compiled trainer was not built here")
@pytest.mark.skipif(not CPUINFO.exists() or "\nflags" not in CPUINFO.read_text(), reason="not Linux on x86-64")
@pytest.mark.parametrize("lanes", NEEDED)
def test_vectors_are_those_that_the_system_names(lanes: int) -> None:
    line = next(line for line in CPUINFO.read_text().splitlines() if line.startswith("flags"))
    plan = [Stage(False, 6, 1, 1, 4)]
    if {*line.split()} >= NEEDED[lanes]:
        Network(plan, lanes)
    else:
        with pytest.raises(RuntimeError, match=f"no vectors of {lanes} floats"):
            Network(plan, lanes)
