"""Flower's simulation on Ray as engine: clients live in a few processes, here or on a cluster."""

from __future__ import annotations

import logging
import os
import queue
import socket
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from itertools import cycle
from pathlib import Path
from typing import TYPE_CHECKING, Any

from coterie.client import UNPROTECTED, DiskStore, PrivacyTerms, Protection
from coterie.client.releases import NO_TERMS
from coterie.engine.embedded import Attendance, SimulatedClients
from coterie.engine.faults import SimulatedFaults
from coterie.engine.flower.app import FAILED, MISTAKE, Introduction, answer_request, client_app, server_app
from coterie.engine.flower.sharing import SharedData
from coterie.engine.flower.transport import GridTransport
from coterie.errors import CoterieError
from coterie.federation import Engine
from coterie.messages import ClientId, Failure, Reply, Request, wire
from coterie.training import CommonTest, Trainer, one_thread

if TYPE_CHECKING:
    from flwr.serverapp import Grid

PAUSE = 0.02
"""Seconds between looks for replies."""
MOST_NODES = 1000
"""With more clients several share a node: Flower asks each in turn, all the time, whether there is a message for it.
Of a node it takes one message at a time, every tenth of a second."""
ATTEMPTS = 3
"""How often to try to start Ray. On a busy machine it may give up: its raylet allows a helper process 15 s to start,
which can't be changed ("Timed out waiting for file ... metrics_agent_port" in its log)."""
START_TIMEOUT = 600.0
"""Seconds that Flower may take to start; Ray, which it starts, has limits of its own."""
OWN_RAY = {
    "RAY_raylet_start_wait_time_s": "60",
    "RAY_agent_register_timeout_ms": "120000",
    "RAY_prestart_worker_first_driver": "0",
    "RAY_worker_niceness": "0",
    "RAY_gcs_rpc_server_reconnect_timeout_s": "15",
}
"""Settings of a Ray that is started here, unless the user has set them: it has more time to start, starts no processes
that Flower does not use, runs clients at the priority of this process (Ray: 15 lower), and ends soon after a kill."""


def check_address(address: str) -> None:
    """Refuse an address where no Ray cluster listens; Ray itself would wait for minutes."""
    if address == "auto" or address.startswith("ray://"):
        return
    host, _, port = address.rpartition(":")
    if not host or not port.isdigit():
        raise CoterieError(f"engine.address = '{address}' is not valid: write host:port or auto")
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=30).close()
    except (OSError, OverflowError) as error:
        raise CoterieError(f"there is no Ray cluster at {address} ({error}): see 'ray start --head'") from None


@dataclass(frozen=True)
class Recipe:
    """How a process makes the clients of a simulation; sent with every message, so it is small and has no data."""

    data: SharedData
    states: str
    """The folder in which clients keep their states, the same for all processes."""
    trainer: Callable[[], Trainer]
    blame: Callable[[BaseException], str | None] = lambda error: None
    """Says where in a user's own code an error comes from, if it does."""
    protection: Protection = UNPROTECTED
    """What clients hold back."""
    durable: bool = False
    """Whether states are flushed to the disk."""
    terms: PrivacyTerms = NO_TERMS
    """What they tell at most."""


@dataclass(frozen=True)
class SimulatedNodes:
    """The handler of every node: any process can answer for any client."""

    recipe: Recipe

    def __call__(self, node: Mapping[str, Any]) -> SimulatedNodes:
        """Return this for any node."""
        return self

    def introduce(self, federation: str, nonce: str) -> Introduction:
        """Return nothing: all nodes are alike."""
        return {}

    def answer(self, client: ClientId, federation: str, blob: bytes) -> bytes:
        """Answer a request."""
        return wire.encode(answer_request(_clients(self.recipe)[client], blob))

    def describe(self, error: Exception) -> tuple[str, str]:
        """Describe an error in full, since nothing is secret here."""
        if blamed := self.recipe.blame(error):
            return MISTAKE, blamed
        if isinstance(error, CoterieError):
            return MISTAKE, str(error)
        return FAILED, f"{type(error).__name__}: {error}"


class FlowerSimulation(Engine):
    """Carries requests to clients in the processes of Ray; the numbers are those of the embedded engine."""

    name = "flower"

    def __init__(
        self,
        recipe: Recipe,
        samples: Mapping[ClientId, int],
        *,
        workers: int = 1,
        address: str | None = None,
        gpu_share: float = 0.0,
        faults: SimulatedFaults | None = None,
        seed: int = 0,
        arrivals: Mapping[ClientId, int] | None = None,
        tests: Mapping[ClientId, int] | None = None,
    ) -> None:
        """`address` is that of a running Ray cluster; without it, one is started here, and ended.

        Each process asks for a core, and for `gpu_share` of a GPU.
        """
        self._resources: dict[str, Any] = {"num_cpus": 1, "num_gpus": gpu_share}
        self._faults, self._seed = faults or SimulatedFaults(), seed
        self._recipe, self._tests = recipe, tests or {}
        self._samples = self._faults.declared(samples)
        self._attendance = Attendance(self._samples, arrivals or {})
        self._node_count = min(len(self._samples), MOST_NODES)
        self._init: dict[str, Any] = {"address": address, "log_to_driver": False, "logging_level": "error"}
        if not address:
            self._init |= {"address": "local", "num_cpus": workers, "_node_ip_address": "127.0.0.1"}
            for name, value in OWN_RAY.items():
                os.environ.setdefault(name, value)
        self._hint = " (on a cluster, all machines must share the file system of the run folder)" if address else ""
        self._attempts = 1 if address else ATTEMPTS

    def __enter__(self) -> FlowerSimulation:
        for attempts_left in reversed(range(self._attempts)):
            self._grid_or_error: queue.Queue[Grid | BaseException] = queue.Queue()
            self._error: BaseException | None = None
            self._run_over, self._broken = threading.Event(), threading.Event()
            self._thread = threading.Thread(target=self._simulate, name="flower", daemon=True)
            self._thread.start()
            try:
                self._begin()
                break
            except BaseException as error:
                self.__exit__()  # the processes that the thread started end with it
                if not (attempts_left and isinstance(error, CoterieError)):
                    raise
        return self

    def __exit__(self, *_: object) -> None:
        self._run_over.set()
        self._thread.join()

    def present(self, round: int) -> Mapping[ClientId, int]:
        """Return all clients that have joined: here nobody leaves."""
        return self._attendance.present(round)

    def tests(self, round: int) -> Mapping[ClientId, int]:
        """Return how many test samples clients have."""
        return self._tests

    def exchange(self, requests: Mapping[ClientId, Request], deadline: float | None) -> Iterator[Reply | Failure]:
        """Have each client answer; the deadline is played by `straggle`, not measured."""
        reached = {}
        for client, request in requests.items():
            dropped = self._faults.before(self._seed, client, request)
            if dropped is not None:
                yield dropped
            else:
                reached[client] = request
        for answer in self._transport.exchange(self._nodes, reached, None, self._samples):
            request = reached[answer.client]
            if isinstance(answer, Failure) and answer.kind not in ("diverged", "withheld"):
                verbs = ", ".join(type(verb).__name__.lower() for verb in request.verbs)
                where = f"client {answer.client}, round {request.round} ({verbs})"
                if answer.kind == MISTAKE:
                    raise CoterieError(f"{answer.detail} ({where})")
                raise RuntimeError(f"{where}: {answer.detail}{self._hint}")
            yield self._faults.after(self._seed, answer.client, request, answer)

    def _begin(self) -> None:
        """Wait for all nodes, and give each its clients; which does not matter, since every process has all data."""
        try:
            grid = self._grid_or_error.get(timeout=START_TIMEOUT)
        except queue.Empty:
            raise CoterieError(f"Flower's simulation has not started within {START_TIMEOUT:g} s") from None
        if isinstance(grid, BaseException):
            raise CoterieError(f"Flower's simulation can't start: {grid}") from grid
        self._transport = GridTransport(grid, PAUSE, check=self._check)
        while len(nodes := sorted(grid.get_node_ids())) < self._node_count:
            self._check()
            time.sleep(PAUSE)
        waiting = self._transport.greet(dict.fromkeys(nodes[:1], ""), None)
        while waiting:  # once a node answers, Ray is up
            self._check()
            self._transport.introductions(waiting)
            time.sleep(PAUSE)
        self._nodes = dict(zip(self._samples, cycle(nodes), strict=False))

    def _check(self) -> None:
        """Raise if the simulation has ended, so that nobody is left to answer."""
        if self._broken.is_set():
            raise CoterieError(
                f"Flower's simulation has ended: {self._error or 'no reason was given'}"
            ) from self._error

    def _simulate(self) -> None:
        """Run Flower's simulation until the run is over; hand its grid to the thread that runs the method."""

        def hand_over(grid: Grid) -> None:
            self._grid_or_error.put(grid)
            self._run_over.wait()

        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                from flwr.simulation import run_simulation

                nodes = SimulatedNodes(self._recipe)
                logging.getLogger("flwr").setLevel(logging.CRITICAL)
                run_simulation(
                    server_app(hand_over),
                    client_app(nodes, nodes.describe),
                    num_supernodes=self._node_count,
                    backend_config={"client_resources": self._resources, "init_args": self._init},
                )
        except BaseException as error:
            while error.__cause__ is not None:
                error = error.__cause__
            self._error = error
            self._grid_or_error.put(error)
        finally:
            self._broken.set()


_CLIENTS: dict[str, SimulatedClients] = {}


def _clients(recipe: Recipe) -> SimulatedClients:
    """Return the clients of a simulation, whose data are opened once in each process."""
    key = recipe.data.folder
    if key not in _CLIENTS:
        _CLIENTS.clear()
        _one_thread()
        data = recipe.data.open()
        test = CommonTest(data.test.x, data.test.y, data.normalise) if data.common_test else None
        store = DiskStore(Path(recipe.states), recipe.durable)
        _CLIENTS[key] = SimulatedClients(data, store, recipe.trainer(), test, recipe.protection, recipe.terms)
    return _CLIENTS[key]


@cache
def _one_thread() -> None:
    """Restrict this process to one thread for good: others work beside it, and sums must not vary."""
    one_thread().__enter__()
