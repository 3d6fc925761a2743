"""Runs: configuration, building a federation, running, recording, the result.

This module is light on purpose: `import coterie` reads it, and everything else is imported when first used.
"""

from coterie.run.functions import cluster, export, predict, resume, run

__all__ = ["cluster", "export", "predict", "resume", "run"]
