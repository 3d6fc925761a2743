"""Flower's simulation on Ray comes to the numbers of the embedded engine."""

import json
import os
import socket
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flower_driver import (
    CLUSTER_METHOD,
    GIVEN_NETWORK,
    KILLED_METHOD,
    LABELLED_METHOD,
    LIMITED,
    PRIVATE,
    SETTINGS,
    arrays,
    settings_of,
    simulate,
)
from flower_processes import EXTRA, no_ray

import coterie
from coterie.algorithms import ALGORITHMS
from coterie.engine.flower.simulation import OWN_RAY, FlowerSimulation, check_address
from coterie.engine.flower.transport import GridTransport
from coterie.errors import CoterieError
from coterie.federation.checkpoint import load_checkpoint
from coterie.models import MODELS
from coterie.results.run_folder import RunFolder
from coterie.testing import outcome


def assert_same(method: str, simulated: Path, embedded: Path, settings: Mapping[str, Any] = SETTINGS) -> None:
    """Both ways have the same groups, cohorts, accuracies and bytes, and models equal to 1e-5."""
    coterie.run(algorithm=method, **settings, out=str(embedded))
    a, b = outcome(coterie.Result.load(simulated)), outcome(coterie.Result.load(embedded))
    assert (a.pop("engine"), b.pop("engine")) == ("flower", "embedded")
    rows = [
        [{k: v for k, v in row.items() if k not in ("loss", "discrepancy")} for row in r["history"]] for r in (a, b)
    ]
    assert rows[0] == rows[1], method  # groups, accuracies and bytes of each round
    same = ("groups", "grouping", "traffic", "per_client", "events", "newcomers")
    assert {key: a[key] for key in same} == {key: b[key] for key in same}, method
    kept = [load_checkpoint(RunFolder(folder).checkpoint) for folder in (simulated, embedded)]
    assert kept[0]["federation"]["ledger"] == kept[1]["federation"]["ledger"], method  # who was asked, and when
    models = [arrays(state) for state in kept]
    assert models[0].keys() == models[1].keys()
    for name, array in models[0].items():
        np.testing.assert_allclose(array, models[1][name], atol=1e-5, err_msg=name)
    states = [sorted(path.relative_to(f) for path in f.rglob("clients/*/*.safetensors")) for f in (simulated, embedded)]
    assert states[0] == states[1]
    assert not list(simulated.glob(".*"))  # what the processes shared is gone


def test_killed_and_resumed_it_comes_to_the_numbers_of_the_embedded_engine(killed_run: Path, tmp_path: Path) -> None:
    assert_same(KILLED_METHOD, killed_run / KILLED_METHOD, tmp_path)


def test_the_numbers_of_the_embedded_engine_on_a_cluster_that_is_there(cluster_runs: Path, tmp_path: Path) -> None:
    assert_same(CLUSTER_METHOD, cluster_runs / CLUSTER_METHOD, tmp_path)


def test_a_network_that_a_program_gives_as_it_is_with_half_a_gpu_each(cluster_runs: Path, tmp_path: Path) -> None:
    """The cluster only says that it has a GPU."""
    assert_same("fedavg", cluster_runs / "given" / "fedavg", tmp_path, GIVEN_NETWORK)


def test_clients_with_a_privacy_limit_tell_and_refuse_the_same(cluster_runs: Path, tmp_path: Path) -> None:
    simulated = cluster_runs / "private" / "pacfl"
    assert_same("pacfl", simulated, tmp_path, PRIVATE)
    events = coterie.Result.load(simulated).events
    assert any("beyond its limit" in detail for event in events for detail in event.get("details", ()))


@pytest.mark.slow
def test_clients_keep_account_across_a_kill(tmp_path: Path) -> None:
    """Who had trained in the round that is asked again is charged once for it, and refuses the round after the last."""
    if reason := no_ray():
        pytest.skip(reason)
    simulate("--killed-limited", str(tmp_path), "fedavg")
    assert_same("fedavg", tmp_path / "fedavg", tmp_path / "embedded", LIMITED)
    (event,) = coterie.Result.load(tmp_path / "fedavg").events
    assert (event["kind"], event["count"], event["first_round"]) == ("withheld", 8, 4)
    for book in [*tmp_path.glob("*/ledgers/*/releases.jsonl")]:
        entries = [json.loads(line)["event"] for line in book.read_text().splitlines()]
        assert entries.count("charge") == entries.count("keep") == 3
    assert len([*tmp_path.glob("*/ledgers/*")]) == 16


@pytest.mark.slow
def test_every_method_comes_to_the_numbers_of_the_embedded_engine(tmp_path: Path) -> None:
    if reason := no_ray():
        pytest.skip(reason)
    methods = [*ALGORITHMS, LABELLED_METHOD]
    simulate("--small", str(tmp_path), *methods)
    for method in methods:
        assert_same(method, tmp_path / method, tmp_path / "embedded" / method, settings_of(method, small=True))


def test_without_the_extra_one_line_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("coterie.engine.flower.find_spec", lambda name: None)
    with pytest.raises(CoterieError, match=r"engine 'flower' needs flwr and ray, .*: pip install 'coterie\[flower\]'"):
        coterie.run(dataset="digits", engine="flower", rounds=1)


@pytest.mark.parametrize(("address", "failures", "starts"), [(None, 2, 3), (None, 9, 3), ("10.0.0.5:6379", 9, 1)])
def test_ray_is_started_again_where_it_gave_up(
    address: str | None, failures: int, starts: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its raylet gives its helpers 15 s, which a busy machine may exceed; a cluster of others is not ours to start."""
    ended = []

    def simulate(self: FlowerSimulation) -> None:
        if len(ended) < failures:
            self._error = RuntimeError("The current node timed out during startup")
            self._broken.set()
        self._grid_or_error.put(PlayedGrid())
        self._run_over.wait()
        ended.append(True)

    class PlayedGrid:
        def get_node_ids(self) -> set[int]:
            return set()

    monkeypatch.setattr(FlowerSimulation, "_simulate", simulate)
    monkeypatch.setattr(GridTransport, "greet", lambda self, nodes, seconds: self.check() or {})
    for name in OWN_RAY:
        monkeypatch.setenv(name, "")  # so that it is put back
        monkeypatch.delenv(name)
    simulation = FlowerSimulation(None, {}, address=address)  # type: ignore[arg-type]
    assert all((os.environ.get(name) == value) == (address is None) for name, value in OWN_RAY.items())
    if failures < starts:
        with simulation:
            assert len(ended) == failures
    else:
        with pytest.raises(CoterieError, match="has ended: The current node timed out"), simulation:
            pass
    assert len(ended) == starts


def test_addresses_where_there_is_no_cluster() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # and nobody listens
        port = taken.getsockname()[1]
        with pytest.raises(CoterieError, match=rf"no Ray cluster at 127.0.0.1:{port} .*refused.*ray start --head"):
            check_address(f"127.0.0.1:{port}")
        taken.listen()
        check_address(f"127.0.0.1:{port}")
    for wrong in ("10.0.0.5", "10.0.0.5:ray", ":6379", ""):
        with pytest.raises(CoterieError, match="write host:port"):
            check_address(wrong)
    with pytest.raises(CoterieError, match=r"no Ray cluster at .*:99999"):
        check_address("127.0.0.1:99999")


def test_settings_that_do_not_go_together() -> None:
    with pytest.raises(CoterieError, match="keeps clients' states on disk"):
        coterie.run(dataset="digits", engine="flower", state="memory")
    with pytest.raises(CoterieError, match="address names a Ray cluster"):
        coterie.run(dataset="digits", address="auto")
    with pytest.raises(CoterieError, match=r"engine.workers = 0 is not valid"):
        coterie.run(dataset="digits", engine="flower", workers=0)
    with pytest.raises(CoterieError, match="plays clients that are late with straggle="):
        coterie.run(dataset="digits", deadline=3.0)


@pytest.mark.skipif(find_spec("flwr") is None or find_spec("ray") is None, reason=EXTRA)
@pytest.mark.parametrize(("settings", "share"), [({}, 0.0), ({"gpu_share": 0.25}, 0.25)])
def test_processes_ask_for_the_share_of_a_gpu_that_is_configured(
    settings: dict[str, Any], share: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[dict[str, Any]] = []

    def not_today(*_: object, backend_config: dict[str, Any], **more: object) -> None:
        asked.append(backend_config["client_resources"])
        raise RuntimeError("not today")

    monkeypatch.setattr("flwr.simulation.run_simulation", not_today)
    with pytest.raises(CoterieError, match="not today"):
        coterie.run(dataset="digits", engine="flower", rounds=1, **settings)
    assert asked[0] == {"num_cpus": 1, "num_gpus": share}


@pytest.mark.skipif(find_spec("flwr") is None or find_spec("ray") is None, reason=EXTRA)
def test_a_network_of_a_script_is_refused_before_ray_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    list(MODELS)  # loads what is built in
    monkeypatch.setattr(MODELS, "_items", dict(MODELS._items))

    def mine(shape, classes):  # type: ignore[no-untyped-def]
        """Without hidden layers."""
        from torch import nn

        return nn.Sequential(nn.Flatten(), nn.Linear(64, classes))

    mine.__module__ = "__main__"
    coterie.model("mine")(mine)
    with pytest.raises(CoterieError, match=r"model 'mine' is part of a script.*name that in plugins \(plugin=\)"):
        coterie.run(dataset="digits", engine="flower", model="mine", rounds=1)
