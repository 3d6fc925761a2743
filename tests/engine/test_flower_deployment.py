"""Deployed federations on real processes: a SuperLink and SuperNodes on loopback."""

import json
import signal
from pathlib import Path

import numpy as np
import pytest
from flower_processes import no_deployment

if reason := no_deployment():
    pytest.skip(reason, allow_module_level=True)

from flower_driver import DEPLOYED_METHOD, METHODS, arrays
from flower_processes import Network, network
from flower_sites import deploy_with_tls, finished, hand_over_secrets, join, write_app, write_site

import coterie
from coterie.federation.checkpoint import load_checkpoint
from coterie.testing import outcome

SAME = ("accuracy", "per_client", "groups", "grouping", "traffic", "events", "newcomers")


def assert_same_as_simulated(method: str, folder: Path, rounds: int) -> None:
    """A deployed run of two sites against one of the embedded engine, to which they hand over their secrets."""
    deployed, simulated = folder / "deployed" / method, folder / "simulated" / method
    settings = {"dataset": "digits-rotated", "clients": 2, "rounds": rounds, "fraction": 1.0, "epochs": 1}
    a = outcome(coterie.Result.load(deployed))
    with pytest.MonkeyPatch.context() as monkeypatch:
        hand_over_secrets(monkeypatch, deployed, folder)
        b = outcome(coterie.run(algorithm=method, out=str(simulated), **settings))
    assert {key: a[key] for key in SAME} == {key: b[key] for key in SAME}, method
    models = [arrays(load_checkpoint(run / "checkpoint.safetensors")) for run in (deployed, simulated)]
    assert models[0].keys() == models[1].keys()
    for name, array in models[0].items():
        np.testing.assert_allclose(array, models[1][name], atol=1e-5, err_msg=f"{method} {name}")


def test_two_sites_with_tls_come_to_the_numbers_of_a_simulation(deployed_run: Path) -> None:
    assert_same_as_simulated(DEPLOYED_METHOD, deployed_run, rounds=1)


@pytest.mark.slow
def test_all_methods_with_tls(tmp_path: Path) -> None:
    deploy_with_tls(METHODS, tmp_path, rounds=4)
    for method in METHODS:
        assert_same_as_simulated(method, tmp_path, rounds=4)


@pytest.mark.slow
def test_the_life_of_a_federation_on_real_processes(tmp_path: Path) -> None:
    """Round 2: one is killed; 3: a newcomer; 4: the killed one is back; 5: the server is killed, and resumed."""
    data = write_app(
        tmp_path / "app", 8, training={"rounds": 7}, server={"min_clients": 3}, engine={"deadline": 150.0},
        evaluation={"every": 0}, newcomers={"epochs": 1},
    )  # fmt: skip
    files = {
        name: write_site(tmp_path / name, name, data, client)
        for name, client in {"a": 0, "b": 4, "c": 1, "d": 5}.items()
    }
    run = tmp_path / "run"

    def round() -> int:
        try:
            return int(load_checkpoint(run / "checkpoint.safetensors")["round"])
        except (coterie.errors.CoterieError, FileNotFoundError):
            return -1

    def after(net: Network, number: int) -> None:
        net.until(lambda: round() >= number, f"round {number} is over", 900)
        print(f"after round {round()}", flush=True)

    with network(tmp_path / "net", tls=False) as net:
        for name in "abc":
            join(net, name, files[name])
        net.run(tmp_path / "app")
        after(net, 1)
        net.kill("b", signal.SIGKILL)
        kept = {file.name: file.read_bytes() for file in (tmp_path / "b" / "state").rglob("*") if file.is_file()}
        assert {"secret", "1.safetensors"} <= set(kept)
        after(net, 2)
        join(net, "d", files["d"])
        after(net, 3)
        found = {file.name: file.read_bytes() for file in (tmp_path / "b" / "state").rglob("*") if file.is_file()}
        assert found == kept  # it goes on from what it had
        join(net, "b", files["b"])
        after(net, 4)
        net.kill("superlink", signal.SIGKILL, family=False)  # in the middle of a round; its server app is left alone
        resumed_from = round()
        net.superlink()
        for name in files:
            if net.processes[name].poll() is not None:
                join(net, name, files[name])
        net.run(tmp_path / "app")
        result = finished(net, run, 1200)
        logs = net.logs()
    roll = json.loads((run / "sites.json").read_text())
    number = {name: entry["client"] for name, entry in roll["sites"].items()}
    print(json.dumps({"sites": number, "groups": result.groups, "newcomers": result.newcomers, "events": result.events,
                      "resumed from": resumed_from, "history": result.history}, indent=1))  # fmt: skip
    assert number == {"a": 0, "b": 1, "c": 2, "d": 3}
    groups = result.groups
    assert groups[number["a"]] == groups[number["b"]] != groups[number["c"]], logs
    assert groups[number["d"]] == groups[number["c"]]
    assert result.newcomers["clients"] == [number["d"]]
    assert result.rounds == 7
    missed = [event for event in result.events if event["kind"] in ("late", "dropped")]
    assert missed
    states = {
        name: sorted(int(file.stem) for file in (tmp_path / name / "state" / roll["federation"]).rglob("*.safetensors"))
        for name in files
    }
    print(states)
    assert all(rounds[-1] == 7 for rounds in states.values()), states


HOSTILE = '''
import os
from dataclasses import replace

import numpy as np
from flwr.app import Message, RecordDict

from flwr.supercore.inflatable.inflatable_object import add_header_to_object_body

from coterie.engine.flower.app import WIRE, wire_record
from coterie.deploy.deployment import client_app
from coterie.messages import Reply, TrainReply, wire

app = client_app(__file__)
honest = app.__call__


class Hostile:
    """Says who it is, and answers nonsense, of another kind each time."""

    def __call__(self, message, context):
        reply = honest(message, context)
        if "hostile" not in context.node_config or message.metadata.message_type == "query.hello":
            return reply
        answer = wire.decode(reply.content.array_records[WIRE][WIRE].data)
        how = ["nan", "shape", "huge", "verb", "name", "body"][answer.round - 1]

        def wrong(params):
            w = params["fc1.weight"]
            new = {"nan": w * np.nan, "shape": w[1:], "huge": np.zeros(2**28, np.float32)}[how]
            return {**params, "fc1.weight": new}

        if how == "body":  # which Flower itself can't unpack
            for record in reply.content.values():
                type(record).deflate = lambda self: add_header_to_object_body(
                    object_body=b"\\xff\\xff\\xff\\xffgarbage", obj=self
                )
            return reply
        if how == "name":
            answer = replace(answer, client=0)
        elif how != "verb":
            answer = replace(answer, answers=tuple(
                replace(a, params=wrong(a.params)) if isinstance(a, TrainReply) else a for a in answer.answers))
        blob = wire.encode(answer)
        if how == "verb":
            blob = blob.replace(b"Trained", b"Drained")
        return Message(RecordDict({WIRE: wire_record(blob)}), reply_to=message)


app.__class__ = type("HostileApp", (app.__class__,), {"__call__": Hostile.__call__})
'''


@pytest.mark.slow
def test_a_hostile_node_on_real_processes(tmp_path: Path) -> None:
    """NaN, a wrong shape, 1 GB, an unknown kind of answer, another's number, what can't be unpacked; a node under
    another's name; and one that stops, where there is no deadline."""
    data = write_app(
        tmp_path / "app", 3, algorithm="fedavg", training={"rounds": 7}, server={"min_clients": 3},
        engine={"deadline": None, "max_strikes": 6}, evaluation={"every": 0},
    )  # fmt: skip
    (tmp_path / "app" / "client_app.py").write_text(HOSTILE)
    impostor = write_site(tmp_path / "elsewhere", "site-0", data, 1)
    with network(tmp_path / "net") as net:
        for client in range(3):
            more = " hostile=1" if client == 2 else ""
            net.supernode(f"node-{client}", f'site="{tmp_path}/site-{client}/site.toml"{more}')
        net.run(tmp_path / "app")
        net.until((tmp_path / "run" / "checkpoint.safetensors").exists, "the federation has begun", 300)
        join(net, "impostor", impostor)
        net.until(
            lambda: (load_checkpoint(tmp_path / "run" / "checkpoint.safetensors")["round"]) >= 6, "six rounds", 900
        )
        net.kill("node-1", signal.SIGTERM)
        result = finished(net, tmp_path / "run", 1200)
    print(json.dumps(result.events, indent=1))
    events = {event["kind"]: event for event in result.events}
    assert events["invalid"]["count"] == 6
    assert any("can't be unpacked" in detail for detail in events["invalid"]["details"])
    assert events["left out"]["example"].startswith("client 2, round 6")
    assert result.rounds == 7
    assert "calls itself 'site-0'" in events["turned away"]["example"]
    assert result.accuracy["C"] > 0.3
