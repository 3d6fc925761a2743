"""Runs on real Flower processes: they work in the background from the start, and their tests come last."""

from __future__ import annotations

import threading
import time
import traceback
from collections.abc import Callable
from pathlib import Path

import pytest
from flower_driver import CLUSTER_METHOD, DEPLOYED_METHOD, KILLED_METHOD, simulate
from flower_processes import no_deployment, no_ray

PATIENCE = 1800
"""Seconds; on a machine without other work two or three minutes will do."""


def run_deployed(folder: Path) -> None:
    from flower_sites import deploy_with_tls

    deploy_with_tls([DEPLOYED_METHOD], folder, rounds=1)


def run_and_kill(folder: Path) -> None:
    simulate("--killed", str(folder), KILLED_METHOD)


def run_on_cluster(folder: Path) -> None:
    simulate("--cluster", str(folder), CLUSTER_METHOD)


RUNS: dict[str, tuple[Callable[[Path], None], Callable[[], str | None]]] = {
    "deployed_run": (run_deployed, no_deployment),
    "killed_run": (run_and_kill, no_ray),
    "cluster_runs": (run_on_cluster, no_ray),
}
"""By fixture: what writes run folders into a folder, and what says why that can't be done here."""


def _runs_of(item: pytest.Item) -> set[str]:
    return RUNS.keys() & set(getattr(item, "fixturenames", ()))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if _runs_of(item):
            item.add_marker(pytest.mark.integration)
    items.sort(key=lambda item: bool(_runs_of(item)))


def pytest_collection_finish(session: pytest.Session) -> None:
    """Start what the selected tests need, in the first process of pytest-xdist or in the only one."""
    needed = set().union(*map(_runs_of, session.items))
    if needed and not session.config.option.collectonly and _worker(session.config) in (None, "gw0"):
        folder = _shared(session.config._tmp_path_factory.getbasetemp(), session.config)  # type: ignore[attr-defined]
        session.config.stash[BACKGROUND] = thread = threading.Thread(
            target=_run_all, args=(needed, folder), daemon=True
        )
        thread.start()


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """Wait for what was started: a test of another process may need it. When interrupted, it ends with this process."""
    thread = session.config.stash.get(BACKGROUND, None)
    if thread is not None and exitstatus in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED):
        thread.join()


BACKGROUND = pytest.StashKey[threading.Thread]()


def _worker(config: pytest.Config) -> str | None:
    return getattr(config, "workerinput", {}).get("workerid")


def _shared(base: Path, config: pytest.Config) -> Path:
    """Return a folder that all processes of this test run know."""
    return (base if _worker(config) is None else base.parent) / "flower"


def _run_all(needed: set[str], folder: Path) -> None:
    for name, (run, why_not) in RUNS.items():
        if name in needed and why_not() is None:
            (folder / name).mkdir(parents=True)
            error = ""
            try:
                run(folder / name)
            except BaseException:
                error = traceback.format_exc()
            part = folder / f"{name}.part"
            part.write_text(error, encoding="utf-8")
            part.rename(folder / f"{name}.ended")


@pytest.fixture
def run_in_background(tmp_path_factory: pytest.TempPathFactory, pytestconfig: pytest.Config) -> Callable[[str], Path]:
    """Wait for a run, and return its folder."""

    def wait(name: str) -> Path:
        if reason := RUNS[name][1]():
            pytest.skip(reason)
        folder = _shared(tmp_path_factory.getbasetemp(), pytestconfig)
        ended, limit = folder / f"{name}.ended", time.monotonic() + PATIENCE
        while not ended.exists():
            assert time.monotonic() < limit, f"{name} has not ended within {PATIENCE} s"
            time.sleep(0.1)
        if error := ended.read_text(encoding="utf-8"):
            pytest.fail(error, pytrace=False)
        return folder / name

    return wait


@pytest.fixture(autouse=True)
def _rehearsed_once(policies_made_once: None) -> None:
    """As sites of one federation, and of others like it, have the same policy."""


@pytest.fixture
def deployed_run(run_in_background: Callable[[str], Path]) -> Path:
    """A folder with a run of two sites over TLS with node keys, in ``deployed``."""
    return run_in_background("deployed_run")


@pytest.fixture
def killed_run(run_in_background: Callable[[str], Path]) -> Path:
    """A folder with a run on a Ray of its own that was killed, left nothing behind, and was resumed."""
    return run_in_background("killed_run")


@pytest.fixture
def cluster_runs(run_in_background: Callable[[str], Path]) -> Path:
    """A folder with a run of a method, and one of a network of the program's own, on one Ray cluster that was there."""
    return run_in_background("cluster_runs")
