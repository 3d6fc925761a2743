"""What is released: which wheel comes out of which machine, what is in it, and that it runs where it is put."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tarfile
from email import message_from_string
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from zipfile import ZipFile

import pytest

import coterie
from coterie.native import LIBRARY, available

ROOT = Path(__file__).parents[1]
FOLDERS = (".ci", "benchmarks", "docs", "examples", "src/coterie", "tests")
BESIDE = {"CHANGELOG.md", "CITATION.cff", "CONTRIBUTING.md", "LICENSE", "Makefile", "README.md", "RELEASING.md"} | {
    *("SECURITY.md", "conftest.py", "constraints.txt", "mkdocs.yml", "pyproject.toml", "setup.py"),
}
NOT_RELEASED = (".git", ".venv", "build", "dist", "site", "runs", "reproductions", "__pycache__", "*.egg-info", "*.so")
OLD_NAME = "_library.cpython-311-x86_64-linux-gnu.so"
BUILT = bool(find_spec("setuptools")) and int(version("setuptools").split(".")[0]) >= 77
needs_setuptools = pytest.mark.skipif(not BUILT, reason="setuptools 77 or later is not here")


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sources as a clone has them, with a library that an older version left."""
    copy = tmp_path_factory.mktemp("release") / "coterie"
    shutil.copytree(ROOT, copy, ignore=shutil.ignore_patterns(*NOT_RELEASED))
    (copy / "src/coterie/native" / OLD_NAME).write_bytes(b"old")
    return copy


def build(kind: str, sources: Path, **environment: str) -> Path:
    """Build a wheel or an sdist as pip does, without network; return the file."""
    program = f"from setuptools import build_meta; print(build_meta.build_{kind}('dist'))"
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=sources, env=os.environ | environment, capture_output=True, text=True
    )
    if done.returncode:
        raise RuntimeError(done.stdout + done.stderr)
    return sources / "dist" / done.stdout.splitlines()[-1]


def files_in(root: Path, part: str) -> set[str]:
    """Name the files in a folder of the project, but what Python left there."""
    found = (path for path in (root / part).rglob("*") if path.is_file() and path.suffix not in (".pyc", ".so"))
    return {path.relative_to(root).as_posix() for path in found}


def run(program: str, packages: Path, folder: Path) -> str:
    """Run Python somewhere, with these packages before all others."""
    environment = os.environ | {"PYTHONPATH": str(packages)}
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=folder, env=environment, capture_output=True, text=True, check=True
    )
    return done.stdout


def test_one_version_is_named_everywhere() -> None:
    cited = re.search(r"^version: (.+)$", (ROOT / "CITATION.cff").read_text(encoding="utf-8"), re.MULTILINE)
    changed = re.search(r"^## \[(.+?)\]", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert cited
    assert changed
    assert cited[1] == changed[1] == coterie.__version__


@pytest.mark.integration
@needs_setuptools
def test_the_sdist_is_complete_and_makes_the_wheel_for_any_machine(sources: Path, tmp_path: Path) -> None:
    with tarfile.open(build("sdist", sources, COTERIE_NATIVE="never")) as archive:
        archive.extractall(tmp_path, filter="data")
    (folder,) = tmp_path.iterdir()
    for part in FOLDERS:
        assert files_in(folder, part) == files_in(sources, part)
    assert {path.name for path in folder.iterdir() if path.is_file()} >= BESIDE
    wheel = build("wheel", folder, COTERIE_NATIVE="never")
    assert wheel.name == f"coterie-{coterie.__version__}-py3-none-any.whl"
    with ZipFile(wheel) as archive:
        check_contents(archive, f"coterie-{coterie.__version__}.dist-info")


def check_contents(archive: ZipFile, about: str) -> None:
    """A wheel without the library holds the modules, what they read, and what is said about them; nothing else."""
    kinds = (".py", ".css", ".js", ".toml", ".typed")
    wanted = {name for name in files_in(ROOT / "src", "coterie") if Path(name).suffix in kinds}
    assert {name for name in archive.namelist() if not name.startswith(about)} == wanted
    assert "Root-Is-Purelib: true" in archive.read(f"{about}/WHEEL").decode()
    assert archive.read(f"{about}/licenses/LICENSE") == (ROOT / "LICENSE").read_bytes()
    assert b"coterie = coterie.cli.main:main" in archive.read(f"{about}/entry_points.txt")
    metadata = message_from_string(archive.read(f"{about}/METADATA").decode())
    assert (metadata["Requires-Python"], metadata["License-Expression"]) == (">=3.11", "Apache-2.0")


@pytest.mark.integration
@needs_setuptools
def test_without_a_compiler_the_wheel_is_for_any_machine_unless_the_library_is_demanded(sources: Path) -> None:
    without = {"CC": "no-such-compiler", "CXX": "no-such-compiler"}
    wheel = build("wheel", sources, **without)
    assert wheel.name.endswith("-py3-none-any.whl")
    with ZipFile(wheel) as archive:
        assert not [name for name in archive.namelist() if name.endswith(".so")]
    with pytest.raises(RuntimeError, match=r"error: .*no-such-compiler"):
        build("wheel", sources, COTERIE_NATIVE="always", **without)


@pytest.mark.integration
@needs_setuptools
def test_a_wish_that_is_not_known_is_refused_by_what_to_write(sources: Path) -> None:
    with pytest.raises(RuntimeError, match="COTERIE_NATIVE=yes is not valid: use one of auto, always, never"):
        build("wheel", sources, COTERIE_NATIVE="yes")


@pytest.mark.integration
@pytest.mark.skipif(not available(), reason="the compiled trainer was not built here")
def test_only_the_library_of_this_name_is_loaded(tmp_path: Path) -> None:
    """One that an older version left, with a tag of Python in its name, is not."""
    package = tmp_path / "coterie"
    shutil.copytree(ROOT / "src" / "coterie", package, ignore=shutil.ignore_patterns("*.so", "__pycache__"))
    ask = "from coterie import native; print(native.__file__, native.available())"
    shutil.copy(LIBRARY, package / "native" / OLD_NAME)
    assert run(ask, tmp_path, tmp_path).split() == [str(package / "native" / "__init__.py"), "False"]
    shutil.copy(LIBRARY, package / "native" / LIBRARY.name)
    assert run(ask, tmp_path, tmp_path).split()[1] == "True"


@pytest.mark.slow
@needs_setuptools
@pytest.mark.skipif(not shutil.which("c++"), reason="there is no C++ compiler here")
def test_the_wheel_of_a_platform_brings_the_compiled_trainer_for_every_python(sources: Path, tmp_path: Path) -> None:
    wheel = build("wheel", sources, COTERIE_NATIVE="always")
    *_, python, abi, platform = wheel.stem.split("-")
    assert (python, abi) == ("py3", "none")
    assert platform not in ("any", "")
    with ZipFile(wheel) as archive:
        names = archive.namelist()
        archive.extractall(tmp_path / "installed")
    assert [name for name in names if Path(name).suffix in (".so", ".dll", ".cpp", ".h")] == [
        f"coterie/native/{LIBRARY.name}"
    ]
    ask = "from coterie import native; print(native.__file__, native.available())"
    where, there = run(ask, tmp_path / "installed", tmp_path).split()
    assert Path(where).is_relative_to(tmp_path)
    assert there == "True"
    demonstration = "import sys; sys.argv = ['coterie', 'demo']; from coterie.cli.main import main; main()"
    assert "Picture: runs/demo/accuracy.png" in run(demonstration, tmp_path / "installed", tmp_path)
    assert (tmp_path / "runs" / "demo" / "accuracy.png").exists()
