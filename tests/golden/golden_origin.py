"""What golden results depend on besides the code: processor, compiled kernels, compiler and libraries."""

from __future__ import annotations

import datetime
import io
import os
import platform
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

LIBRARIES = ("numpy", "scipy", "scikit-learn", "torch", "safetensors", "threadpoolctl")
FLAGS = ("fma", "avx", "avx2", "avx512f", "avx512dq", "avx512vl", "avx512bw", "avx512_vnni", "avx512_bf16", "amx_tile")
WIDE, USUAL = {"avx512f", "avx512dq", "avx512vl", "avx512bw"}, {"avx2", "fma"}

THREADS = 2
"""Of BLAS and PyTorch outside of runs, which use one: some numbers of ``coterie inspect`` depend on it (mmd)."""


class CannotError(Exception):
    """What is asked can't be done here."""


def origin(commit: str) -> dict[str, Any]:
    """Describe where results come from; all but commit and date decides whether numbers can be compared."""
    model, known = _cpu("model name") or platform.processor(), _cpu("flags").split()
    flags = [flag for flag in FLAGS if flag in known]
    return {
        "commit": commit,
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "processor": {"machine": platform.machine(), "model": model, "flags": flags},
        "threads": min(THREADS, os.cpu_count() or 1),
        "kernels": "avx512" if {*flags} >= WIDE else "avx2" if {*flags} >= USUAL else "generic",
        "versions": {
            "python": platform.python_version(), **{name: version(name) for name in LIBRARIES}, "compiler": _compiler(),
        },
    }  # fmt: skip


def differences(was: dict[str, Any], now: dict[str, Any]) -> list[str]:
    """Say what differs of all that numbers depend on."""
    told = [
        f"{key}: was {was.get(key)}, is {now[key]}"
        for key in ("processor", "threads", "kernels")
        if was.get(key) != now[key]
    ]
    old = was.get("versions", {})
    return told + [
        f"{name}: was {old.get(name)}, is {is_}" for name, is_ in now["versions"].items() if old.get(name) != is_
    ]


def commit_of(source: Path) -> str:
    """Return the commit of a source tree, whose code must not differ from it."""
    if changed := git(source, "status", "--porcelain", "--", "src", "setup.py").decode().strip():
        raise CannotError(f"commit the code first, so that the results have an origin; changed:\n{changed}")
    return git(source, "rev-parse", "HEAD").decode().strip()


@contextmanager
def checked_out(repository: Path, commit: str) -> Iterator[Path]:
    """Unpack a commit into a folder that is removed afterwards, and build its compiled trainer there."""
    with TemporaryDirectory(prefix="golden-source-") as place:
        folder = Path(place).resolve()
        with tarfile.open(fileobj=io.BytesIO(git(repository, "archive", commit))) as archive:
            archive.extractall(folder, filter="data")
        command = [sys.executable, "setup.py", "--quiet", "build_ext", "--inplace"]
        built = subprocess.run(
            command, cwd=folder, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": ""}
        )
        if built.returncode:
            raise CannotError(f"the compiled trainer of {commit} can't be built:\n{built.stderr[-2000:]}")
        yield folder


def git(folder: Path, *arguments: str) -> bytes:
    try:
        return subprocess.run(["git", "-C", str(folder), *arguments], capture_output=True, check=True).stdout
    except OSError as error:
        raise CannotError(f"git is needed: {error.strerror}") from None
    except subprocess.CalledProcessError as error:
        raise CannotError(f"git {' '.join(arguments)}: {error.stderr.decode().strip()}") from None


def _cpu(key: str) -> str:
    """Return an entry of the first processor in /proc/cpuinfo, empty where there is none."""
    try:
        lines = Path("/proc/cpuinfo").read_text("utf-8").splitlines()
    except OSError:
        return ""
    return next((line.partition(":")[2].strip() for line in lines if line.partition(":")[0].strip() == key), "")


def _compiler() -> str | None:
    try:
        told = subprocess.run(["g++", "--version"], capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        return None
    return told.partition("\n")[0]
