"""Federations of sites: real apps, messages and files; with a network that is played in this process, or a real one."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("flwr", reason="needs the extra: pip install 'coterie[flower]'")

from flower_processes import Network, network
from flwr.app import Context, Error, Message, RecordDict
from flwr.supercore.task_identity import TaskIdentity

import coterie
from coterie.client import Client, Protection
from coterie.data import FederatedData, load
from coterie.deploy.app_folder import init
from coterie.deploy.deployment import client_app
from coterie.engine.flower.identity import derived

Node = Callable[[Message], Message | None]


class PlayedGrid:
    """Nodes by number, each a function of a message; a node that is gone stays listed for a while, as Flower's do."""

    def __init__(self) -> None:
        TaskIdentity.task_id, TaskIdentity.run_id, TaskIdentity.node_id = 1, 1, 1  # as Flower's simulation does
        self.nodes: dict[int, Node] = {}
        self.sent: list[tuple[int, str]] = []
        self.messages: dict[str, Message] = {}
        self.broken: dict[int, Exception] = {}
        """What looking for the reply of a node leads to."""
        self.unregistered: set[int] = set()
        """Nodes that Flower takes no messages for any more."""
        self._replies: dict[str, Message] = {}
        self._taken: set[str] = set()
        self._names = count(1)
        self.before: Callable[[Message], None] = lambda message: None

    def get_node_ids(self) -> Iterable[int]:
        return set(self.nodes)

    def push_messages(self, messages: Iterable[Message]) -> list[str]:
        names = []
        for message in messages:
            self.before(message)
            name = f"m{next(self._names)}"
            message.metadata.__dict__["_message_id"] = name
            node = message.metadata.dst_node_id
            if node in self.unregistered:
                names.append("")
                continue
            self.messages[name] = message
            self.sent.append((node, message.metadata.message_type))
            reply = self.nodes[node](message) if node in self.nodes else None
            if reply is not None:
                self._replies[name] = reply
            names.append(name)
        return names

    def pull_messages(self, names: Iterable[str]) -> list[Message]:
        names = list(names)
        for name in names:
            if (node := self.messages[name].metadata.dst_node_id) in self.broken:
                raise self.broken[node]
        found = []
        for name in names:
            if name in self._taken:
                found.append(Message(Error(1, "it was taken already"), reply_to=self.messages[name]))
            elif name in self._replies:
                found.append(self._replies.pop(name))
                self._taken.add(name)
        return found


def node_of(app: Path, **node_config: Any) -> Node:
    """Return a node that runs the client app of a folder."""
    made = client_app(str(app / "client_app.py"))

    def node(message: Message) -> Message | None:
        context = Context(1, message.metadata.dst_node_id, dict(node_config), RecordDict(), {})
        try:
            return made(message, context)
        except Exception as error:  # as a SuperNode does
            return Message(Error(2, str(error)), reply_to=message)

    return node


def silent(message: Message) -> None:
    """A node that was killed."""


def write_app(folder: Path, clients: int, **settings: Any) -> FederatedData:
    """Write an app for digits-rotated, divided among sites as a simulation would; return the data.

    It protects nobody, as simulations do. The sites are beside it; those that are there already serve this app too.
    """
    init(folder, "test")
    data = load("digits-rotated", clients=clients, seed=0)
    normalise = data.normalise
    algorithm = settings.pop("algorithm", "pacfl")
    engine = {"deadline": 60.0} | settings.pop("engine", {})
    training = {"rounds": 3, "fraction": 1.0, "epochs": 1} | settings.pop("training", {})
    server = {"name": "test", "min_clients": clients, "data": str(folder / "server.npz")} | settings.pop("server", {})
    np.savez(folder / "server.npz", x_train=data.server.x, y_train=data.server.y)
    samples = {
        "shape": list(data.shape), "dtype": "uint8", "classes": data.classes, "scale": normalise.scale,
        "mean": list(normalise.mean), "std": list(normalise.std), **settings.pop("samples", {}),
    }  # fmt: skip
    privacy = {"min_samples": 0, "min_label_samples": 0} | settings.pop("privacy", {})
    aggregation = {"rule": "mean", "max_samples": 10**9, "max_weight": 1e9} | settings.pop("aggregation", {})
    run = {"seed": 0, "out": str(folder.parent / "run"), "durable": False} | settings.pop("run", {})
    tables = {"samples": samples, "server": server, "algorithm": {"name": algorithm}, "training": training,
              "engine": engine, "privacy": privacy, "aggregation": aggregation, "run": run, **settings}  # fmt: skip
    lines = []
    for name, table in tables.items():
        lines += [f"[{name}]", *(f"{key} = {json.dumps(value)}" for key, value in table.items() if value is not None)]
    (folder / "federation.toml").write_text("\n".join(lines))
    for client in range(clients):
        if not (folder.parent / f"site-{client}").exists():
            write_site(folder.parent / f"site-{client}", f"site-{client}", data, client)
    return data


def write_site(folder: Path, name: str, data: FederatedData, client: int) -> Path:
    """Write the file and the data of a site, and return the path of the file."""
    folder.mkdir(parents=True)
    train, test = data.train[data.train_parts[client]], data.test[data.test_parts[client]]
    np.savez(folder / "data.npz", x_train=train.x, y_train=train.y, x_test=test.x, y_test=test.y)
    (folder / "site.toml").write_text(f'name = "{name}"\ndata = "data.npz"\nstate = "state"\n')
    return folder / "site.toml"


def hand_over_secrets(monkeypatch: pytest.MonkeyPatch, run: Path, sites: Path) -> None:
    """Let simulated clients draw their hold-outs and shuffles as the sites of a deployed run did."""
    registry = json.loads((run / "sites.json").read_text())
    secrets = {
        entry["client"]: (sites / name / "state" / "secret").read_text() for name, entry in registry["sites"].items()
    }

    def client(id: int, data: Any, store: Any, trainer: Any, protection: Protection, terms: Any) -> Client:
        entropy = int.from_bytes(derived(secrets[id], registry["federation"], "streams", 16), "big")
        return Client(id, data, store, trainer, replace(protection, entropy=entropy), terms)

    monkeypatch.setattr("coterie.engine.embedded.Client", client)


def join(net: Network, name: str, file: Path) -> None:
    net.supernode(name, f'site="{file}"')


def finished(net: Network, folder: Path, seconds: float = 600) -> coterie.Result:
    net.until((folder / "result.json").exists, "the run is finished", seconds)
    return coterie.Result.load(folder)


def deploy_with_tls(methods: list[str], folder: Path, rounds: int) -> None:
    """Run federations of two sites with TLS and node keys, one after the other, each into ``deployed/METHOD``."""
    with network(folder / "net", tls=True) as net:
        net.register("node-0", "node-1")
        for method in methods:
            write_app(
                folder / method, 2, algorithm=method, training={"rounds": rounds, "fraction": 1.0, "epochs": 1},
                engine={"deadline": 200.0}, run={"out": str(folder / "deployed" / method)},
            )  # fmt: skip
        for client in (1, 0):
            join(net, f"node-{client}", folder / f"site-{client}" / "site.toml")
        for method in methods:
            net.run(folder / method)
            finished(net, folder / "deployed" / method)
    assert net.left() == []
