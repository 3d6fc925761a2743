"""Lists on the command line whose words stand apart: ``--seeds 0 1 2`` is ``--seeds 0,1,2``."""

from collections.abc import Iterable
from pathlib import Path

COMMANDS = ("run", "cluster", "inspect", "compare", "sweep")
"""Those whose only argument is a file, which can be told from a word of a list."""
LISTS = ("--algorithms", "--seeds", "--tune-seeds", "--measures", "--against")
REPEATED = ("--vary", "--tune", "--target")
"""Flags whose words are pairs; a word without = goes on with the values of the last."""


def joined(words: Iterable[str]) -> list[str]:
    """Return the words of a command line with lists joined by commas, and flags of several pairs repeated.

    >>> joined(["sweep", "--vary", "lr=0.1", "0.01", "epochs=1,2", "--seeds", "0", "1", "--quiet"])
    ['sweep', '--vary', 'lr=0.1,0.01', '--vary', 'epochs=1,2', '--seeds', '0,1', '--quiet']
    """
    done: list[str] = []
    flag, begun = "", False
    for word in words:
        if done and done[0] not in COMMANDS:
            done.append(word)
        elif word.startswith("-"):
            name, equals, _ = word.partition("=")
            flag, begun = name if name in LISTS + REPEATED else "", bool(equals)
            done.append(word)
        elif not flag or not begun:
            done.append(word)
            begun = True
        elif word.endswith(".toml") or Path(word).is_file():
            done.append(word)
            flag = ""
        elif flag in REPEATED and "=" in word:
            done += [flag, word]
        else:
            done[-1] = f"{done[-1].rstrip(',')},{word.lstrip(',')}"
    return done
