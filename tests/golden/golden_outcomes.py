"""Runs a case in this process and keeps what must not change of its outcome: numbers, without times and prose."""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
import runpy
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any
from unittest import mock

from golden_cases import Case
from golden_origin import THREADS

RESULT = (
    "accuracy", "per_client", "groups", "true_groups", "ari", "details", "memberships", "newcomers", "traffic",
    "targets", "trainer", "engine",
)  # fmt: skip
"""Fields of result.json; of `grouping` and `events` only some entries are kept."""
GROUPING = ("rule", "threshold", "unit", "confidence")
EVENT = ("count", "first_round", "last_round", "clients")
LEFT_OUT = {"seconds", "versions", "notes", "part", "remarks", "shortened", "skipped"}
"""Keys of times, versions and prose."""
WORDS = {"choice", "engine", "grade", "kind", "protocol", "rule", "trainer", "unit"}
"""Keys whose texts are kept; all other texts are prose, paths or versions."""
LONGEST = 40
"""Characters of a list that is kept as it is; of a longer one its length and a digest."""
TALLEST = 8
"""Rows of a list of tables that is kept as it is; a longer one is kept column by column."""
DIGITS = 12
"""Of a digest."""
MODELS = 2
"""Groups whose models are taken out of a run; a call of the command line takes a while."""
MEMORY = Path("/dev/shm")
"""Where folders of runs are quick, since nothing waits for a disk."""
ATTEMPTS, PATIENCE = 5, 300.0
"""How often a run is started to be killed, and seconds in which it should have begun."""

Json = Any


def begin(source: str, data: str | None) -> None:
    """Prepare a process: Coterie is that of `source`, for the processes that it starts too."""
    package = str(Path(source) / "src")
    sys.path.insert(0, package)
    os.environ["PYTHONPATH"] = package
    os.environ.update(dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), str(THREADS)))
    if data is not None:
        os.environ["COTERIE_DATA"] = data
    import coterie

    if not Path(str(coterie.__file__)).is_relative_to(package):
        raise RuntimeError(f"coterie is {coterie.__file__}, not that of {package}")


def outcome(case: Case) -> Json:
    """Run a case; return what is kept, or how it `ended`: refused as a mistake of the user, failed, or skipped."""
    import coterie

    data = Path(os.environ.get("COTERIE_DATA", os.devnull))
    if lost := [name for name in case.needs if not any((data / f"{name}{end}").exists() for end in ("", ".npz"))]:
        return {"ended": "skipped", "why": f"{', '.join(lost)} is not here: name its folder in COTERIE_DATA"}
    with tempfile.TemporaryDirectory(prefix="golden-", dir=MEMORY if os.access(MEMORY, os.W_OK) else None) as place:
        try:
            kept = {"run": _run, "killed": _killed, "cluster": _command, "command": _command}[case.kind](
                case, Path(place)
            )
        except coterie.CoterieError as error:
            return {"ended": "refused", "why": str(error).strip()}
        except Exception as error:
            return {"ended": "failed", "why": f"{type(error).__name__}: {error}"}
    return shortened(json.loads(json.dumps(kept)))


def _run(case: Case, place: Path) -> Json:
    import coterie

    coterie.run(**case.settings, out=str(place / "run"))
    return run_folder(place / "run")


def _killed(case: Case, place: Path) -> Json:
    """Kill a run after its second evaluation, and resume it; on a busy machine one may be over before it is killed."""
    import coterie

    for attempt in range(ATTEMPTS):
        folder = place / f"run-{attempt}"
        if _killed_in_time(case, folder):
            coterie.resume(folder)
            return run_folder(folder)
    raise RuntimeError(f"{ATTEMPTS} times the run was over, or had not begun, when it was killed")


def _killed_in_time(case: Case, folder: Path) -> bool:
    flags = [part for key, value in case.settings.items() for part in (f"--{key.replace('_', '-')}", str(value))]
    command = [sys.executable, "-m", "coterie", "run", *flags, "--quiet", "--out", str(folder)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    rows, ends = folder / "metrics.jsonl", time.monotonic() + PATIENCE
    while process.poll() is None and time.monotonic() < ends:
        if rows.exists() and rows.read_bytes().count(b"\n") >= 2:
            break
        time.sleep(0.002)
    process.kill()
    process.wait()
    return rows.exists() and not (folder / "result.json").exists()


def _command(case: Case, place: Path) -> Json:
    """Call the command line; keep the numbers of the JSON that it prints or writes."""
    import coterie

    code, out, err = call(*(str(place / "out") if part == "OUT" else part for part in case.arguments))
    if code == 2:
        raise coterie.CoterieError(err)
    if code:
        raise RuntimeError(f"exit code {code}: {err}")
    if case.reads:
        (written,) = (place / "out").glob(case.reads)  # parts of a table have folders of their own
        out = written.read_text("utf-8")
    return numbers(json.loads(out))


def call(*arguments: str) -> tuple[int, str, str]:
    """Do what ``python -m coterie`` does, in this process; return exit code, output and errors."""
    out, err = io.StringIO(), io.StringIO()
    code: Any = 0
    try:
        with (
            mock.patch.object(sys, "argv", ["coterie", *arguments]),
            contextlib.redirect_stdout(out),
            contextlib.redirect_stderr(err),
        ):
            runpy.run_module("coterie", run_name="__main__", alter_sys=True)
    except SystemExit as end:
        code = end.code or 0
    return int(code), out.getvalue(), err.getvalue()


def run_folder(folder: Path) -> Json:
    """Keep what a run folder tells: the result, the evaluated rounds column by column, and digests of models."""
    result = json.loads((folder / "result.json").read_text("utf-8"))
    rows = [json.loads(row) for row in (folder / "metrics.jsonl").read_text("utf-8").splitlines()]
    columns = sorted({key for row in rows for key in row} - LEFT_OUT)
    grouping = result.get("grouping")
    return {
        **{name: numbers(result[name], name) for name in RESULT if name in result},
        "grouping": grouping and {name: grouping[name] for name in GROUPING if name in grouping},
        "events": {event["kind"]: {name: event[name] for name in EVENT if name in event} for event in result["events"]},
        "metrics": {column: [row.get(column) for row in rows] for column in columns},
        "models": models(folder, result),
    }


def models(folder: Path, result: Mapping[str, Any]) -> dict[str, str | None]:
    """Return digests of models that ``coterie export`` takes out: the server's or groups', and a client's own."""
    groups = sorted({group for group in result["groups"] or () if group is not None})[:MODELS]
    server = {f"group {g}": ("--cluster", str(g)) for g in groups} if result["accuracy"]["G"] is None else {"all": ()}
    return {name: _model(folder, flags) for name, flags in {**server, "client 0": ("--client", "0")}.items()}


def _model(folder: Path, flags: Iterable[str]) -> str | None:
    from safetensors.numpy import load_file

    path = folder / "golden.safetensors"
    code, _, err = call("export", str(folder), *flags, "--out", str(path))
    if code == 2:
        return None
    if code:
        raise RuntimeError(f"export ended with code {code}: {err}")
    digest = hashlib.sha256()
    for name, value in sorted(load_file(path).items()):
        digest.update(f"{name} {value.dtype.str} {value.shape} ".encode() + value.tobytes())
    path.unlink()
    return digest.hexdigest()[:DIGITS]


NOTHING = object()


def numbers(value: Json, key: str = "") -> Json:
    """Leave out times, prose and paths: texts are kept under some keys only."""
    kept = _numbers(value, key)
    return None if kept is NOTHING else kept


def _numbers(value: Json, key: str) -> Json:
    if isinstance(value, dict):
        found = {name: _numbers(item, name) for name, item in value.items() if name not in LEFT_OUT}
        return {name: item for name, item in found.items() if item is not NOTHING}
    if isinstance(value, list):
        items = [item for item in (_numbers(item, key) for item in value) if item is not NOTHING]
        return items if items or not value else NOTHING
    return NOTHING if isinstance(value, str) and key not in WORDS else value


def shortened(value: Json) -> Json:
    """Replace long lists of plain values, and long tables by client, by their number of values and a digest."""
    text = json.dumps(value, sort_keys=True)
    if len(text) > LONGEST and _is_plain(value):
        return f"{text.count(',') + 1}#{hashlib.sha256(text.encode()).hexdigest()[:DIGITS]}"
    if isinstance(value, list) and len(value) > TALLEST and all(isinstance(item, dict) for item in value):
        rows = [dict(leaves(item)) for item in value]
        columns = dict.fromkeys(key for row in rows for key in row)
        return {"rows": len(rows), **{key: shortened([row.get(key) for row in rows]) for key in columns}}
    if isinstance(value, dict):
        return {key: shortened(item) for key, item in value.items()}
    return [shortened(item) for item in value] if isinstance(value, list) else value


def leaves(value: Json, path: str = "") -> list[tuple[str, Json]]:
    """Return what tables hold, with the way to it. A list is one value unless it holds tables; those are counted."""
    if isinstance(value, dict):
        return [leaf for key, item in value.items() for leaf in leaves(item, f"{path}.{key}" if path else key)]
    if isinstance(value, list) and any(isinstance(item, dict) for item in value):
        inner = [leaf for i, item in enumerate(value) for leaf in leaves(item, f"{path}[{i}]")]
        return [(f"{path}.length", len(value)), *inner]
    return [(path, value)]


def _is_plain(value: Json) -> bool:
    """Tell lists that hold no named fields, to which later versions could add, from others."""
    if isinstance(value, dict):
        return all(key.isdecimal() for key in value) and all(map(_is_leaf_or_plain, value.values()))
    return isinstance(value, list) and all(map(_is_leaf_or_plain, value))


def _is_leaf_or_plain(value: Json) -> bool:
    return _is_plain(value) if isinstance(value, dict | list) else True
