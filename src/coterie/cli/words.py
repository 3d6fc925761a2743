"""Words of a command line: those of lists that stand apart, and those that lack their flag.

``--seeds 0 1 2`` is ``--seeds 0,1,2``; ``coterie run mine.npz`` lacks ``--dataset``.
"""

import shlex
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from coterie.errors import CoterieError
from coterie.registry import Registry

COMMANDS = ("run", "cluster", "inspect", "compare", "sweep")
"""Those whose only argument is a file, which can be told from a word of a list."""
LISTS = ("--algorithms", "--seeds", "--tune-seeds", "--measures", "--against")
REPEATED = ("--vary", "--tune", "--target")
"""Flags whose words are pairs; a word without = goes on with the values of the last."""


def joined(words: Iterable[str]) -> list[str]:
    """Return the words of a command line with lists joined by commas, and flags of several pairs repeated.

    >>> joined(["sweep", "--vary", "lr=0.1", "0.01", "epochs=1,2", "--seeds", "0", "1", "--quiet"])
    ['sweep', '--vary', 'lr=0.1,0.01', '--vary', 'epochs=1,2', '--seeds', '0,1', '--quiet']
    >>> joined(["sweep", "--vary", "algorithm=fedavg", "pacfl:p=4"])
    ['sweep', '--vary', 'algorithm=fedavg,pacfl:p=4']
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
        elif flag in REPEATED and "=" in word and ":" not in word.partition("=")[0]:
            done += [flag, word]
        else:
            done[-1] = f"{done[-1].rstrip(',')},{word.lstrip(',')}"
    return done


def flag_for(word: str, methods_flag: str = "--algorithm") -> str | None:
    """Say which flag was probably left out before a word that should be a configuration file, or None.

    >>> flag_for("PACFL:p=5"), flag_for("mnist"), flag_for("run.toml")
    ("'PACFL:p=5' is a method: write --algorithm PACFL:p=5", "'mnist' is a data set: write --dataset mnist", None)
    >>> flag_for("fedavg,pacfl")
    "'fedavg,pacfl' are methods: write coterie compare --algorithms fedavg,pacfl"
    """
    from coterie.algorithms import ALGORITHMS
    from coterie.data import DATASETS, PARTITIONS, stored_names
    from coterie.models import MODELS
    from coterie.run.values import split_names

    path, written = Path(word), shlex.quote(word)
    if path.suffix == ".toml":
        return None
    if path.suffix == ".py":
        return f"'{word}' is a Python file: write --plugin {written}"
    if path.exists():
        return _what_is_there(path, written)
    name = word.partition(":")[0]
    if "," in name and all(ALGORITHMS.canonical(each) in ALGORITHMS for each in split_names(name)):
        return f"'{word}' are methods: write coterie compare --algorithms {written}"
    if name in stored_names() or DATASETS.canonical(name) in DATASETS:
        return f"'{word}' is a data set: write --dataset {written}"
    kinds: dict[str, Registry[Any]] = {methods_flag: ALGORITHMS, "--partition": PARTITIONS, "--model": MODELS}
    known = ((flag, registry) for flag, registry in kinds.items() if registry.canonical(name) in registry)
    return next((f"'{word}' is a {registry.kind}: write {flag} {written}" for flag, registry in known), None)


def _what_is_there(path: Path, written: str) -> str | None:
    """Say what a file or folder is, if it is not a configuration."""
    from coterie.data import recognise
    from coterie.results.comparison_folder import ComparisonFolder
    from coterie.results.run_folder import RunFolder

    if RunFolder(path).exists or ComparisonFolder(path).exists:
        return f"'{path}' holds runs: write coterie resume {written} to go on, or coterie report {written} to see them"
    try:
        recognise(path)
    except CoterieError:
        return None
    return f"'{path}' holds data: write --dataset {written}"
