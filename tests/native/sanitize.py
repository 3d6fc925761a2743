"""The native tests, hostile calls and the fuzzer over a library that is built with AddressSanitizer and UBSan.

    python tests/native/sanitize.py --cases 500

The package is copied into a temporary folder and its library compiled there, with what setup.py says and the
sanitizers. Wrong reads and writes and undefined behaviour end a run at once. Leaks are looked for when a run ends;
Python and PyTorch leave some of their own, so that those count whose memory the library took. First, faults that
are planted in the same library must be noticed: else nothing that follows means anything.
"""

from __future__ import annotations

import argparse
import os
import re
import runpy
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import chdir
from importlib.util import find_spec
from pathlib import Path
from unittest.mock import patch

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
SANITIZERS = [
    "-g",
    "-O1",
    "-fno-omit-frame-pointer",
    "-fsanitize=address,undefined",
    "-fno-sanitize-recover=all",
    "-D_GLIBCXX_SANITIZE_VECTOR",  # what lies between a vector's size and its capacity is out of bounds
    "-D_GLIBCXX_ASSERTIONS",
]
PLANTED = """
#include <cstdlib>
#include <new>
extern "C" void planted_leak() { static_cast<volatile char*>(::operator new(77))[0] = 1; }
extern "C" int planted_overflow(const float* numbers, int at) { return numbers[at] > 0; }
extern "C" int planted_undefined(int number) { return number + 2147483647; }
"""
REFUSED = re.compile(r"==\d+==WARNING: AddressSanitizer failed to allocate .*\n?")
"""What hostile calls ask for and do not get, which is no fault."""
CALL = "import ctypes, sys, numpy; from coterie.native import library; lib = library()._name; "
FAULTS = {
    "leak": "[library().planted_leak() for _ in range(3)]",
    "overflow": "library().planted_overflow(ctypes.c_void_p(numpy.zeros(300, 'f').ctypes.data), 300)",
    "undefined": "library().planted_undefined(1)",
}


def missing() -> str | None:
    """Say what this needs and is not here."""
    if not shutil.which("g++"):
        return "there is no g++"
    if not find_spec("setuptools"):
        return "there is no setuptools, which setup.py needs"
    return None if len(runtimes()) == 2 else "g++ has no AddressSanitizer"


def runtimes() -> list[str]:
    """What a Python that was not built with sanitizers has to load first."""
    names = ("libasan.so", "libstdc++.so")
    said = [
        subprocess.run(["g++", f"-print-file-name={n}"], capture_output=True, text=True).stdout.strip() for n in names
    ]
    return [path for path in said if os.path.isabs(path)]


def compile_into(package: Path) -> Path:
    """Compile the copied package's library as setup.py would, with sanitizers, and with planted faults."""
    with chdir(ROOT), patch("setuptools.setup") as setup:
        runpy.run_path("setup.py")
    (extension,) = setup.call_args.kwargs["ext_modules"]
    (package / "native" / "planted.cpp").write_text(PLANTED)
    sources = [package / "native" / Path(name).name for name in [*extension.sources, "planted.cpp"]]
    flags = [*extension.extra_compile_args, *SANITIZERS, "-fPIC"]

    def compiled(source: Path) -> Path:
        target = source.with_suffix(".o")
        subprocess.run(["g++", *flags, "-c", str(source), "-o", str(target)], check=True)
        return target

    with ThreadPoolExecutor() as pool:
        objects = [str(target) for target in pool.map(compiled, sources)]
    library = package / "native" / "_library.so"
    subprocess.run(["g++", *flags, "-shared", *objects, "-o", str(library)], check=True)
    return library


class Watched:
    """Runs Python on the copied package and reads what the sanitizers wrote."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.runs = 0

    def run(self, *arguments: str) -> tuple[int, list[str]]:
        """Return the exit code and the sanitizers' findings in the library; UBSan writes them to the standard error."""
        self.runs += 1
        log = self.folder / f"log-{self.runs}"
        common = f"log_path={log}:abort_on_error=1:exitcode=0:detect_stack_use_after_return=1"
        environment = {
            **os.environ,
            "LD_PRELOAD": " ".join(runtimes()),
            "PYTHONPATH": str(self.folder),
            "PYTHONMALLOC": "malloc",  # what Python holds is then found by the search for leaks
            "ASAN_OPTIONS": f"{common}:detect_leaks=1:allocator_may_return_null=1",
            "UBSAN_OPTIONS": f"{common}:print_stacktrace=1",
        }
        done = subprocess.run(
            [sys.executable, *arguments], cwd=ROOT, env=environment, stderr=subprocess.PIPE, text=True
        )
        reports = [path.read_text() for path in sorted(self.folder.glob(f"{log.name}.*"))]
        reports += [done.stderr] if done.returncode else []
        return done.returncode, [finding for report in reports for finding in self.findings(report)]

    def findings(self, report: str) -> list[str]:
        """The errors of a report, and those of its leaks that name the library or its sources."""
        report = REFUSED.sub("", report)
        if not report.strip():
            return []
        if "ERROR: LeakSanitizer" not in report:
            return [report]
        blocks = re.split(r"\n(?=Direct leak|Indirect leak|SUMMARY)", report)
        return [block for block in blocks if str(self.folder) in block]


def main(arguments: Sequence[str] | None = None) -> int:
    """Build, see that planted faults are noticed, run the tests and the fuzzer; return 1 if anything was found."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=500, help="of the fuzzer")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)
    reason = missing()
    if reason:
        print(f"nothing to run: {reason}")
        return 1
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name).resolve()
        shutil.copytree(
            ROOT / "src" / "coterie", folder / "coterie", ignore=shutil.ignore_patterns("*.so", "__pycache__")
        )
        library = compile_into(folder / "coterie")
        watched = Watched(folder)
        for fault, call in FAULTS.items():
            _, found = watched.run("-c", CALL + f"assert lib == {str(library)!r}, lib; {call}")
            if not any(f"planted_{fault}" in finding for finding in found):
                print(f"the planted {fault} was not noticed: {found}")
                return 1
            print(f"the planted {fault} was noticed", flush=True)
        bad = 0
        for what in (
            ["-m", "pytest", "-q", "-p", "no:cacheprovider", str(HERE / "test_native_trainer.py")],
            [str(HERE / "hostile_calls.py"), "--calls", str(4 * options.cases), "--room", "5"],
            [str(HERE / "fuzz.py"), "--workers", "0", "--cases", str(options.cases), "--seed", str(options.seed)],
        ):
            code, found = watched.run(*what)
            print("\n".join([*found, f"{' '.join(what)}: exit code {code}, {len(found)} findings"]), flush=True)
            bad += code != 0 or bool(found)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
