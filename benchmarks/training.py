"""Local training: trainers side by side, and a federation beside a two-process PyTorch loop.

    python benchmarks/training.py [flags of 'coterie bench train']

First `coterie bench train`. Then a federation of 100 clients with 500 samples each, 10 per round, LeNet-5 on 3×32×32,
E = 2, B = 10, no evaluation, on two cores: Coterie beside PyTorch in two processes, in the same run. Other frameworks
join in benchmarks/peers.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent


def main() -> int:
    """Run both; return the first exit code that is not 0."""
    trainers = subprocess.run([sys.executable, "-m", "coterie", "bench", "train", *sys.argv[1:]]).returncode
    peers = [sys.executable, str(HERE / "peers" / "run.py"), "--peers", "coterie"]
    return trainers or subprocess.run(peers).returncode


if __name__ == "__main__":
    sys.exit(main())
