"""Writes and checks golden results: numbers of many small runs that a change of the code must not change.

    python tests/golden/golden.py write
    python tests/golden/golden.py check [--only PATTERN] [--source DIR] [--jobs N]

See README.md beside this file.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import sys
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

from golden_cases import HERE, Case, cases
from golden_origin import CannotError, checked_out, commit_of, differences, origin
from golden_outcomes import DIGITS, begin, leaves, outcome

ROOT = HERE.parents[1]
RESULTS, ORIGIN = HERE / "results", HERE / "origin.json"
SHOWN = 4
"""Differences that are shown of a case."""

Outcomes = dict[str, Any]
"""By case."""


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Golden results: numbers that a change of the code must not change.")
    commands = parser.add_subparsers(dest="command", required=True)
    for name, told in (("write", "run all cases and keep their numbers"), ("check", "run them again and compare")):
        command = commands.add_parser(name, help=told)
        command.add_argument("--source", type=Path, default=ROOT, help="source tree whose code is run [this one]")
        command.add_argument("--jobs", type=int, default=2, help="processes [2]")
    command.add_argument("--only", metavar="PATTERN", help="cases whose name contains this text, or fits it (*, ?)")
    command.add_argument("--anew", action="store_true", help="take the golden results anew on this machine in any case")
    asked = parser.parse_args(arguments)
    try:
        source = asked.source.resolve()
        if asked.command == "write":
            return write(source, asked.jobs)
        return check(source, asked.jobs, asked.only, asked.anew)
    except CannotError as error:
        print(f"golden: {error}", file=sys.stderr)
        return 2


def write(source: Path, jobs: int) -> int:
    """Run all cases and keep their outcomes; say what changed since the last time."""
    commit, began = commit_of(source), time.monotonic()
    found, skipped = take(cases(), source, jobs)
    wrong = [f"{name}: {kept['why']}" for name, kept in found.items() if kept.get("ended") == "failed"]
    wrong += disagreements(cases(), found)
    if wrong:
        print("\n".join(wrong), file=sys.stderr)
        raise CannotError(f"{len(wrong)} cases failed or disagree: nothing is written")
    changed = compare(stored(), found)
    save(found, origin(commit))
    told(f"{len(found)} cases written, {total(found)} numbers, {time.monotonic() - began:.0f} s", skipped)
    if changed:
        print(f"changed since the last time: {len(changed)} cases ({', '.join([*changed][:10])}, ...)")
    return 0


def check(source: Path, jobs: int, only: str | None, anew: bool) -> int:
    """Run cases again and compare them with what is kept, or with what the commit that made it gives here."""
    asked, began = cases(only), time.monotonic()
    if not asked:
        raise CannotError(f"no case fits '{only}'")
    if not ORIGIN.exists():
        raise CannotError("there are no golden results: write them first")
    made = json.loads(ORIGIN.read_text("utf-8"))
    expected: Outcomes = {
        name: kept for name, kept in stored().items() if only is None or name in {c.name for c in asked}
    }
    if other := differences(made, origin("")):
        print("This machine is not that of the golden results:\n  " + "\n  ".join(other))
    if other or anew:
        print(f"They are taken anew here, from commit {made['commit']}.", flush=True)
        with checked_out(ROOT, made["commit"]) as folder:
            expected, _ = take([case for case in asked if case.name in expected], folder, jobs)
    found, skipped = take(asked, source, jobs)
    differing = compare({name: kept for name, kept in expected.items() if name not in skipped}, found)
    for name, lines in differing.items():
        print("\n".join(f"{name}: {line}" for line in lines[:SHOWN]))
        if len(lines) > SHOWN:
            print(f"{name}: and {len(lines) - SHOWN} more")
    apart = disagreements([case for case in asked if case.name not in differing], found)
    print("\n".join(apart), end="\n" if apart else "")
    both = {name: kept for name, kept in expected.items() if name in found}
    unknown = [name for name in found if name not in expected]
    told(
        f"{len(both)} cases compared, {total(both)} numbers, {time.monotonic() - began:.0f} s: "
        + (f"{len(differing) + len(apart)} cases DIFFER" if differing or apart else "no difference"),
        skipped,
    )
    if unknown:
        print(f"not among the golden results: {', '.join(unknown)}")
    return 1 if differing or apart else 0


def take(asked: Sequence[Case], source: Path, jobs: int) -> tuple[Outcomes, dict[str, str]]:
    """Run cases on a source tree, in processes of their own; return outcomes, and why some were left out."""
    shared = ROOT.parent / "shared" / "data"
    data = os.environ.get("COTERIE_DATA") or (str(shared) if shared.is_dir() else None)
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(jobs, context, begin, (str(source), data)) as pool:
        outcomes: Outcomes = {}
        for case, kept in zip(asked, pool.map(outcome, asked), strict=True):
            outcomes[case.name] = kept
            if len(outcomes) % 50 == 0 or len(outcomes) == len(asked):
                print(f"  {len(outcomes)} of {len(asked)}", file=sys.stderr, flush=True)
    skipped = {name: kept["why"] for name, kept in outcomes.items() if kept.get("ended") == "skipped"}
    return {name: kept for name, kept in outcomes.items() if name not in skipped}, skipped


def disagreements(asked: Sequence[Case], found: Outcomes) -> list[str]:
    """Say which cases differ from those with which they must agree, such as runs with one worker and with two."""
    pairs = [(case.name, case.same) for case in asked if case.same in found and case.name in found]
    return [
        f"{name}: differs from {other}: {line}"
        for name, other in pairs
        for line in unlike(found[str(other)], found[name])[:1]
    ]


def compare(expected: Outcomes, found: Outcomes) -> dict[str, list[str]]:
    """Return by case what differs; what is only in `found` is new and ignored."""
    gone = {name: ["the case is gone"] for name in expected if name not in found}
    lines = {name: unlike(kept, found[name]) for name, kept in expected.items() if name in found}
    return gone | {name: differing for name, differing in lines.items() if differing}


def unlike(was: dict[str, Any], is_: dict[str, Any]) -> list[str]:
    """Compare two outcomes field by field, to the last digit."""
    before, after = (dict(leaves(value)) for value in (was, is_))
    if was.get("ended") != is_.get("ended"):
        return [f"ended: was {was.get('ended', 'well')} is {is_.get('ended', 'well')} {is_.get('why', '')}".rstrip()]
    return [
        f"{path}: was {_text(value)} is {_text(after[path]) if path in after else 'missing'}"
        for path, value in before.items()
        if path != "why" and (path not in after or _text(value) != _text(after[path]))
    ]


def total(outcomes: Mapping[str, Any]) -> int:
    """Count the numbers, those behind digests of lists too; a digest of a model is one."""

    def count(value: Any) -> int:
        if isinstance(value, dict | list):
            return sum(map(count, value.values() if isinstance(value, dict) else value))
        if isinstance(value, str):
            return int(value.partition("#")[0]) if "#" in value else int(_is_digest(value))
        return int(value is not None)

    return sum(map(count, outcomes.values()))


def stored() -> Outcomes:
    """Read the golden results."""
    files = sorted(RESULTS.glob("*.json"))
    return {name: kept for file in files for name, kept in json.loads(file.read_text("utf-8")).items()}


def save(outcomes: Outcomes, made: dict[str, Any]) -> None:
    """Write a file per family, a line per case."""
    RESULTS.mkdir(exist_ok=True)
    for file in RESULTS.glob("*.json"):
        file.unlink()
    families: dict[str, list[str]] = {}
    for name in sorted(outcomes):
        kept = {key: value for key, value in outcomes[name].items() if key != "why"}
        line = f"{json.dumps(name)}: {json.dumps(kept, sort_keys=True, separators=(',', ':'))}"
        families.setdefault(name.partition("/")[0], []).append(line)
    for family, lines in families.items():
        (RESULTS / f"{family}.json").write_text("{\n" + ",\n".join(lines) + "\n}\n", "utf-8")
    ORIGIN.write_text(json.dumps(made, indent=1) + "\n", "utf-8")


def told(text: str, skipped: Mapping[str, str]) -> None:
    for name, why in skipped.items():
        print(f"{name}: left out, {why}")
    print(text)


def _text(value: Any) -> str:
    return json.dumps(value)


def _is_digest(text: str) -> bool:
    return len(text) == DIGITS and {*text} <= {*"0123456789abcdef"}


if __name__ == "__main__":
    sys.exit(main())
