"""Deployed federations without a network: the apps, the door, and a life of coming and going."""

import json
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("flwr", reason="needs the extra: pip install 'coterie[flower]'")

from flower_driver import METHODS
from flower_sites import PlayedGrid, hand_over_secrets, node_of, silent, write_app, write_site
from flwr.app import Context, RecordDict

import coterie
from coterie.algorithms import ALGORITHMS
from coterie.data import load
from coterie.deploy.deployment import serve
from coterie.deploy.terms import read_terms
from coterie.engine.flower.app import WIRE, client_app
from coterie.engine.flower.sharing import share
from coterie.engine.flower.simulation import FlowerSimulation, Recipe, SimulatedNodes
from coterie.engine.flower.site import DeployedSite
from coterie.engine.flower.transport import GridTransport
from coterie.errors import CoterieError
from coterie.federation.checkpoint import WriteOnce, load_checkpoint
from coterie.messages import ModelSpec, Plan, Request, Schedule, Train, wire
from coterie.models import MODELS, initial
from coterie.report.folders import make_page
from coterie.report.page import render
from coterie.results.run_folder import RunFolder
from coterie.studies.layers import compare
from coterie.testing import outcome

SAME = ("accuracy", "per_client", "groups", "grouping", "traffic", "events", "newcomers")


def asked(message: Any) -> Request | None:
    """The request in a message, if it is one."""
    records = message.content.array_records
    return wire.decode(records[WIRE][WIRE].data) if WIRE in records else None  # type: ignore[return-value]


@pytest.mark.integration
@pytest.mark.parametrize("algorithm", METHODS)
def test_sites_come_to_the_same_numbers_as_a_simulation(
    tmp_path: Path, algorithm: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If they hand over their secrets, and hold nothing back; their policies do not hinder any method."""
    write_app(tmp_path / "app", 3, algorithm=algorithm, training={"rounds": 2})
    grid = PlayedGrid()
    for client in (1, 0, 2):  # the order in which nodes come, and their numbers, mean nothing
        node = node_of(tmp_path / "app", site=str(tmp_path / f"site-{client}" / "site.toml"))
        grid.nodes[900 - 7 * client] = node
    serve(grid, read_terms(tmp_path / "app"))
    deployed = coterie.Result.load(tmp_path / "run")
    hand_over_secrets(monkeypatch, tmp_path / "run", tmp_path)
    simulated = coterie.run(
        algorithm=algorithm, dataset="digits-rotated", clients=3, fraction=1.0, rounds=2, epochs=1, model="mlp",
        out=str(tmp_path / "simulated"),
    )  # fmt: skip
    a, b = outcome(deployed), outcome(simulated)
    assert {key: a[key] for key in SAME} == {key: b[key] for key in SAME}
    states = [load_checkpoint(RunFolder(folder).checkpoint) for folder in (tmp_path / "run", tmp_path / "simulated")]
    assert WriteOnce(states[0]["algorithm"]).name == WriteOnce(states[1]["algorithm"]).name
    assert not list((tmp_path / "run" / "clients").rglob("*.safetensors"))  # personal models are at the sites


PLUGIN = """
import coterie
from coterie.algorithms.fedavg import FedAvg
from torch import nn

@coterie.algorithm("mine")
class Mine(FedAvg):
    \"\"\"FedAvg under another name.\"\"\"

@coterie.model("my-net")
def my_net(shape, classes):
    \"\"\"Without hidden layers.\"\"\"
    return nn.Sequential(nn.Flatten(), nn.Linear(64, classes))
"""


def test_methods_and_networks_of_ones_own_travel_with_the_app(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Wherever Flower has put the app, and in whatever folder its processes run."""
    for registry in (ALGORITHMS, MODELS):
        list(registry)  # loads what is built in
        monkeypatch.setattr(registry, "_items", dict(registry._items))  # and forgets what is not, afterwards
    write_app(
        tmp_path / "app", 2, algorithm="mine", model={"name": "my-net"}, training={"rounds": 1},
        run={"plugins": ["mine.py"]},
    )  # fmt: skip
    (tmp_path / "app" / "mine.py").write_text(PLUGIN)
    grid = PlayedGrid()
    for client in range(2):
        grid.nodes[client + 1] = node_of(tmp_path / "app", site=str(tmp_path / f"site-{client}" / "site.toml"))
    serve(grid, read_terms(tmp_path / "app"))
    result = coterie.Result.load(tmp_path / "run")
    assert (result.algorithm, result.network, result.rounds) == ("mine", "my-net", 1)
    assert f"done: accuracy L {result.accuracy['L']:.2%}" in capsys.readouterr().out


@pytest.mark.integration
def test_a_run_folder_says_that_its_clients_are_elsewhere(tmp_path: Path) -> None:
    write_app(tmp_path / "app", 2, training={"rounds": 1})
    grid = PlayedGrid()
    for client in range(2):
        grid.nodes[client + 1] = node_of(tmp_path / "app", site=str(tmp_path / f"site-{client}" / "site.toml"))
    serve(grid, read_terms(tmp_path / "app"))
    run = tmp_path / "run"
    assert coterie.Result.load(run).partition is None
    page = render(make_page([run]))
    assert "Their data stay with them" in page
    for false in ("divided by", "Who holds what", "The command that reruns it"):
        assert false not in page
    with pytest.raises(CoterieError, match="models are at their sites"):
        compare(run, None, 10)
    (run / "result.json").unlink()
    with pytest.raises(CoterieError, match="go on with 'flwr run'"):
        coterie.resume(run)


class Life:
    """Two sites of one group and one of another; what happens when is said by requests that pass."""

    def __init__(self, folder: Path, kill_server: bool) -> None:
        self.folder, self.kill_server = folder, kill_server
        self.app, self.grid = folder / "app", PlayedGrid()
        data = write_app(
            self.app, 8, training={"rounds": 6}, server={"min_clients": 3}, engine={"deadline": 0.2},
            evaluation={"every": 1}, newcomers={"epochs": 1},
        )  # fmt: skip
        self.files = {
            name: write_site(folder / name, name, data, client)
            for name, client in {"a": 0, "b": 4, "c": 1, "d": 5}.items()
        }
        for number, name in enumerate("abc"):
            self.grid.nodes[number + 1] = self.node(name)
        self.grid.before = self.happens
        self.done: set[str] = set()
        self.asked: list[tuple[int, int, str]] = []

    def node(self, name: str) -> Any:
        return node_of(self.app, site=str(self.files[name]))

    def happens(self, message: Any) -> None:
        request = asked(message)
        if request is None:
            return
        self.asked.append((message.metadata.dst_node_id, request.round, request.kind))
        train = request.round if request.kind == "train" else 0
        if train == 2 and self.once("b dies"):
            self.grid.nodes[2] = silent
        if train == 3 and self.once("d comes, b is gone"):
            self.grid.nodes[4] = self.node("d")
            del self.grid.nodes[2]
        if train == 4 and self.once("b comes back"):
            self.grid.nodes[5] = self.node("b")
        if train == 5 and self.kill_server and len([n for n in self.asked if n[1:] == (5, "train")]) == 3:
            self.kill_server = False
            raise ConnectionError("killed")

    def once(self, what: str) -> bool:
        new = what not in self.done
        self.done.add(what)
        return new

    def go(self) -> Any:
        serve(self.grid, read_terms(self.app))
        return coterie.Result.load(self.folder / "run")


def shared_entropy(site: DeployedSite, federation: str) -> int:
    """Let a site draw alike in all federations, so that two can be compared."""
    return zlib.crc32(site.name.encode())


@pytest.mark.integration
def test_the_life_of_a_federation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("coterie.engine.flower.deployment.LOOK_AGAIN", 0.0)
    monkeypatch.setattr(DeployedSite, "entropy", shared_entropy)
    life = Life(tmp_path / "killed", kill_server=True)
    with pytest.raises(ConnectionError):
        life.go()
    result = life.go()
    sites = json.loads((tmp_path / "killed" / "run" / "sites.json").read_text())["sites"]
    number = {name: entry["client"] for name, entry in sites.items()}
    assert number == {"a": 0, "b": 1, "c": 2, "d": 3}
    groups = result.groups
    assert groups[number["a"]] == groups[number["b"]] != groups[number["c"]]
    assert groups[number["d"]] == groups[number["c"]]  # the newcomer is where its data belong
    assert result.newcomers["clients"] == [3]
    assert result.newcomers["round"] == 3

    trained = [(node, round) for node, round, kind in life.asked if kind == "train"]
    assert (2, 2) in trained  # b is asked, and silent
    assert (4, 3) not in trained
    assert (4, 4) in trained  # d trains from the round after it came
    assert (5, 5) in trained  # b is back, at another node
    assert trained.count((1, 5)) == 2  # the server asked a again after it was killed
    late = next(event for event in result.events if event["kind"] == "late")
    assert late["first_round"] == 2

    federation = json.loads((tmp_path / "killed" / "run" / "sites.json").read_text())["federation"]
    own = tmp_path / "killed" / "b" / "state" / federation / str(number["b"])
    assert sorted(int(file.stem) for file in own.glob("*.safetensors")) == [5, 6]
    secret = (tmp_path / "killed" / "b" / "state" / "secret").read_text()
    assert secret not in (tmp_path / "killed" / "run" / "sites.json").read_text()

    undisturbed = Life(tmp_path / "whole", kill_server=False).go()
    assert undisturbed.accuracy == result.accuracy  # nothing is lost by the kill
    assert undisturbed.groups == groups
    assert [row["L"] for row in undisturbed.history] == [row["L"] for row in result.history]


@pytest.mark.integration
def test_another_run_does_not_see_the_states_of_the_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(DeployedSite, "entropy", shared_entropy)
    write_app(tmp_path / "app", 2, algorithm="scaffold", training={"rounds": 1}, server={"min_clients": 2})
    grid = PlayedGrid()
    for client in (0, 1):
        grid.nodes[client + 1] = node_of(tmp_path / "app", site=str(tmp_path / f"site-{client}" / "site.toml"))
    results = []
    for run in ("run", "again"):
        toml = (tmp_path / "app" / "federation.toml").read_text()
        (tmp_path / "app" / "federation.toml").write_text(toml.replace(f"{tmp_path}/run", f"{tmp_path}/{run}"))
        serve(grid, read_terms(tmp_path / "app"))
        results.append(outcome(coterie.Result.load(tmp_path / run)))
    assert results[0] == results[1]
    assert len([item for item in (tmp_path / "site-0" / "state").iterdir() if item.is_dir()]) == 2  # two federations


def test_a_finished_run_is_not_run_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_app(tmp_path / "app", 2, training={"rounds": 1}, algorithm="fedavg")
    grid = PlayedGrid()
    for client in (0, 1):
        grid.nodes[client + 1] = node_of(tmp_path / "app", site=str(tmp_path / f"site-{client}" / "site.toml"))
    serve(grid, read_terms(tmp_path / "app"))
    before = len(grid.sent)
    result = outcome(coterie.Result.load(tmp_path / "run"))
    serve(grid, read_terms(tmp_path / "app"))
    assert {kind for _, kind in grid.sent[before:]} == {"query.hello"}  # whoever is new would join
    assert outcome(coterie.Result.load(tmp_path / "run")) == result


def test_a_site_that_comes_when_training_is_over_joins(tmp_path: Path) -> None:
    data = write_app(tmp_path / "app", 2, training={"rounds": 1})
    grid = PlayedGrid()
    for client in (0, 1):
        grid.nodes[client + 1] = node_of(tmp_path / "app", site=str(tmp_path / f"site-{client}" / "site.toml"))
    serve(grid, read_terms(tmp_path / "app"))
    before = coterie.Result.load(tmp_path / "run")
    grid.nodes = {7: node_of(tmp_path / "app", site=str(write_site(tmp_path / "late", "late", data, 1)))}  # alone

    def killed(message: Any) -> None:
        if (request := asked(message)) is not None and request.kind == "newcomer":
            raise ConnectionError

    grid.before = killed
    with pytest.raises(ConnectionError):
        serve(grid, read_terms(tmp_path / "app"))
    assert outcome(coterie.Result.load(tmp_path / "run")) == outcome(before)
    grid.before = lambda message: None
    serve(grid, read_terms(tmp_path / "app"))
    after = coterie.Result.load(tmp_path / "run")
    assert (after.accuracy, after.history) == (before.accuracy, before.history)
    assert before.groups is not None
    assert after.newcomers is not None
    assert (after.newcomers["clients"], after.newcomers["groups"]) == ([2], [before.groups[1]])  # its twin's
    assert after.newcomers["accuracy"]["C"] == before.per_client["C"][1]
    assert after.newcomers["accuracy"]["L"] is not None


def test_a_run_that_began_otherwise_is_not_continued(tmp_path: Path) -> None:
    write_app(tmp_path / "app", 2, training={"rounds": 2}, algorithm="fedavg")
    grid = PlayedGrid()
    for client in (0, 1):
        grid.nodes[client + 1] = node_of(tmp_path / "app", site=str(tmp_path / f"site-{client}" / "site.toml"))

    def killed(message: Any) -> None:
        request = asked(message)
        if request is not None and request.round == 2:
            raise ConnectionError

    grid.before = killed
    with pytest.raises(ConnectionError):
        serve(grid, read_terms(tmp_path / "app"))
    path = tmp_path / "app" / "federation.toml"
    path.write_text(path.read_text().replace("epochs = 1", "epochs = 2"))
    with pytest.raises(coterie.errors.CoterieError, match=r"began with other settings \(training.epochs was 1, is 2\)"):
        serve(grid, read_terms(tmp_path / "app"))


def test_exported_models_of_a_deployed_federation(tmp_path: Path) -> None:
    from coterie.run.trained_models import find_model

    write_app(tmp_path / "app", 2, training={"rounds": 1})
    grid = PlayedGrid()
    for client in (0, 1):
        grid.nodes[client + 1] = node_of(tmp_path / "app", site=str(tmp_path / f"site-{client}" / "site.toml"))
    serve(grid, read_terms(tmp_path / "app"))
    found = find_model(tmp_path / "run", client=1)
    assert found.run.normalisation is not None
    assert all(np.isfinite(array).all() for array in found.params.values())


class Raises:
    """A trainer that fails as it is told to."""

    name = "raises"

    def __init__(self, error: Exception) -> None:
        self.error = error

    def train(self, job: Any) -> Any:
        raise self.error


@pytest.mark.parametrize(
    ("error", "kind", "told"),
    [
        (ValueError("3 is not 4"), RuntimeError, r"client 0, round 1 \(train\): ValueError: 3 is not 4"),
        (CoterieError("write 4"), CoterieError, r"^write 4 \(client 0, round 1 \(train\)\)$"),
        (KeyError("blamed"), CoterieError, r"^my_net.py, line 9 \(client 0, round 1 \(train\)\)$"),
    ],
)
def test_what_goes_wrong_in_another_process_is_told_here(
    error: Exception, kind: type[Exception], told: str, tmp_path: Path
) -> None:
    data = load("digits", clients=2, seed=0)
    spec = ModelSpec("mlp", data.shape, data.classes, {"hidden": 4})
    recipe = Recipe(
        share(data, tmp_path / "shared"),
        str(tmp_path / "states"),
        lambda: Raises(error),  # type: ignore[return-value,arg-type]
        lambda error: "my_net.py, line 9" if isinstance(error, KeyError) else None,
    )
    request = Request(1, 0, spec, (Train(Plan(lr=Schedule(0.1), epochs=1)),), {"model": initial(spec, 0)})

    nodes = SimulatedNodes(recipe)
    app = client_app(nodes, nodes.describe)
    grid = PlayedGrid()
    grid.nodes[7] = lambda message: app(message, Context(1, 7, {}, RecordDict(), {}))
    simulation = FlowerSimulation(recipe, {0: 5, 1: 5}, address="10.0.0.5:6379")
    simulation._transport, simulation._nodes = GridTransport(grid, 0.01), {0: 7}
    with pytest.raises(kind, match=told):
        list(simulation.exchange({0: request}, None))


@pytest.mark.integration
@pytest.mark.parametrize(
    "algorithm",
    [
        "sub-fedavg-un",
        "pacfl",
        *(pytest.param(name, marks=pytest.mark.slow) for name in ("scaffold", "lg-fedavg", "flis-dc")),
    ],
)
def test_a_server_killed_again_and_again_comes_to_the_same_numbers(
    tmp_path: Path, algorithm: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sites that are asked twice in a round start from the state they had before it."""
    monkeypatch.setattr(DeployedSite, "entropy", shared_entropy)

    class Killed(Exception):
        pass

    def federation(folder: Path) -> PlayedGrid:
        write_app(
            folder / "app", 3, algorithm=algorithm, training={"rounds": 6, "fraction": 0.7}, evaluation={"every": 1}
        )
        grid = PlayedGrid()
        for client in range(3):
            grid.nodes[client + 1] = node_of(folder / "app", site=str(folder / f"site-{client}" / "site.toml"))
        return grid

    serve(federation(tmp_path / "whole"), read_terms(tmp_path / "whole" / "app"))
    grid, kills, rng = federation(tmp_path / "torn"), 0, np.random.default_rng(0)
    while True:
        last = len(grid.sent) + int(rng.integers(11, 17))

        def kill(message: Any, last: int = last) -> None:
            if len(grid.sent) >= last:
                raise Killed

        grid.before = kill
        try:
            serve(grid, read_terms(tmp_path / "torn" / "app"))
            break
        except Killed:
            kills += 1
            assert kills < 30
    assert kills > 1
    whole, torn = (outcome(coterie.Result.load(tmp_path / which / "run")) for which in ("whole", "torn"))
    assert {key: torn[key] for key in (*SAME, "history")} == {key: whole[key] for key in (*SAME, "history")}


def test_a_folder_that_is_no_run_is_left_alone(tmp_path: Path) -> None:
    write_app(tmp_path / "app", 1)
    (tmp_path / "run" / "clients").mkdir(parents=True)
    (tmp_path / "run" / "clients" / "certificates.txt").write_text("mine")
    with pytest.raises(CoterieError, match="holds something else than the run of a federation: choose another out"):
        serve(PlayedGrid(), read_terms(tmp_path / "app"))
    assert (tmp_path / "run" / "clients" / "certificates.txt").read_text() == "mine"


@pytest.mark.parametrize(("before", "after"), [("std = ", "std = [3.0] # "), ("rounds = 1", "rounds = 2")])
def test_what_was_agreed_on_stays_as_it_was(tmp_path: Path, before: str, after: str) -> None:
    """A run that is there, finished or not, is not one of other terms."""
    write_app(tmp_path / "app", 1, algorithm="fedavg", training={"rounds": 1})
    grid = PlayedGrid()
    grid.nodes[1] = node_of(tmp_path / "app", site=str(tmp_path / "site-0" / "site.toml"))
    serve(grid, read_terms(tmp_path / "app"))
    terms = tmp_path / "app" / "federation.toml"
    text = terms.read_text()
    assert before in text
    terms.write_text(text.replace(before, after))
    sent = len(grid.sent)
    with pytest.raises(CoterieError, match="choose another out"):
        serve(grid, read_terms(tmp_path / "app"))
    assert len(grid.sent) == sent
    terms.write_text(text.replace("deadline = 60.0", "deadline = 61.0"))  # which may change
    serve(grid, read_terms(tmp_path / "app"))
