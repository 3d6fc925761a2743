"""Everything but Flower works where the extra is not installed."""

import os
import subprocess
import sysconfig
import venv
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
EXTRA = ("flwr", "ray")


@pytest.fixture
def python(tmp_path: Path) -> Path:
    """A Python with all that is installed here, but not the packages of the extra."""
    venv.create(tmp_path / "venv", symlinks=True)
    [there] = (tmp_path / "venv" / "lib").glob("python*/site-packages")
    for item in Path(sysconfig.get_path("purelib")).iterdir():
        if item.name.partition("-")[0] not in EXTRA and not (there / item.name).exists():
            (there / item.name).symlink_to(item)
    return tmp_path / "venv" / "bin" / "python"


@pytest.mark.slow
def test_tests_are_skipped_with_a_reason_and_the_command_says_what_to_install(python: Path) -> None:
    def run(*arguments: str) -> tuple[int, str]:
        environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
        done = subprocess.run(
            [str(python), *arguments], cwd=ROOT, env=environment, text=True, capture_output=True, check=False
        )
        return done.returncode, done.stdout + done.stderr

    assert run("-c", "import flwr")[0] == 1
    assert Path(run("-c", "import torch; print(torch.__file__)")[1].strip()).exists()
    code, told = run("-m", "coterie", "run", "--dataset", "digits", "--engine", "flower")
    assert code == 2
    assert told.strip() == (
        "coterie: engine 'flower' needs flwr and ray, not installed here: pip install 'coterie[flower]'"
    )
    quiet = ("-m", "pytest", "-q", "-p", "no:cacheprovider")
    code, told = run(*quiet, "--collect-only")
    assert code == 0, told[-3000:]
    code, told = run(*quiet, "-rs", "tests/engine", "tests/deploy/test_deploy_files.py", "src/coterie/engine")
    print(told)
    assert code == 0, told[-3000:]
    reasons = [line for line in told.splitlines() if line.startswith("SKIPPED")]
    assert reasons
    assert all("needs the extra: pip install 'coterie[flower]'" in reason for reason in reasons)
