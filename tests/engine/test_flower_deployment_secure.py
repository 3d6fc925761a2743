"""Secure sums on real processes: a SuperLink and SuperNodes on loopback, and kill -9 in each step of a sum."""

from pathlib import Path

import pytest
from flower_processes import no_deployment

if reason := no_deployment():
    pytest.skip(reason, allow_module_level=True)
pytest.importorskip("cryptography")

from flower_processes import network
from flower_sites import finished, join, write_app

import coterie

SITES, ROUNDS = 4, 6

SITE = '''
import os, signal
from coterie.deploy.deployment import client_app
from coterie.engine.flower.app import WIRE
from coterie.messages import wire

app = client_app(__file__)
honest = type(app).__call__
MOMENTS = [(1, "Keys"), (2, "Shares"), (3, "MaskedTrain"), (4, "Unmask"), (5, "Agree")]


class Mortal(type(app)):
    """At one site, the process that answers is killed in another step of each round."""

    def __call__(self, message, context):
        records = message.content.array_records
        if "mortal" in context.node_config and WIRE in records:
            request = wire.decode(records[WIRE][WIRE].data)
            if request.verbs and (request.round, type(request.verbs[0]).__name__) in MOMENTS:
                os.kill(os.getpid(), signal.SIGKILL)
        return honest(self, message, context)


app.__class__ = Mortal
'''

SERVER = '''
import os, signal
from pathlib import Path
from coterie.deploy.deployment import server_app
from coterie.engine.flower.deployment import FlowerDeployment

honest, killed = FlowerDeployment.exchange, Path({folder!r})
MOMENTS = [
    *[(1, "Keys"), (1, "Shares"), (1, "MaskedTrain"), (1, "Agree"), (1, "Unmask")],
    *[(2, "MaskedTrain"), (2, "Agree"), (2, "Unmask")],
]


def exchange(self, requests, deadline):
    """After the first reply in each of some steps, once, this process is killed."""
    for reply in honest(self, requests, deadline):
        yield reply
        request = requests[reply.client]
        moment = (request.round, type(request.verbs[0]).__name__)
        mark = killed / "{{}}-{{}}".format(*moment)
        if moment in MOMENTS and not mark.exists():
            mark.write_text("")
            os.kill(os.getpid(), signal.SIGKILL)


FlowerDeployment.exchange = exchange
app = server_app(__file__)
'''


def write_federation(folder: Path, rounds: int) -> Path:
    write_app(
        folder / "app", SITES, algorithm="fedavg", training={"rounds": rounds, "fraction": 1.0, "epochs": 1},
        engine={"deadline": 60.0}, evaluation={"every": 0},
        aggregation={"secure": True, "secure_min": 3, "max_weight": None, "max_samples": None},
    )  # fmt: skip
    return folder / "app"


def kinds(result: coterie.Result) -> dict[str, list[int]]:
    """Return the clients of each kind of event."""
    return {event["kind"]: [*map(int, event["clients"])] for event in result.events}


@pytest.mark.slow
def test_a_site_killed_in_each_step_on_real_processes(tmp_path: Path) -> None:
    """In another step of each of five rounds; the others' sums are made, and in the last round it is in the sum."""
    app = write_federation(tmp_path, ROUNDS)
    (app / "client_app.py").write_text(SITE)
    with network(tmp_path / "net") as net:
        for client in range(SITES):
            mortal = " mortal=1" if client == SITES - 1 else ""
            net.supernode(f"node-{client}", f'site="{tmp_path}/site-{client}/site.toml"{mortal}')
        net.run(app)
        result = finished(net, tmp_path / "run", 1500)
    print(result.events, result.accuracy)
    assert result.rounds == ROUNDS
    missed = kinds(result)
    assert "too few" not in missed
    assert "invalid" not in missed
    assert {client for clients in missed.values() for client in clients} == {SITES - 1}
    assert sum(event["count"] for event in result.events) == ROUNDS - 1
    assert result.accuracy["C"] is not None
    assert result.accuracy["C"] > 0.3


@pytest.mark.slow
def test_a_server_killed_in_each_step_on_real_processes(tmp_path: Path) -> None:
    """By kill -9, when one of four sites has answered; it is started again, and no round is lost."""
    app, killed = write_federation(tmp_path, 3), tmp_path / "killed"
    killed.mkdir()
    (app / "server_app.py").write_text(SERVER.format(folder=str(killed)))
    with network(tmp_path / "net") as net:
        for client in range(SITES):
            join(net, f"node-{client}", tmp_path / f"site-{client}" / "site.toml")
        for kills in range(1, 9):
            net.run(app)
            net.until(lambda kills=kills: len([*killed.iterdir()]) >= kills, f"kill {kills}", 600)
        net.run(app)
        result = finished(net, tmp_path / "run", 900)
    print(result.events, result.accuracy)
    assert result.rounds == 3
    assert not result.events
    assert result.accuracy["C"] is not None
    assert result.accuracy["C"] > 0.3
