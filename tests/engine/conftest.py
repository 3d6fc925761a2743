"""Runs on real Flower processes, which tests share: those that the selected tests need are started together."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest
from flower_driver import CLUSTER_METHODS, KILLED_METHOD, simulate
from flower_processes import no_deployment, no_ray

TOGETHER = "flower"
"""The group of the tests that share processes: pytest-xdist runs it in one worker."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if RUNS.keys() & set(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.xdist_group(TOGETHER))
            item.add_marker(pytest.mark.integration)


def run_and_kill(folder: Path) -> None:
    simulate("--killed", str(folder), KILLED_METHOD)


def run_on_cluster(folder: Path) -> None:
    simulate("--cluster", str(folder), *CLUSTER_METHODS)


def run_deployed(folder: Path) -> None:
    from flower_sites import deploy_with_tls

    deploy_with_tls(["pacfl"], folder, rounds=1)


RUNS: dict[str, tuple[Callable[[Path], None], Callable[[], str | None]]] = {
    "deployed_run": (run_deployed, no_deployment),
    "killed_run": (run_and_kill, no_ray),
    "cluster_runs": (run_on_cluster, no_ray),
}
"""By fixture: what writes run folders into a folder, and what says why that can't be done here."""


@pytest.fixture(scope="session")
def started(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Future]]:
    """Start the runs that the selected tests need side by side, since all of them wait for processes to come up."""
    needed = {name for item in request.session.items for name in getattr(item, "fixturenames", ())}

    def into_folder(name: str) -> Path:
        folder = tmp_path_factory.mktemp(name)
        RUNS[name][0](folder)
        return folder

    with ThreadPoolExecutor(2) as pool:
        yield {name: pool.submit(into_folder, name) for name in RUNS if name in needed and RUNS[name][1]() is None}


def result_of(name: str, started: dict[str, Future]) -> Path:
    if reason := RUNS[name][1]():
        pytest.skip(reason)
    return started[name].result()


@pytest.fixture
def deployed_run(started: dict[str, Future]) -> Path:
    """A folder with a run of two sites over TLS with node keys, in ``deployed``."""
    return result_of("deployed_run", started)


@pytest.fixture
def killed_run(started: dict[str, Future]) -> Path:
    """A folder with a run on a Ray of its own that was killed, left nothing behind, and was resumed."""
    return result_of("killed_run", started)


@pytest.fixture
def cluster_runs(started: dict[str, Future]) -> Path:
    """A folder with a run of each of several methods on one Ray cluster that was there already."""
    return result_of("cluster_runs", started)
